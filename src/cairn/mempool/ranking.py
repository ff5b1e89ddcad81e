"""Entries kept in the order of a number, unique to each."""

from collections.abc import Iterator

from sortedcontainers import SortedList

from cairn.mempool.entry import Entry


class Ranking:
    """Numbers in a sorted list, entries in a dict: comparing bare integers is what keeps insertion cheap."""

    def __init__(self) -> None:
        self._order: SortedList[int] = SortedList()
        self._entries: dict[int, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, number: int, entry: Entry) -> None:
        self._order.add(number)
        self._entries[number] = entry

    def remove(self, number: int) -> None:
        self._order.remove(number)
        del self._entries[number]

    def entries_from(self, number: int) -> Iterator[Entry]:
        """From `number` on, which need not be there itself."""
        return map(self._entries.__getitem__, self._order.irange(number))

    def find_last(self) -> Entry | None:
        return self._entries[self._order[-1]] if self._entries else None
