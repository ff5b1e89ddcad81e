"""The client: reads, submissions with the retries that are safe, and streams of what is new."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self

import msgspec
from msgspec.json import Decoder

from cairn.client.account import Account, SignedTransfer
from cairn.client.amount_strings import Amounts
from cairn.client.async_reads import PROBE, TRANSACTION, AsyncReads, check_same
from cairn.client.backoff import Deadline, delays
from cairn.client.errors import (
    ApiError,
    ConfirmationTimeout,
    NodeUnreachable,
    Problem,
    TxNotFound,
    error_of,
)
from cairn.client.events import EventChannel
from cairn.client.following import BlockFollower, PaymentFollower, RevertWatch
from cairn.client.models import (
    Block,
    ConfirmedTransaction,
    Outcome,
    Submitted,
)
from cairn.client.transport import Repeat, Transport, may_be_taken, path_of
from cairn.client.wallet import AsyncWallet

_PROBLEM = Decoder(Problem)
_RESULTS = Decoder(list[msgspec.Raw])
_SUBMITTED = Decoder(Submitted)

MAX_BATCH = 100
HOLD_S = 20.0
"""How long one request for a confirmation is held by the node; a longer wait is several of them."""

LEAST_HOLD_S = 0.001
"""So that a wait without any time still asks once."""

Submission = SignedTransfer | Mapping[str, Any]
"""A signed transfer, or the fields of `POST /tx` as they are."""


class AsyncClient(AsyncReads):
    """A node at `url`, such as `http://127.0.0.1:8645`.

    What fails because the node cannot be reached or is busy (429, 503) is tried again, with growing pauses and as the
    node's `Retry-After` says, for `timeout_s` in all. That is safe for everything that is signed: sent twice, it
    happens once. A submission that the node is to sign (dev chains) and that names no nonce is not sent twice.

    Use it as a context manager, in one event loop; any number of tasks may share it. What follows the chain waits for
    a node that went away for `outage_timeout_s`, by default for ever. A connection that owes an answer and is silent
    for `silence_timeout_s` is taken for dead. `tls` replaces the system's trusted certificates.

    Amounts are `int`, exact at any size. `amounts="string"` has them travel as strings of digits, for a gateway in
    between that would round numbers.

    With `chain_id`, wallets sign for that chain only, whatever the node says that it is of.
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
    ) -> None:
        transport = Transport(url, timeout_s=timeout_s, silence_timeout_s=silence_timeout_s, tls=tls, amounts=amounts)
        super().__init__(transport, chain_id)
        self._patient = self._transport.with_timeout(outage_timeout_s)
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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; what is still being sent is given up."""
        for wallet in self._wallets.values():
            await wallet.close()
        await self._transport.close()

    def wallet(self, account: Account) -> AsyncWallet:
        """The account at this node; always the same one, so that all who send from it share its nonces."""
        return self._wallets.setdefault(account, AsyncWallet(self, account))

    # Submitting.

    async def submit(self, transfer: Submission) -> Submitted:
        """Hand a transaction over; on return it is admitted and on the node's disk. Safe to call again."""
        body = _body_of(transfer)
        try:
            submitted = await self._transport.post("/tx", body, _SUBMITTED, _repeat_of([body]))
        except NodeUnreachable as unreachable:
            if isinstance(transfer, SignedTransfer):
                unreachable.tx_hash, unreachable.submission = transfer.tx_hash, body
            raise
        if isinstance(transfer, SignedTransfer):
            check_same(transfer.tx_hash, submitted.tx_hash)
        return submitted

    async def submit_all(self, transfers: Sequence[Submission]) -> list[Submitted | ApiError]:
        """Hand over any number. Returns a result or a refusal for each, in order; one refused does not stop the others.

        Raises when a request as a whole fails; what came before it has happened, and all may be submitted again.
        """
        results: list[Submitted | ApiError] = []
        for start in range(0, len(transfers), MAX_BATCH):
            bodies = [_body_of(transfer) for transfer in transfers[start : start + MAX_BATCH]]
            results += await self._submit_batch(bodies)
        for transfer, result in zip(transfers, results, strict=True):
            if isinstance(transfer, SignedTransfer) and isinstance(result, Submitted):
                check_same(transfer.tx_hash, result.tx_hash)
        return results

    async def _submit_batch(self, bodies: list[Mapping[str, Any]]) -> list[Submitted | ApiError]:
        """Send what the node cannot take just now again, until it can or the time is over."""
        repeat = _repeat_of(bodies)
        deadline = Deadline(self._transport.timeout_s)
        results: dict[int, Submitted | ApiError] = {}
        left = list(range(len(bodies)))
        uncertain: set[int] = set()
        for delay_s in delays():
            try:
                answers, was_repeated = await self._transport.post_again(
                    "/txs", [bodies[number] for number in left], _RESULTS, repeat, deadline
                )
            except NodeUnreachable as unreachable:
                # What was answered before has arrived, whatever became of the rest.
                unreachable.was_sent = unreachable.was_sent or bool(results)
                raise
            uncertain.update(left if was_repeated else ())
            for number, answer in zip(left, answers, strict=True):
                results[number] = _noted(_result_of(answer), number, uncertain)
            left = [number for number in left if repeat == "always" and _is_transient(results[number])]
            if not left or not await deadline.pause(delay_s):
                break
        return [results[number] for number in range(len(bodies))]

    async def faucet(self, address: str, amount: int | None = None) -> Submitted:
        """Ask a dev chain for coins, `amount` wei or as many as its faucet gives. Raises `NotADevChain` elsewhere."""
        body: dict[str, Any] = {"address": address} | ({} if amount is None else {"amount": amount})
        return await self._transport.post("/faucet", body, _SUBMITTED, "if unsent")

    async def wait(self, tx_hash: str, timeout_s: float = 60.0) -> ConfirmedTransaction:
        """Return once the transaction is in a block, which is for ever.

        Raises `ConfirmationTimeout` when it is still pending after `timeout_s`, `TxDropped` when it left the mempool,
        and `TxNotFound` when the node has not seen it by then: another one may have taken it.
        """
        path, deadline = path_of("tx", tx_hash), Deadline(timeout_s)
        while True:
            held_s = max(deadline.left_s(at_most=HOLD_S), LEAST_HOLD_S)
            query = {"wait": round(held_s, 3)}
            asked_at = asyncio.get_running_loop().time()
            try:
                tx = await self._transport.get(path, TRANSACTION, query, deadline=deadline, held_s=held_s)
            except TxNotFound:
                # An unknown hash is held to the end; before it, the node knows that it will not come: a chain reverted.
                was_held = asyncio.get_running_loop().time() - asked_at >= held_s
                if not was_held or deadline.left_s(at_most=1.0) <= 0:
                    raise
                continue
            check_same(tx_hash, tx.tx_hash)
            if isinstance(tx, ConfirmedTransaction):
                return tx
            if deadline.left_s(at_most=1.0) <= 0:
                raise ConfirmationTimeout(tx_hash, timeout_s)

    async def submit_update(self, update: Mapping[str, Any]) -> None:
        """Hand over a change of a network's validators that its administrators signed. Raises `UpdateRefused`.

        Only a block makes it happen, and no node keeps it until then: look at `validators`, and submit it again.
        """
        await self._transport.post("/validators", update, PROBE)

    # Following.

    async def blocks(self, from_height: int | None = None) -> AsyncGenerator[Block, None]:
        """Every block from `from_height` on, then each new one as it comes: none left out, none twice.

        Goes on over lost connections and restarts of the node. Without `from_height` it begins with the next block
        after the first step. Raises `NodeUnreachable` when the node cannot be reached at first, or stays away for
        longer than `outage_timeout_s`; `BlockNotFound` when the node does not keep blocks as old as that;
        `ChainReverted` when a dev chain went back behind a block that was given, and `ChainChanged`, which that one is
        too, when another chain is in its place.
        """
        async with aclosing(await self._followed(from_height, lambda: None)) as blocks:
            async for block in blocks:
                yield block

    async def payments(
        self, address: str, from_height: int | None = None
    ) -> AsyncGenerator[ConfirmedTransaction, None]:
        """Every confirmed transfer to `address`, in the order of the chain. Begins, goes on and ends as `blocks`."""
        follower = PaymentFollower(self._patient, address)
        async with aclosing(follower.payments(await self._followed(from_height, follower.forget))) as payments:
            async for payment in payments:
                yield payment

    async def confirmations(self, tx_hashes: Iterable[str]) -> AsyncGenerator[Outcome, None]:
        """How each of the transactions ends, as it does: `Confirmed` or `Dropped`, once each, then it is over.

        Goes on over lost connections and restarts, as `blocks`. A hash that the node has never seen is waited for.
        Raises `ChainReverted` whenever a dev chain goes back meanwhile: what was confirmed above its `height` is so no
        more, and what was pending may be gone.
        """
        unsettled = list(tx_hashes)
        if not unsettled:
            return
        reverts = RevertWatch(self._patient, await self.chain())
        async with aclosing(self._channel.outcomes(unsettled, reverts.refuse)) as outcomes:
            async for outcome in outcomes:
                yield outcome

    async def _followed(self, from_height: int | None, on_rejoin: Callable[[], None]) -> AsyncGenerator[Block, None]:
        return BlockFollower(self._patient, await self.chain(), self._channel, on_rejoin).blocks(from_height)


def _body_of(transfer: Submission) -> Mapping[str, Any]:
    return transfer.body() if isinstance(transfer, SignedTransfer) else transfer


def _repeat_of(bodies: Sequence[Mapping[str, Any]]) -> Repeat:
    """Unsigned and without a nonce, a transfer would be another one each time that it is sent."""
    is_safe = all("signature" in body or "nonce" in body for body in bodies)
    return "always" if is_safe else "if unsent"


def _result_of(item: msgspec.Raw) -> Submitted | ApiError:
    """One item of the answer to POST /txs: a result, or a problem in its place."""
    try:
        return _SUBMITTED.decode(item)
    except msgspec.ValidationError:
        return error_of(_PROBLEM.decode(item))


def _noted(result: Submitted | ApiError, number: int, uncertain: set[int]) -> Submitted | ApiError:
    """Tell a refusal whether what it refuses may have been taken before; remember whether it may have been now."""
    if isinstance(result, ApiError):
        result.was_repeated = number in uncertain
        if may_be_taken(result):
            uncertain.add(number)
    return result


def _is_transient(result: Submitted | ApiError) -> bool:
    return isinstance(result, ApiError) and result.is_transient
