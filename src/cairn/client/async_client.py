"""The client: every read and every submission, with the retries that are safe."""

import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
from msgspec.json import Decoder

from cairn.client.account import Account, SignedTransfer
from cairn.client.backoff import Deadline, delays
from cairn.client.errors import ApiError, ConfirmationTimeout, NodeUnreachable, Problem, error_of
from cairn.client.models import (
    AccountState,
    Block,
    BlockSummary,
    Chain,
    ConfirmedTransaction,
    MempoolItem,
    Probe,
    Proof,
    Readiness,
    Submitted,
    Transaction,
    Validators,
)
from cairn.client.transport import Repeat, Transport
from cairn.client.wallet import AsyncWallet

T = TypeVar("T")

_ACCOUNT = Decoder(AccountState)
_BLOCK = Decoder(Block)
_BLOCKS = Decoder(list[BlockSummary])
_CHAIN = Decoder(Chain)
_HISTORY = Decoder(list[ConfirmedTransaction])
_MEMPOOL = Decoder(list[MempoolItem])
_PROBE = Decoder(Probe)
_PROBLEM = Decoder(Problem)
_PROOF = Decoder(Proof)
_READINESS = Decoder(Readiness)
_RESULTS = Decoder(list[msgspec.Raw])
_SUBMITTED = Decoder(Submitted)
_TRANSACTION: Decoder[Transaction] = Decoder(Transaction)
_VALIDATORS = Decoder(Validators)

MAX_BATCH = 100
MAX_PAGE = 1_000
HOLD_S = 20.0
"""How long one request for a confirmation is held by the node; a longer wait is several of them."""

Submission = SignedTransfer | Mapping[str, Any]
"""A signed transfer, or the fields of `POST /tx` as they are."""


class AsyncClient:
    """A node at `url`, such as `http://127.0.0.1:8645`.

    What fails because the node cannot be reached or is busy (429, 503) is tried again, with growing pauses and as the
    node's `Retry-After` says, for `timeout_s` in all. That is safe for everything that is signed: sent twice, it
    happens once. A submission that the node is to sign (dev chains) and that names no nonce is not sent twice.

    Use it as a context manager, in one event loop; any number of tasks may share it. `tls` replaces the system's
    trusted certificates.
    """

    def __init__(self, url: str, *, timeout_s: float = 30.0, tls: ssl.SSLContext | None = None) -> None:
        self._transport = Transport(url, timeout_s, tls)
        self._wallets: dict[Account, AsyncWallet] = {}
        self._closing = AsyncExitStack()

    @property
    def url(self) -> str:
        return self._transport.url

    async def __aenter__(self) -> Self:
        await self._closing.enter_async_context(self._transport)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._closing.__aexit__(kind, error, trace)

    def wallet(self, account: Account) -> AsyncWallet:
        """The account at this node; always the same one, so that all who send from it share its nonces."""
        wallet = self._wallets.get(account)
        if wallet is None:
            wallet = self._wallets[account] = AsyncWallet(self, account)
            self._closing.push_async_callback(wallet.close)
        return wallet

    # Submitting.

    async def submit(self, transfer: Submission) -> Submitted:
        """Hand a transaction over; on return it is admitted and on the node's disk. Safe to call again."""
        body = _body_of(transfer)
        try:
            return await self._transport.post("/tx", body, _SUBMITTED, _repeat_of([body]))
        except NodeUnreachable as unreachable:
            if isinstance(transfer, SignedTransfer):
                unreachable.tx_hash = transfer.tx_hash
            raise

    async def submit_all(self, transfers: Sequence[Submission]) -> list[Submitted | ApiError]:
        """Hand over any number. Returns a result or a refusal for each, in order; one refused does not stop the others.

        Raises when a request as a whole fails; what came before it has happened, and all may be submitted again.
        """
        results: list[Submitted | ApiError] = []
        for start in range(0, len(transfers), MAX_BATCH):
            bodies = [_body_of(transfer) for transfer in transfers[start : start + MAX_BATCH]]
            results += await self._submit_batch(bodies)
        return results

    async def _submit_batch(self, bodies: list[Mapping[str, Any]]) -> list[Submitted | ApiError]:
        """Send what the node cannot take just now again, until it can or the time is over."""
        repeat = _repeat_of(bodies)
        deadline = Deadline(self._transport.timeout_s)
        results: dict[int, Submitted | ApiError] = {}
        left = list(range(len(bodies)))
        for delay_s in delays():
            answers = await self._transport.post("/txs", [bodies[number] for number in left], _RESULTS, repeat)
            results |= {number: _result_of(answer) for number, answer in zip(left, answers, strict=True)}
            left = [number for number in left if repeat == "always" and _is_transient(results[number])]
            if not left or not await deadline.pause(delay_s):
                break
        return [results[number] for number in range(len(bodies))]

    async def wait(self, tx_hash: str, timeout_s: float = 60.0) -> ConfirmedTransaction:
        """Return once the transaction is in a block, which is for ever.

        Raises `ConfirmationTimeout` when it is still pending after `timeout_s`, `TxDropped` when it left the mempool,
        and `TxNotFound` when the node has never seen it.
        """
        deadline = Deadline(timeout_s)
        while True:
            held_s = deadline.left_s(at_most=HOLD_S)
            query = {"wait": round(held_s, 3)}
            tx = await self._transport.get(f"/tx/{tx_hash}", _TRANSACTION, query, deadline=deadline, held_s=held_s)
            if isinstance(tx, ConfirmedTransaction):
                return tx
            if deadline.left_s(at_most=1.0) <= 0:
                raise ConfirmationTimeout(tx_hash, timeout_s)

    # Reading.

    async def transaction(self, tx_hash: str) -> Transaction:
        """Raises `TxNotFound`, or `TxDropped` with the reason."""
        return await self._transport.get(f"/tx/{tx_hash}", _TRANSACTION)

    async def proof(self, tx_hash: str) -> Proof:
        """What shows that a block holds the transaction; check it with `Proof.verify`. `TxNotFound` while pending."""
        return await self._transport.get(f"/tx/{tx_hash}/proof", _PROOF)

    async def block(self, block: str | int = "latest") -> Block:
        """By hash, by height, or the newest. Raises `BlockNotFound`."""
        return await self._transport.get(f"/block/{block}", _BLOCK)

    async def account(self, address: str) -> AccountState:
        """Balance and nonces; an address that was never used is an empty account."""
        return await self._transport.get(f"/account/{address}", _ACCOUNT)

    async def chain(self) -> Chain:
        """The chain's parameters, its newest block, and how full the mempool is."""
        return await self._transport.get("/chain", _CHAIN)

    async def validators(self) -> Validators:
        """Who makes the blocks of a network. Raises `NotFound` on a chain with one block maker."""
        return await self._transport.get("/validators", _VALIDATORS)

    async def recent_blocks(self, limit: int | None = None) -> AsyncGenerator[BlockSummary, None]:
        """The newest first, down to the oldest that the node keeps, or `limit` of them."""
        async for block in self._listed("/blocks", _BLOCKS, {}, limit):
            yield block

    async def history(self, address: str, limit: int | None = None) -> AsyncGenerator[ConfirmedTransaction, None]:
        """What the account sent and received, the newest first."""
        async for tx in self._listed(f"/account/{address}/txs", _HISTORY, {}, limit):
            yield tx

    async def pending(self, sender: str | None = None, limit: int | None = None) -> AsyncGenerator[MempoolItem, None]:
        """The mempool in the order in which it will be mined, of all senders or of one."""
        query = {} if sender is None else {"from": sender}
        async for item in self._listed("/mempool", _MEMPOOL, query, limit):
            yield item

    async def _listed(
        self, path: str, page_of: Decoder[list[T]], query: Mapping[str, str], limit: int | None
    ) -> AsyncGenerator[T, None]:
        """Page after page, each asked for when the one before is used up."""
        cursor: str | None = None
        left = MAX_PAGE if limit is None else limit
        while left > 0:
            page: dict[str, str | int] = {**query, "limit": min(left, MAX_PAGE)}
            if cursor is not None:
                page["after"] = cursor
            items, cursor = await self._transport.get_page(path, page_of, page)
            for item in items:
                yield item
            if cursor is None:
                return
            if limit is not None:
                left -= len(items)

    # Probes: one attempt each, since they tell how things are now.

    async def health(self) -> Probe:
        """Whether the service is alive. Raises `NodeUnreachable`."""
        return await self._transport.probe("/health", _PROBE)

    async def startup(self) -> Probe:
        """`started`, or `starting` while the node initialises."""
        return await self._transport.probe("/startup", _PROBE)

    async def ready(self) -> Readiness:
        """Whether the node takes requests, and which part fails when it does not."""
        return await self._transport.probe("/ready", _READINESS)


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


def _is_transient(result: Submitted | ApiError) -> bool:
    return isinstance(result, ApiError) and result.is_transient
