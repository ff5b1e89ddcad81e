"""Searches an account's history: by direction, counterparty, heights and data, in either order, from any place on.

Nothing is read that does not lead to an answer, with one exception. The versions of an account name its transactions,
and link to the versions before in which it sends or receives. Towards newer blocks there are no links: the next one is
found by asking which is the last one up to a height further on, and so needs a few reads more the further away it is.

Transactions between two accounts need no index: their positions are in the versions of both, at the same height. So
whoever looks for them goes to the next block of one account, then to the next from there of the other one, and so on.
That takes as many reads as the account with fewer transactions has blocks. If both have many, it may read much and find
nothing for long. So each read that finds nothing is a step of its own, and the caller decides how many to take.

Transactions with data have an index, by account and data.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import msgspec

from cairn.domain.errors import Corrupt
from cairn.domain.transactions import decode_record
from cairn.domain.types import Address, Tx
from cairn.store.keys import EITHER, POSITION_STEP, RECEIVED, SENT, Location, Version, reference_tag
from cairn.store.reader import ChainReader

MAX_POSITION = 2**32 - 1
READ_AT_ONCE = 64
"""Entries of the index of references that are read together, so that RocksDB need not keep an iterator for the rest."""
FAR_MORE = 8
"""So many times more are bisected for each of the few; otherwise it takes less time to put all into a set."""


class Search(msgspec.Struct, frozen=True):
    """Which transactions of an account are meant, and their order."""

    address: Address
    how: int = EITHER
    """What the account does in them: it sends, receives, or either."""
    counterparty: Address | None = None
    first: int = 0
    """The lowest height that is searched."""
    last: int = 2**63 - 1
    is_ascending: bool = False
    data: bytes | None = None
    """What the transactions carry, exactly."""

    def reversed(self) -> "Search":
        return msgspec.structs.replace(self, is_ascending=not self.is_ascending)


class Step(msgspec.Struct, frozen=True, gc=False):
    """One transaction that was found; or a read that found none."""

    location: Location
    """Where the search has come: what is behind it, in the order of the search, is not read yet."""
    is_found: bool


def search_history(reader: ChainReader, search: Search, after: Location | None = None) -> Iterator[Step]:
    """The transactions behind `after`, in the order of the search. Read as far as they are taken.

    Nothing below the base is known any more, though an account's last version from there may be kept.
    """
    low, high = max(search.first, reader.base), min(search.last, reader.visible)
    if after is not None and search.is_ascending:
        low = max(low, after[0] + (after[1] == MAX_POSITION))
    elif after is not None:
        high = min(high, after[0] - (after[1] == 0))
    if search.data is not None:
        yield from _referenced(reader, search, low, high, after)
        return
    for height, positions in _blocks(reader, search, low, high):
        found = positions if after is None or height != after[0] else _behind(positions, after[1], search.is_ascending)
        for position in found if search.is_ascending else reversed(found):
            yield Step((height, position), True)
        if not positions:
            yield Step((height - 1, MAX_POSITION) if search.is_ascending else (height + 1, 0), False)


def count_sent(reader: ChainReader, search: Search) -> int:
    """How many transactions the account sent from the search's first to its last height: its nonces tell."""
    low, high = max(search.first, reader.base), min(search.last, reader.visible)
    if low > high:
        return 0
    version = reader.find_version(search.address, low)
    if version is None:
        before = 0
    else:
        there = sum(1 for use in version.uses if use & SENT) if version.height == low else 0
        before = version.account.nonce - there
    return reader.account_at(search.address, high).nonce - before


def _referenced(reader: ChainReader, search: Search, low: int, high: int, after: Location | None) -> Iterator[Step]:
    """The transactions with this data, by their index."""
    assert search.data is not None
    tag = reference_tag(search.address, search.data)
    first, last = (low, 0), (high, MAX_POSITION)
    if after is not None and search.is_ascending and after[0] == low:
        first = (low, after[1] + 1)
    elif after is not None and not search.is_ascending and after[0] == high:
        last = (high, after[1] - 1)
    while low <= high and (found := reader.find_references(tag, first, last, READ_AT_ONCE, search.is_ascending)):
        for location in found:
            record = reader.find_record(*location)
            if record is None and location[0] >= reader.base:
                raise Corrupt(
                    f"transaction {location[1]} of block {location[0]} is not in the store, though its data is"
                )
            yield Step(location, record is not None and _is_meant(decode_record(record), search))
        height, position = found[-1]
        if search.is_ascending:
            first = (height, position + 1)
        elif position:
            last = (height, position - 1)
        else:
            last = (height - 1, MAX_POSITION)


def _is_meant(tx: Tx, search: Search) -> bool:
    sends = search.how & SENT and tx.sender == search.address and search.counterparty in (None, tx.to)
    receives = search.how & RECEIVED and tx.to == search.address and search.counterparty in (None, tx.sender)
    return tx.data == search.data and bool(sends or receives)


def _behind(positions: Sequence[int], position: int, is_ascending: bool) -> Sequence[int]:
    if is_ascending:
        return positions[bisect_right(positions, position) :]
    return positions[: bisect_left(positions, position)]


Blocks = Iterator[tuple[int, Sequence[int]]]
"""Heights in the order of a search, and the positions there, ascending. Without any: where the next may be."""


def _blocks(reader: ChainReader, search: Search, low: int, high: int) -> Blocks:
    how, is_ascending = search.how, search.is_ascending
    account = _UsedBlocks(reader, search.address, how, low, high, is_ascending)
    if search.counterparty is None:
        return _all(account, how)
    if search.counterparty == search.address:
        return _to_itself(account)
    return _shared(account, how, _UsedBlocks(reader, search.counterparty, _mirrored(how), low, high, is_ascending))


def _all(account: "_UsedBlocks", how: int) -> Blocks:
    for version in account:
        yield version.height, [use // POSITION_STEP for use in version.uses if use & how]


def _to_itself(account: "_UsedBlocks") -> Blocks:
    for version in account:
        positions = [use // POSITION_STEP for use in version.uses if use % POSITION_STEP == EITHER]
        yield version.height if positions else version.height + account.step, positions


def _shared(account: "_UsedBlocks", how: int, counterparty: "_UsedBlocks") -> Blocks:
    """A transaction that is in the versions of two accounts is between the two."""
    mine = account.next(account.start)
    while mine is not None:
        theirs = counterparty.next(mine.height)
        if theirs is None:
            return
        if theirs.height == mine.height:
            positions = _common_positions(mine, theirs, how)
            yield mine.height if positions else mine.height + account.step, positions
            mine = account.next(mine.height + account.step)
        else:
            yield theirs.height, ()
            mine = account.next(theirs.height)


def _common_positions(mine: Version, theirs: Version, how: int) -> list[int]:
    """The transactions that both versions have, which may be thousands: what the one sends, the other receives.

    If one has far more than the other, most of them are not looked at.
    """
    few, many = sorted((mine.uses, theirs.uses), key=len)
    if len(many) > FAR_MORE * len(few):
        common = [use for use in few if _has(many, use ^ EITHER)]
    else:
        others = set(many)
        common = [use for use in few if use ^ EITHER in others]
    wanted = how if few is mine.uses else _mirrored(how)
    return [use // POSITION_STEP for use in common if use & wanted]


def _has(uses: tuple[int, ...], use: int) -> bool:
    index = bisect_left(uses, use)
    return index < len(uses) and uses[index] == use


def _mirrored(how: int) -> int:
    """What the other one does."""
    return {SENT: RECEIVED, RECEIVED: SENT}.get(how, EITHER)


class _UsedBlocks:
    """The blocks between two heights in which an account has transactions of a kind."""

    def __init__(
        self, reader: ChainReader, address: Address, how: int, low: int, high: int, is_ascending: bool
    ) -> None:
        self._reader = reader
        self._address = address
        self._how = how
        self._low, self._high = low, high
        self.start, self.step = (low, 1) if is_ascending else (high, -1)
        self._last: Version | None = None
        self._gap = 0

    def __iter__(self) -> Iterator[Version]:
        version = self.next(self.start)
        while version is not None:
            yield version
            version = self.next(version.height + self.step)

    def next(self, height: int) -> Version | None:
        """The next one from `height` on."""
        if not self._low <= height <= self._high:
            return None
        version = self._newest(height) if self.step < 0 else self._oldest(height)
        self._last = version
        return version if version is not None and version.height >= self._low else None

    def _newest(self, height: int) -> Version | None:
        """The last one up to `height`."""
        last = self._last
        if last is not None and last.before(self._how) <= height < last.height:
            return self._reader.find_earlier_use(self._address, self._how, last)
        return self._reader.find_use(self._address, self._how, height)

    def _oldest(self, height: int) -> Version | None:
        """The first one from `height` on: somewhere between two heights that come closer with each read."""
        find, how = self._reader.find_use, self._how
        low, reach = height, self._gap
        while True:
            top = min(low + reach, self._high)
            version = find(self._address, how, top)
            if version is not None and version.height >= low:
                break
            if top == self._high:
                return None
            low, reach = top + 1, 2 * reach + 1
        while (earlier := version.before(how)) >= low:
            middle = (low + earlier) // 2
            found = find(self._address, how, middle)
            if found is None or found.height < low:
                low = middle + 1
                found = self._reader.find_earlier_use(self._address, how, version)
                if found is None:
                    # It was pruned a moment ago.
                    break
            version = found
        # The next one is often as far away as this one was.
        self._gap = version.height - height
        return version
