"""A copy of an open store, of one moment, for a backup: further names of its files, so that nothing is written twice.

    DIR/backup-copy/chain/      a checkpoint of RocksDB
    DIR/backup-copy/journal/    all segments; the newest is still written to, so only a part of it belongs to the copy

Whoever makes the backup owns the directory, and removes it.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from cairn.domain.types import BlockHash
from cairn.store.directory import chain_path, journal_path, rules_path
from cairn.store.journal import Journal, JournalExtent
from cairn.store.rocks import Database
from cairn.store.tree_file import tree_path

COPY_DIRECTORY = "backup-copy"


class CopiedStore(msgspec.Struct, frozen=True):
    """What the copy holds."""

    height: int
    hash: BlockHash
    oldest: int
    """The oldest height that is kept."""
    journal: JournalExtent
    pending: int
    """How many transactions were in the mempool."""


class HotCopy:
    def __init__(self, directory: Path, database: Database) -> None:
        self._directory = directory
        self._database = database

    def begin_flush(self) -> None:
        """Write out what is in memory, in the background, so that `link` has little left to write."""
        self._database.begin_flush()

    @property
    def is_flushing(self) -> bool:
        return self._database.is_flushing

    def link(self, journal: Journal) -> JournalExtent:
        """Put the copy into the directory, which is there already. Takes as long as a sync or two.

        Raises `OSError` or `StoreUnavailable`.
        """
        place = self._directory / COPY_DIRECTORY
        journal_path(place).mkdir(mode=0o700)
        extent = journal.link_segments(journal_path(place))
        self._database.checkpoint(chain_path(place))
        # It spares the next start to read all accounts. The file is replaced as a whole, and may be older than the
        # chain, never newer.
        with suppress(FileNotFoundError):
            os.link(tree_path(chain_path(self._directory)), tree_path(chain_path(place)))
        with suppress(FileNotFoundError):
            os.link(rules_path(self._directory), rules_path(place))
        return extent
