"""Rewrites all tables of a stopped node's store, without what was removed or replaced."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import Genesis
from cairn.store.dev_snapshots import finish_revert
from cairn.store.directory import DirectoryLock, chain_path, check_room, size_on_disk
from cairn.store.hot_copy import COPY_DIRECTORY
from cairn.store.inspection import inspect
from cairn.store.keys import FAMILIES
from cairn.store.rocks import Database


class Compacted(NamedTuple):
    before_bytes: int
    """What the whole data directory occupied."""
    after_bytes: int


def compact_directory(directory: Path, genesis: Genesis, report: Callable[[int, int], None]) -> Compacted:
    """Compact one family after the other. It can be ended at any time: a table is replaced as a whole.

    `report` is called with how many are done, and of how many. Raises `InvalidConfig` if there is no chain,
    `StoreUnavailable` if there is no room, `DirectoryInUse`, `Corrupt`, `WrongFormat` or `WrongGenesis`.
    """
    lock = DirectoryLock.acquire(directory)
    try:
        before_bytes = size_on_disk(directory)
        found = inspect(directory, genesis)
        if found is None:
            raise InvalidConfig(f"{directory} holds no chain yet")
        finish_revert(directory)
        # A backup of a running node that was killed has left it, with files that the node has removed since.
        shutil.rmtree(directory / COPY_DIRECTORY, ignore_errors=True)
        database = Database.open_primary(chain_path(directory), strict=found.is_log_whole)
        try:
            # Until a family is rewritten, its old tables are there, too.
            check_room(directory, max(database.count_entries(family).size_bytes for family in FAMILIES))
            for done, family in enumerate(FAMILIES):
                report(done, len(FAMILIES))
                database.compact(family)
            report(len(FAMILIES), len(FAMILIES))
        finally:
            database.close()
        return Compacted(before_bytes, size_on_disk(directory))
    finally:
        lock.release()
