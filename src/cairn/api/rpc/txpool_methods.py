"""`txpool_`: the mempool as geth shows it."""

from collections.abc import Callable
from operator import attrgetter

import msgspec

from cairn.api.chain_reads import list_pending
from cairn.api.rpc.caller import LargeAnswers
from cairn.api.rpc.dispatch import Later, rpc_method
from cairn.api.rpc.long_results import LongResult, long_object
from cairn.api.rpc.objects import transaction_object
from cairn.api.rpc.rpc_chain import MethodGroup, RpcChain
from cairn.api.rpc.values import parse_account, quantity
from cairn.core.gateway import PendingTx
from cairn.domain.crypto import checksum_address
from cairn.domain.types import Address, Tx
from cairn.time_shares import give_way, in_slices

MAX_SHOWN = 5_000
"""Transactions in one answer, the first in mining order: a full mempool would take some fifty megabytes."""

MAX_KEPT = 250
"""Transactions in an answer that is kept while nothing changes: some 150 KB."""

Listing = dict[Address, dict[str, bytes]]
"""Encoded transactions, by sender and nonce."""
Show = Callable[[Tx], bytes]
"""Encodes one."""

_encode = msgspec.json.Encoder().encode


class TxpoolMethods(MethodGroup):
    def __init__(self, chain: RpcChain) -> None:
        super().__init__(chain)
        self._listings = LargeAnswers(kept_by_batches=False)
        """Apart from those made from the store, which can be read while the core hangs."""
        self._kept: dict[Show, tuple[tuple[int, int], bytes]] = {}
        """The latest answer about the whole mempool, and what the board showed before the core was asked."""

    @rpc_method("txpool_status")
    def status(self) -> object:
        # Looked at before: they are of the core that the view then shows the head of.
        counts = self._view.board.counts
        return shown_counts(*counts) if self._view.is_at_head() else Later(self._ask_status)

    async def _ask_status(self) -> dict[str, str]:
        status = await self._gateway.status()
        return shown_counts(status.pending, status.queued)

    @rpc_method("txpool_content")
    def content(self) -> object:
        return self._whole(self._object)

    @rpc_method("txpool_contentFrom")
    async def content_from(self, account: object) -> LongResult:
        sender = parse_account(account, "address")
        shown = await self._list(sender, self._object)
        return long_object((name, by_nonce(each.get(sender, {}))) for name, each in shown.items())

    @rpc_method("txpool_inspect")
    def inspect(self) -> object:
        return self._whole(summary)

    def _whole(self, show: Show) -> object:
        """The answer that was given last, if nothing in the mempool has changed since it was asked for."""
        kept = self._kept.get(show)
        if kept is not None and kept[0] == self._mark() and self._view.is_at_head():
            return msgspec.Raw(kept[1])
        return Later(self._list_whole, show)

    async def _list_whole(self, show: Show) -> object:
        # Before the core is asked: whatever changes while the answer is on its way makes it void.
        mark = self._mark()
        shown = await self._list(None, show)
        whole = long_object((name, by_sender(each)) for name, each in shown.items())
        if sum(len(txs) for each in shown.values() for txs in each.values()) > MAX_KEPT:
            return whole
        answer = b"".join(whole.pieces)
        self._kept[show] = mark, answer
        return msgspec.Raw(answer)

    def _mark(self) -> tuple[int, int]:
        return self._view.generation, self._view.board.changes

    async def _list(self, sender: Address | None, show: Show) -> dict[str, Listing]:
        async with self._listings.place():
            page = await list_pending(self._gateway, MAX_SHOWN, None, sender)
            return await self._sorted(page.items, show)

    def _object(self, tx: Tx) -> bytes:
        return _encode(transaction_object(tx, self._chain.info.chain_id, None))

    async def _sorted(self, items: list[PendingTx], show: Show) -> dict[str, Listing]:
        """By sender and nonce; what follows a missing nonce is queued."""
        pending, queued = Listing(), Listing()
        # Decoding the last of them was enough for one step.
        await give_way()
        # One sender after the other: sorting all at once would take too long.
        items_of: dict[Address, list[PendingTx]] = {}
        async for item in in_slices(items):
            items_of.setdefault(item.tx.sender, []).append(item)
        async for sender in in_slices(sorted(items_of)):
            async for item in in_slices(sorted(items_of[sender], key=attrgetter("tx.nonce"))):
                listing = pending if item.waits_for_nonce is None else queued
                listing.setdefault(sender, {})[str(item.tx.nonce)] = show(item.tx)
        return {"pending": pending, "queued": queued}


def shown_counts(pending: int, queued: int) -> dict[str, str]:
    return {"pending": quantity(pending), "queued": quantity(queued)}


def summary(tx: Tx) -> bytes:
    # As in geth, which shows the cap as the price of type 2.
    return _encode(f"{checksum_address(tx.to)}: {tx.value} wei + {tx.gas} gas × {tx.fee_cap} wei")


def by_sender(shown: Listing) -> LongResult:
    return long_object((checksum_address(sender), by_nonce(txs)) for sender, txs in shown.items())


def by_nonce(txs: dict[str, bytes]) -> LongResult:
    return long_object((nonce, LongResult((shown,))) for nonce, shown in txs.items())
