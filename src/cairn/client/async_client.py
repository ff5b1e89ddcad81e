"""The client: reads, submissions with safe retries, and streams of blocks, payments and confirmations."""

import asyncio
import ssl
import warnings
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import msgspec
from msgspec.json import Decoder

from cairn.client.account import Account, SignedTransfer
from cairn.client.async_reads import PROBE, TRANSACTION, AsyncReads, Direction, check_direction, check_same
from cairn.client.errors import (
    ApiError,
    ClientError,
    ConfirmationTimeout,
    InvalidField,
    NodeUnreachable,
    PublicKeyWarning,
    TxNotFound,
    UnexpectedAnswer,
    error_of,
)
from cairn.client.events import EventChannel
from cairn.client.following import BlockFollower, PaymentFollower, RevertWatch
from cairn.client.models import (
    Block,
    Confirmed,
    ConfirmedTransaction,
    Head,
    NewBlock,
    Outcome,
    Payment,
    Submitted,
)
from cairn.client.prover import Prover
from cairn.client.transport import (
    PROBLEM,
    UNREADABLE,
    Amounts,
    Deadline,
    Transport,
    delays,
    may_be_accepted,
    may_be_carried_out,
    path_of,
)
from cairn.client.wallet import AsyncWallet
from cairn.domain.genesis import DEV_SIGNER, Genesis, parse_exact_genesis
from cairn.domain.json_fields import MAX_BATCH

_RESULTS = Decoder(list[msgspec.Raw])
_SUBMITTED = Decoder(Submitted)

HOLD_S = 20.0
"""How long the node holds one request of `wait`; a longer wait sends several."""

LEAST_HOLD_S = 0.001
"""With a time-out of 0, `wait` still asks once."""

GenesisSource = str | Path | Genesis
"""The path of a genesis.json, or what it says."""

Submission = SignedTransfer | Mapping[str, Any]
"""A signed transfer, or the fields of `POST /tx`."""


class AsyncClient(AsyncReads):
    """A client of the node at `url`, such as `http://127.0.0.1:8645`.

    Use it as a context manager, in one event loop; any number of tasks may share it.

    A request is retried when the node cannot be reached or is busy (429, 503), with growing pauses and at least the
    node's `Retry-After`, until `timeout_s` is over. That is safe for signed transactions: sent twice, they are paid
    once. What the node of a dev chain signs is sent with an idempotency key, so it is paid once while that node runs.

    `blocks`, `payments` and `confirmations` wait for a node that stops answering, for `outage_timeout_s`, by default
    forever. A connection that should answer and is silent for `silence_timeout_s` counts as lost. `tls` replaces the
    system's trusted certificates.

    Amounts are `int`, exact at any size. With `amounts="string"` they are transmitted as strings of digits, for
    gateways that would round numbers.

    With `chain_id`, wallets sign for that chain only, whatever the node answers.

    With `genesis`, the chain's genesis.json, the client believes nothing: every answer that can be proven is proven by
    signatures from genesis on before it is returned or yielded; `InvalidProof` says what does not hold. Answers that
    nothing can prove are of types that are `Unproven`. The newest signed block that was checked is the `head`. Later
    ones must extend it, and an answer about the present that is older is refused. With `head_file` the head is also
    known after a restart.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = 30.0,
        outage_timeout_s: float | None = None,
        silence_timeout_s: float = 15.0,
        tls: ssl.SSLContext | None = None,
        chain_id: int | None = None,
        amounts: Amounts = "number",
        genesis: GenesisSource | None = None,
        head_file: str | Path | None = None,
    ) -> None:
        transport = Transport(url, timeout_s=timeout_s, silence_timeout_s=silence_timeout_s, tls=tls, amounts=amounts)
        prover = _prover(transport, genesis, head_file, timeout_s)
        super().__init__(transport, chain_id if prover is None else prover.chain_id(chain_id), prover)
        self._patient = self._transport.with_timeout(outage_timeout_s)
        self._patient_prover = None if prover is None else prover.for_streams(self._patient)
        self._channel = EventChannel(
            self._transport.url,
            timeout_s=timeout_s,
            outage_timeout_s=outage_timeout_s,
            silence_timeout_s=silence_timeout_s,
            tls=tls,
            amounts=amounts,
        )
        self._wallets: dict[Account, AsyncWallet] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection. Requests that are not answered are cancelled."""
        for wallet in self._wallets.values():
            await wallet.close()
        await self._transport.close()

    def wallet(self, account: Account) -> AsyncWallet:
        """The wallet of `account`, the same for every call, so that all payments of the account share its nonces."""
        # What a node says of pending payments cannot be proven, and what the wallet returns it signed itself.
        believing = copy(self)
        believing._prover = None
        return self._wallets.setdefault(account, AsyncWallet(believing, account))

    # The chain of signed blocks.

    @property
    def head(self) -> Head | None:
        """The newest signed block that was checked; None before the first one, and without a genesis."""
        return None if self._prover is None else self._prover.head

    async def check_head(self, other: Head) -> None:
        """Check that the `head` of another client, of any node, is on the same chain as the head of this one.

        Raises `ChainForked` if the two were shown different histories; keep both heads as evidence. Only for a client
        with a genesis.
        """
        if self._prover is None:
            raise InvalidField("genesis", "a client without the chain's genesis checks no signatures")
        await self._prover.check_head(other)

    # Submitting.

    async def submit(self, transfer: Submission, idempotency_key: str | None = None) -> Submitted:
        """Submit a transaction. When it returns, the transaction is accepted and on the node's disk.

        A signed transaction is safe to repeat. One that the node signs is, with the same `idempotency_key`: without
        one, only the attempts of this call have the same.
        """
        body = _body_of(transfer)
        try:
            submitted = await self._transport.post("/tx", body, _SUBMITTED, _key_for([body], idempotency_key))
            if isinstance(transfer, SignedTransfer):
                check_same(transfer.tx_hash, submitted.tx_hash)
        except ClientError as failure:
            if isinstance(transfer, SignedTransfer) and (
                isinstance(failure, NodeUnreachable) or may_be_accepted(failure)
            ):
                failure.tx_hash, failure.submission = transfer.tx_hash, body
            raise
        return submitted

    async def submit_all(
        self, transfers: Sequence[Submission], idempotency_key: str | None = None
    ) -> list[Submitted | ApiError]:
        """Submit any number of transactions. Returns a result or an error for each, in the same order.

        An error does not stop the others. Raises when a whole request fails. Earlier requests have been carried out
        then, and it is safe to submit all signed ones again.

        Those that the node signs are safe to repeat as a whole with the same `idempotency_key`, which is for one
        request: up to 100 transfers. Raises `InvalidField` for more.
        """
        if idempotency_key is not None and len(transfers) > MAX_BATCH:
            raise InvalidField("idempotency_key", f"is for {MAX_BATCH} transfers at most: they are one request")
        results: list[Submitted | ApiError] = []
        for start in range(0, len(transfers), MAX_BATCH):
            bodies = [_body_of(transfer) for transfer in transfers[start : start + MAX_BATCH]]
            results += await self._submit_batch(bodies, idempotency_key)
        for transfer, result in zip(transfers, results, strict=True):
            if isinstance(transfer, SignedTransfer) and isinstance(result, Submitted):
                check_same(transfer.tx_hash, result.tx_hash)
        return results

    async def _submit_batch(
        self, bodies: list[Mapping[str, Any]], chosen_key: str | None
    ) -> list[Submitted | ApiError]:
        """Repeat those that the node cannot accept now, until it can or the time is over."""
        key = _key_for(bodies, chosen_key)
        deadline = Deadline(self._transport.timeout_s)
        results: dict[int, Submitted | ApiError] = {}
        left = list(range(len(bodies)))
        uncertain: set[int] = set()
        for delay_s in delays():
            try:
                answers, was_repeated = await self._transport.post_again(
                    "/txs", [bodies[number] for number in left], _RESULTS, key, deadline
                )
            except NodeUnreachable as unreachable:
                # The ones that were answered did arrive.
                unreachable.was_sent = unreachable.was_sent or bool(results)
                raise
            uncertain.update(left if was_repeated else ())
            if len(answers) != len(left):
                raise UnexpectedAnswer(f"{self.url} gave {len(answers)} results for {len(left)} transactions")
            for number, answer in zip(left, answers, strict=True):
                results[number] = _mark_repeated(_result_of(answer), number, uncertain)
            left = [number for number in left if _is_transient(results[number])]
            if left and key is not None:
                # A key counts together with the place in the list.
                left = list(range(len(bodies)))
            if not left or not await deadline.pause(delay_s):
                break
        return [results[number] for number in range(len(bodies))]

    async def faucet(self, address: str, amount: int | None = None, idempotency_key: str | None = None) -> Submitted:
        """Get coins on a dev chain: `amount` wei, or the faucet's usual amount. Raises `NotADevChain` elsewhere.

        Without `idempotency_key`, only the attempts of this call have the same.
        """
        body: dict[str, Any] = {"address": address} | ({} if amount is None else {"amount": amount})
        return await self._transport.post("/faucet", body, _SUBMITTED, _key_or_new(idempotency_key))

    async def wait(self, tx_hash: str, timeout_s: float = 60.0) -> ConfirmedTransaction:
        """Return once the transaction is in a block, which is final.

        Raises `ConfirmationTimeout` when it is still pending after `timeout_s`, `TxDropped` when it was dropped from
        the mempool, and `TxNotFound` when the node does not know it after `timeout_s`: another node may have accepted
        it.
        """
        path, deadline = path_of("tx", tx_hash), Deadline(timeout_s)
        while True:
            held_s = max(deadline.left_s(at_most=HOLD_S), LEAST_HOLD_S)
            query = {"wait": round(held_s, 3)}
            asked_at = asyncio.get_running_loop().time()
            try:
                tx = await self._transport.get(path, TRANSACTION, query, deadline=deadline, held_s=held_s)
            except TxNotFound:
                # The node holds an unknown hash for the whole time, unless its chain is reverted meanwhile.
                was_held = asyncio.get_running_loop().time() - asked_at >= held_s
                if not was_held or deadline.left_s(at_most=1.0) <= 0:
                    raise
                continue
            check_same(tx_hash, tx.tx_hash)
            if isinstance(tx, ConfirmedTransaction):
                if self._prover is not None:
                    await self._prover.check_payment(tx)
                return tx
            if deadline.left_s(at_most=1.0) <= 0:
                raise ConfirmationTimeout(tx_hash, timeout_s)

    async def submit_update(self, update: Mapping[str, Any]) -> None:
        """Submit a signed change of a network's validators. Raises `UpdateRefused`.

        The change happens when a block holds it, and nodes do not store it until then. Check `validators`, and submit
        the update again if it has not happened.
        """
        await self._transport.post("/validators", update, PROBE)

    # Following.

    async def blocks(self, from_height: int | None = None) -> AsyncGenerator[Block, None]:
        """Every block from `from_height` on, stored and new: none is skipped and none comes twice.

        Continues after lost connections and restarts of the node. Without `from_height`, the first block is the next
        one that is made after the iteration has begun.

        Raises `NodeUnreachable` when the node cannot be reached at first, or does not answer for `outage_timeout_s`;
        `BlockNotKept` when the node no longer keeps the block; `ChainReverted` when a dev chain was reverted and a
        block that you were given is void; `ChainChanged`, its base class, when the node has another chain now.
        """
        follower = BlockFollower(self._patient, await self.chain(), self._channel, self._patient_prover)
        async with aclosing(follower.blocks(from_height)) as blocks:
            async for block in blocks:
                yield block

    async def payments(
        self, addresses: str | Iterable[str], from_height: int | None = None, direction: Direction = "in"
    ) -> AsyncGenerator[Payment, None]:
        """Every confirmed transfer to one of the addresses (up to 10,000), in the order of the chain.

        With `direction="out"`, every transfer from one of them; with "both", both. A transfer between two of them
        comes once. Otherwise like `blocks`. Raises `InvalidField` for another direction, and without an address.
        """
        followed = _followed(addresses, direction)
        follower = PaymentFollower(self._patient, await self.chain(), self._channel, self._patient_prover)
        async with aclosing(follower.payments(followed, from_height, direction)) as payments:
            async for payment in payments:
                yield payment

    async def payments_and_blocks(
        self, addresses: str | Iterable[str], from_height: int | None = None, direction: Direction = "in"
    ) -> AsyncGenerator[Payment | NewBlock, None]:
        """Like `payments`, and between them each new block: all payments of the blocks below it have come.

        So a program that stores how far it is need not go back to the last payment. Of stored blocks only the payments
        come.
        """
        followed = _followed(addresses, direction)
        follower = PaymentFollower(self._patient, await self.chain(), self._channel, self._patient_prover)
        async with aclosing(follower.payments_and_blocks(followed, from_height, direction)) as events:
            async for event in events:
                yield event

    async def confirmations(self, tx_hashes: Iterable[str]) -> AsyncGenerator[Outcome, None]:
        """`Confirmed` or `Dropped` for each transaction, as soon as it is known. Ends after the last one.

        Continues after lost connections and restarts, like `blocks`. A hash that the node does not know is waited for.
        Raises `ChainReverted` when a dev chain is reverted meanwhile: transactions above its `height` are no longer
        confirmed, and pending ones may be gone.
        """
        unsettled = list(tx_hashes)
        if not unsettled:
            return
        reverts = RevertWatch(self._patient, await self.chain())
        async with aclosing(self._channel.outcomes(unsettled, reverts.refuse)) as outcomes:
            async for outcome in outcomes:
                if self._patient_prover is not None and isinstance(outcome, Confirmed):
                    await self._patient_prover.check_payment(outcome)
                yield outcome


def _prover(
    transport: Transport, genesis: GenesisSource | None, head_file: str | Path | None, patience_s: float
) -> Prover | None:
    """None without a genesis. Raises `InvalidField` or `MalformedJson` for a file that cannot be used."""
    if genesis is None:
        if head_file is not None:
            raise InvalidField("head_file", "is for a client with a genesis: others check no signatures")
        return None
    known = genesis if isinstance(genesis, Genesis) else _read_genesis(genesis)
    if known.signer == DEV_SIGNER:
        warnings.warn("everybody has the key of a dev chain: its signatures prove nothing", PublicKeyWarning, 3)
    return Prover(transport, known, None if head_file is None else Path(head_file), patience_s)


def _read_genesis(file: str | Path) -> Genesis:
    if not isinstance(file, str | Path):
        raise InvalidField("genesis", f"must be the path of the chain's genesis.json, or a Genesis, not {type(file)}")
    try:
        content = Path(file).read_bytes()
    except (OSError, ValueError) as error:
        raise InvalidField("genesis", f"{str(file)[:200]!r} cannot be read: {error}") from None
    return parse_exact_genesis(content)


def _followed(addresses: str | Iterable[str], direction: Direction) -> list[str]:
    """Each of the addresses once. Raises `InvalidField` for none, and for a direction that is none."""
    check_direction(direction)
    followed = list(dict.fromkeys([addresses] if isinstance(addresses, str) else addresses))
    if not followed:
        raise InvalidField("addresses", "holds no address")
    return followed


def _body_of(transfer: Submission) -> Mapping[str, Any]:
    return transfer.body() if isinstance(transfer, SignedTransfer) else transfer


def _key_for(bodies: Sequence[Mapping[str, Any]], chosen: str | None = None) -> str | None:
    """The idempotency key, for what the node signs: without one, each request would be another transfer."""
    return None if all("signature" in body for body in bodies) else _key_or_new(chosen)


def _key_or_new(chosen: str | None) -> str:
    return str(uuid4()) if chosen is None else chosen


def _result_of(item: msgspec.Raw) -> Submitted | ApiError:
    """One item of the answer to POST /txs: a result or a problem."""
    try:
        try:
            return _SUBMITTED.decode(item)
        except msgspec.ValidationError:
            return error_of(PROBLEM.decode(item))
    except UNREADABLE as error:
        raise UnexpectedAnswer(f"a result of a submission cannot be read: {error}") from None


def _mark_repeated(result: Submitted | ApiError, number: int, uncertain: set[int]) -> Submitted | ApiError:
    """Record in an error whether an earlier attempt may have been accepted, and whether this one may have been."""
    if isinstance(result, ApiError):
        result.was_repeated = number in uncertain
        if may_be_carried_out(result):
            uncertain.add(number)
    return result


def _is_transient(result: Submitted | ApiError) -> bool:
    return isinstance(result, ApiError) and result.is_transient
