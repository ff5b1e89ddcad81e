"""Finds the payments of a set of addresses in stored blocks, in order and in small steps.

There are two ways. The store has a history for each account, so a window of blocks costs one lookup for each address,
however many blocks it has. Or the blocks are read, which costs the same however many addresses there are. Whichever is
cheaper for a window is taken, and the window grows as long as little is found in it: three payments in a million blocks
are found in some twenty lookups, and ten thousand busy addresses by reading each block once.
"""

from collections.abc import Collection, Generator, Iterator
from typing import Protocol

from cairn.api.bodies import Form, as_integers
from cairn.api.chain_json import payment_json
from cairn.api.events.messages import text_frame
from cairn.domain.transactions import decode_record, parties_in_record
from cairn.domain.types import Address, Tx
from cairn.store.history import Search
from cairn.store.history import Step as HistoryStep
from cairn.store.keys import CHUNK_RECORDS, HASH_SIZE, Location

MOST_LOCATED = 256
"""Payments that are located before the first is read: a few kilobytes for each socket that replays."""
FEW_LOCATED = MOST_LOCATED // 4
"""With fewer, the next window is twice as long."""
TXS_PER_LOOKUP = 16
"""Transactions that can be read in the time of a lookup in a history."""
_POSITION_BITS = 32


class PaymentSource(Protocol):
    """Where the payments are read."""

    def tx_hashes(self, height: int) -> bytes: ...

    def tx_records(self, height: int) -> Iterator[bytes]:
        """The records of the block's transactions, in their order."""

    def tx_at(self, height: int, position: int) -> Tx: ...

    def search_history(self, search: Search, after: Location | None) -> Iterator[HistoryStep]:
        """Where the transactions of an account are."""


class FoundPayment:
    """A payment, and its frame, which is made once for all sockets that get it."""

    __slots__ = ("_frame", "_payload", "height", "position", "sender", "to")

    def __init__(self, height: int, position: int, tx: Tx) -> None:
        self.height = height
        self.position = position
        self.sender = tx.sender
        self.to = tx.to
        self._payload = payment_json(tx, height, position)
        self._frame: bytes | None = None

    def frame(self, form: Form) -> bytes:
        if form is not as_integers:
            return text_frame(form(self._payload))
        if self._frame is None:
            self._frame = text_frame(self._payload)
        return self._frame


Step = FoundPayment | Location
"""What a step of a search gives: the next payment, or a place before which there is none that was not given.

Others may have their turn before the next step.
"""


class PaymentSearch:
    """A search from `place` on."""

    def __init__(self, source: PaymentSource, addresses: Collection[Address], place: Location) -> None:
        self._source = source
        self._addresses = addresses
        self._place = place
        self._width = 1
        """How many blocks the next window has."""

    def steps(self, until: int) -> Iterator[Step]:
        """Search the blocks up to the height `until`."""
        while self._place[0] <= until:
            top = min(until, self._place[0] + self._width - 1)
            if top - self._place[0] < len(self._addresses):
                yield from self._read_blocks(top)
            else:
                yield from self._read_histories(top)

    def _read_blocks(self, top: int) -> Iterator[Step]:
        found = 0
        for height in range(self._place[0], top + 1):
            located = None
            if len(self._source.tx_hashes(height)) // HASH_SIZE > TXS_PER_LOOKUP * len(self._addresses):
                located = yield from self._locate(height)
            for step in self._read_block(height) if located is None else self._read_located(located):
                found += isinstance(step, FoundPayment)
                yield step
            self._place = (height + 1, 0)
            yield self._place
        self._widen(found)

    def _read_block(self, height: int) -> Iterator[Step]:
        place, addresses = self._place, self._addresses
        for position, record in enumerate(self._source.tx_records(height)):
            sender, to = parties_in_record(record)
            if (sender in addresses or to in addresses) and position >= place[1]:
                yield FoundPayment(height, position, decode_record(record))
            elif position % CHUNK_RECORDS == 0:
                yield max(place, (height, position))

    def _read_histories(self, top: int) -> Iterator[Step]:
        located = yield from self._locate(top)
        if located is None:
            self._width = max(1, (top - self._place[0] + 1) // 4)
            return
        yield from self._read_located(located)
        self._place = (top + 1, 0)
        yield self._place
        self._widen(len(located))

    def _locate(self, top: int) -> Generator[Step, None, list[int] | None]:
        """Where the payments from `_place` up to the height `top` are, in order; None if there are too many."""
        located: set[int] = set()
        for address in self._addresses:
            for step in self._source.search_history(Search(address, first=self._place[0], last=top), None):
                if step.location < self._place:
                    break
                # One number takes less memory than a pair.
                located.add(step.location[0] << _POSITION_BITS | step.location[1])
                if len(located) > MOST_LOCATED:
                    return None
            yield self._place
        return sorted(located)

    def _read_located(self, located: list[int]) -> Iterator[Step]:
        for number in located:
            height, position = number >> _POSITION_BITS, number & (1 << _POSITION_BITS) - 1
            yield FoundPayment(height, position, self._source.tx_at(height, position))

    def _widen(self, found: int) -> None:
        if found <= FEW_LOCATED:
            self._width *= 2
