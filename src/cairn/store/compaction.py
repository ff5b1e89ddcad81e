"""Gives the disk space of removed entries back.

RocksDB only marks a removed entry. It leaves it out when it merges the files that hold the entry and the mark, and on
a chain that is pruned to a few blocks it may not do that for long: new files are small beside the old ones. So the
files of a family are merged as soon as half of its entries are removed ones and their marks. Then the removal of an
entry costs the writing of two that are kept at most.

The counts are those of RocksDB's files, so nothing has to be remembered across a restart.
"""

from pathlib import Path

from cairn.domain.errors import StoreUnavailable
from cairn.store.directory import check_room
from cairn.store.keys import FAMILIES
from cairn.store.rocks import Database, Entries
from cairn.store.snapshot import Pause

LEAST_REMOVALS = 4_096
"""Of all families together; fewer are not worth the writing of new files. About 2 MB of transactions."""
MARKED_SHARE = 4
"""A family is merged when one of so many entries is the mark of a removal: as many again are the removed ones."""


class Compaction:
    def __init__(self, directory: Path, database: Database) -> None:
        self._directory = directory
        self._database = database
        self._in_vain: dict[str, int] = {}
        """Families that a merge did not help, with the marks that they had."""

        self.merges = 0
        """How often the files of a family were replaced."""

    def give_back(self, pause: Pause) -> None:
        """Merge the files of families that hold mostly what was removed.

        Takes as long as writing what these families keep. Raises `StoreUnavailable` or `Corrupt`.
        """
        counts = {family: self._database.count_entries(family) for family in FAMILIES}
        if sum(count.removals for count in counts.values()) < LEAST_REMOVALS:
            return
        stale = [name for name, count in counts.items() if self._is_stale(name, count)]
        for family in stale:
            pause()
            self._merge(family, counts[family])

    def _is_stale(self, family: str, count: Entries) -> bool:
        is_marked = count.removals > 0 and count.total <= MARKED_SHARE * count.removals
        # RocksDB does not tell whether a merge has failed: without this, one that does would be tried without end.
        return is_marked and count.removals >= 2 * self._in_vain.get(family, 0) and self._has_room(count)

    def _has_room(self, count: Entries) -> bool:
        """Whether what is kept can be written before the old files are deleted."""
        kept = max(0, count.total - 2 * count.removals)
        try:
            check_room(self._directory, count.size_bytes * kept // count.total)
        except StoreUnavailable:
            # The more is removed, the less room is needed.
            return False
        return True

    def _merge(self, family: str, before: Entries) -> None:
        self._database.compact(family)
        self.merges += 1
        after = self._database.count_entries(family)
        if after.removals < before.removals:
            self._in_vain.pop(family, None)
        else:
            self._in_vain[family] = after.removals
