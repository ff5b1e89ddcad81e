"""Proven histories: each page of a list is compared with the statement of the blocks that it covers.

A statement links every change of the account to the one before, so it shows a payment that the list leaves out.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator

import msgspec

from cairn.client.errors import BlockNotKept, InvalidProof, StatementTooLong
from cairn.client.models import ConfirmedTransaction
from cairn.client.proven_answers import check_answer, transaction_of
from cairn.client.prover import Prover
from cairn.client.transport import ListPage
from cairn.domain.json_fields import hex_text
from cairn.domain.statement_checks import ProvenStatement, StatementEntry
from cairn.domain.types import Account


class HistoryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which payments of an account are meant; all that is given must hold."""

    address: str
    direction: str | None = None
    counterparty: str | None = None
    data: bytes | None = None
    from_height: int | None = None
    to_height: int | None = None
    from_time: int | None = None
    to_time: int | None = None
    oldest_first: bool = False

    def select(self, entry: StatementEntry) -> Iterator[ConfirmedTransaction]:
        """What one block holds of them, in the order of the block."""
        time = entry.block.header.timestamp
        if (self.from_time or 0) <= time and (self.to_time is None or time <= self.to_time):
            for payment in entry.payments:
                if self._is_meant(hex_text(payment.tx.sender), hex_text(payment.tx.to), payment.tx.data):
                    yield transaction_of(payment.tx, entry.block, payment.index)

    def _is_meant(self, sender: str, to: str, data: bytes) -> bool:
        own = self.address.lower()
        ways = {"in": [(to, sender)], "out": [(sender, to)]}.get(self.direction or "", [(to, sender), (sender, to)])
        others = [other for self_side, other in ways if self_side == own]
        is_known = self.counterparty is None or self.counterparty.lower() in others
        return bool(others) and is_known and self.data in (None, data)


class ProvenHistory:
    """Compares the pages of one list, in their order."""

    def __init__(self, prover: Prover, meant: HistoryFilter, signed: int) -> None:
        self._prover = prover
        self._meant = meant
        self._signed = signed
        """Height of the newest signed block before the first page: the pages must cover it."""
        self._edge: int | None = None
        """Height of the last one so far: the next page begins in the same block, or behind it."""
        self._given_at_edge = 0

    async def check(
        self, pages: AsyncIterator[ListPage[ConfirmedTransaction]]
    ) -> AsyncGenerator[ConfirmedTransaction, None]:
        """The transactions, once their page is proven."""
        async for page in pages:
            await self._check_page(page)
            for tx in page.items:
                yield tx

    async def _check_page(self, page: ListPage[ConfirmedTransaction]) -> None:
        is_last = page.cursor is None
        if not page.items and not is_last:
            raise InvalidProof("a page of the history is empty, and not the last one")
        end = None if is_last else page.items[-1].block_height
        if self._meant.oldest_first:
            first = self._edge if self._edge is not None else self._meant.from_height
            last = self._last(page) if end is None else end
        else:
            first = self._meant.from_height if end is None else end
            last = self._edge if self._edge is not None else self._last(page)
        proven = await self._proven(first, last)
        self._compare(page.items, proven[self._given_at_edge :], end)
        self._move_edge(page.items)

    def _last(self, page: ListPage[ConfirmedTransaction]) -> int:
        """The last block that is asked about, if it is signed: else the newest one that is, or that the page names."""
        shown = max([self._signed, *(tx.block_height for tx in page.items)])
        return shown if self._meant.to_height is None else min(shown, self._meant.to_height)

    def _compare(self, told: list[ConfirmedTransaction], proven: list[ConfirmedTransaction], end: int | None) -> None:
        for answer, shown in zip(told, proven, strict=False):
            if answer.tx_hash != shown.tx_hash:
                raise InvalidProof(f"the list leaves out {shown.tx_hash}, which block {shown.block_height} holds")
            check_answer(answer, shown)
        if len(told) > len(proven):
            raise InvalidProof(f"the list has {told[len(proven)].tx_hash}, which the statement does not have")
        for shown in proven[len(told) :]:
            # Of the block in which the page ends, the rest is on the next one.
            if shown.block_height != end:
                raise InvalidProof(f"the list leaves out {shown.tx_hash}, which block {shown.block_height} holds")

    def _move_edge(self, told: list[ConfirmedTransaction]) -> None:
        if told:
            edge = told[-1].block_height
            here = sum(tx.block_height == edge for tx in told)
            self._given_at_edge = here + (self._given_at_edge if edge == self._edge else 0)
            self._edge = edge

    async def _proven(self, first: int | None, last: int) -> list[ConfirmedTransaction]:
        # Block 0 holds no payment.
        if last == 0 or (first is not None and first > last):
            return []
        parts = await self._statements(first, last)
        if first is None:
            await self._check_begin(parts[0])
        entries = [entry for part in parts for entry in part.entries]
        found = [tx for entry in entries for tx in self._meant.select(entry)]
        return found if self._meant.oldest_first else found[::-1]

    async def _check_begin(self, statement: ProvenStatement) -> None:
        """Check that no payment is before what the node can prove. Raises `BlockNotKept`."""
        prover, begin = self._prover, statement.first
        # An account that still holds what genesis gave it, and has sent nothing, was not paid either.
        if begin <= 1 or statement.opening == Account(prover.genesis.alloc.get(statement.address, 0)):
            return
        since = self._meant.from_time
        if since is None or (await prover.final_block(begin)).header.timestamp >= since:
            raise BlockNotKept(
                f"the node proves the payments of {self._meant.address} from block {begin} on, and there may be "
                f"earlier ones: give from_height={begin}, or ask a node that keeps all blocks"
            )

    async def _statements(self, first: int | None, last: int) -> list[ProvenStatement]:
        """In parts, where the whole has too many changes."""
        try:
            return [await self._prover.statement(self._meant.address, first, last)]
        except StatementTooLong:
            if first == last:
                raise
            middle = ((first or 0) + last) // 2
            return [*await self._statements(first, middle), *await self._statements(middle + 1, last)]
