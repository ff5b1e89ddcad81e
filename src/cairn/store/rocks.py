"""RocksDB behind a small interface: how it is opened, tuned and read, and what its errors mean."""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from weakref import WeakSet

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    Checkpoint,
    ChecksumType,
    CompactOptions,
    DBCompactionStyle,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    RdictIter,
    ReadOptions,
    SliceTransform,
    WriteOptions,
)
from rocksdict import (
    WriteBatch as RawBatch,
)

from cairn.domain.errors import Corrupt, DirectoryInUse, Fatal, StoreUnavailable, WrongFormat
from cairn.domain.steps import Steps, in_groups
from cairn.heartbeat import Work, doing
from cairn.store.directory import SLOW_SYNC_S, Syncs, tell_slow_sync
from cairn.store.keys import ACCOUNTS, ADDRESS_SIZE, FAMILIES

WRITE_BUFFER_BYTES = 8 << 20
"""Per family; a flush of one takes all along. Larger ones make every insertion dearer, here and in each follower, and
hold more memory; smaller ones are merged more often. With 8 MB a transaction costs least in all, and hardly
more at a million stored ones than at ten thousand."""
_ENTRIES, _REMOVALS = re.compile(r"# entries=(\d+)"), re.compile(r"# deletions=(\d+)")
BLOCK_CACHE_BYTES = 8 << 20
"""Small: the kernel's page cache is behind it, shared by all processes."""


class WriteBatch:
    """Writes that become visible and durable together, or not at all."""

    def __init__(self, database: "Database") -> None:
        self.raw = RawBatch(raw_mode=True)
        self._handles = database.handles

    def put(self, family: str, key: bytes, value: bytes) -> None:
        self.raw.put(key, value, self._handles[family])

    def delete(self, family: str, key: bytes) -> None:
        self.raw.delete(key, self._handles[family])

    def __len__(self) -> int:
        return len(self.raw)

    def put_sorted_steps(self, family: str, pairs: list[tuple[bytes, bytes]]) -> Steps[None]:
        """Put many at once. Neighbours are cheaper to insert, here and in every follower, than keys in any order."""
        pairs.sort()
        yield
        for group in in_groups(pairs):
            self.put_all(family, group)
            yield

    def put_all(self, family: str, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        """Put some; they should be in the order of their keys."""
        put, handle = self.raw.put, self._handles[family]
        for key, value in pairs:
            put(key, value, handle)


class RocksCursor:
    """A walk over one family as it was when the walk began. It ends with the database at the latest."""

    def __init__(self, path: Path, entries: RdictIter) -> None:
        self._path = path
        self._entries: RdictIter | None = entries

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        """The first entry at or behind `key`."""
        return self._moved(lambda entries: entries.seek(key))

    def seek_back(self, key: bytes) -> tuple[bytes, bytes] | None:
        """The last entry at or before `key`."""
        return self._moved(lambda entries: entries.seek_for_prev(key))

    def next(self) -> tuple[bytes, bytes] | None:
        return self._moved(lambda entries: entries.next())

    def previous(self) -> tuple[bytes, bytes] | None:
        return self._moved(lambda entries: entries.prev())

    def close(self) -> None:
        self._entries = None

    def _moved(self, move: Callable[[RdictIter], None]) -> tuple[bytes, bytes] | None:
        if self._entries is None:
            raise StoreUnavailable(f"the chain's store at {self._path} is closed")
        try:
            move(self._entries)
            if self._entries.valid():
                return self._entries.key(), self._entries.value()
            # At a damaged block an iterator is not valid, as at the end: only its status shows the difference.
            self._entries.status()
        except Exception as error:
            raise _failure(self._path, error) from error
        return None


class Entries(NamedTuple):
    """How many entries a family has on disk and in memory."""

    total: int
    """All: those that can be read, what was removed and is still on disk, and the marks of removals."""
    removals: int
    """The marks of removals. Each hides one entry, until a compaction leaves both out."""
    size_bytes: int
    """Size of the family's files."""


class Database:
    """One opened RocksDB. After a failed write it refuses every further one: it must be opened again."""

    @doing(Work.OPENING)
    def __init__(self, path: Path, access: AccessType, *, strict: bool, create: bool = False) -> None:
        self._path = path
        self._failure: StoreUnavailable | Fatal | None = None
        self._cursors: WeakSet[RocksCursor] = WeakSet()
        self._is_compacting = self._is_stopping = False
        options = _database_options(strict)
        # Where its list of files is missing, RocksDB would make an empty store, and the next opening of that would
        # delete every file that is not in the new list.
        options.create_if_missing(create)
        options.create_missing_column_families(create)
        cache = Cache(BLOCK_CACHE_BYTES)
        try:
            self._rocks = Rdict(str(path), options, {name: _family_options(name, cache) for name in FAMILIES}, access)
            self._families = {name: self._rocks.get_column_family(name) for name in FAMILIES}
            self.handles = {name: self._rocks.get_column_family_handle(name) for name in FAMILIES}
        except Exception as error:
            raise _opening_failure(path, error) from error
        self._synced = WriteOptions()
        self._synced.sync = True
        self._unsynced = WriteOptions()
        self._same_prefix = ReadOptions()
        self._same_prefix.set_verify_checksums(True)
        self._same_prefix.set_prefix_same_as_start(True)
        self._whole_order = ReadOptions()
        self._whole_order.set_verify_checksums(True)
        self._whole_order.set_total_order_seek(True)

    @classmethod
    def create(cls, path: Path) -> "Database":
        """Open for writing, and make what is missing: only where nobody was told of a block yet."""
        return cls(path, AccessType.read_write(), strict=False, create=True)

    @classmethod
    def open_primary(cls, path: Path, *, strict: bool) -> "Database":
        """Open for writing. A strict opening refuses any flaw of the log; a lenient one ends the log where it is."""
        return cls(path, AccessType.read_write(), strict=strict)

    @classmethod
    def open_read_only(cls, path: Path, *, strict: bool) -> "Database":
        """Open as `open_primary` would, to see what that would find. It changes no file."""
        return cls(path, AccessType.read_only(error_if_log_file_exist=False), strict=strict)

    @classmethod
    def open_secondary(cls, path: Path, scratch: Path) -> "Database":
        return cls(path, AccessType.secondary(str(scratch)), strict=False)

    def get(self, family: str, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._families[family].get(key)
        except Exception as error:
            raise _failure(self._path, error) from error
        return value

    def first_of_prefix(self, family: str, key: bytes) -> tuple[bytes, bytes] | None:
        """The first entry from `key` on that shares its prefix, in a family that has prefixes."""
        entries = None
        try:
            entries = self._families[family].iter(self._same_prefix)
            entries.seek(key)
            if entries.valid():
                return entries.key(), entries.value()
            # At a damaged block it is not valid either, as in a cursor.
            entries.status()
        except Exception as error:
            # A stored exception keeps this frame alive, and RocksDB is not closed while it has an iterator.
            entries = None
            raise _failure(self._path, error) from error
        return None

    def first_and_behind(
        self, family: str, key: bytes, prefix: bytes, behind: bytes
    ) -> tuple[tuple[bytes, bytes] | None, bytes | None]:
        """The first entry from `key` on, if it has the prefix, and then the first key from `behind` on."""
        found: tuple[bytes, bytes] | None = None
        following: bytes | None = None
        entries = None
        try:
            entries = self._families[family].iter(self._whole_order)
            entries.seek(key)
            if entries.valid() and (first := entries.key()).startswith(prefix):
                found = first, entries.value()
                # Mostly the next entry is behind already, and a step is cheaper than a seek.
                entries.next()
                if entries.valid() and entries.key() < behind:
                    entries.seek(behind)
                following = entries.key() if entries.valid() else None
            # At a damaged block it is not valid either, as in a cursor.
            entries.status()
        except Exception as error:
            # As in `first_of_prefix`.
            entries = None
            raise _failure(self._path, error) from error
        return found, following

    def keys_between(self, family: str, low: bytes, high: bytes, count: int, is_ascending: bool) -> list[bytes]:
        """At most `count` keys from `low` to `high`, from the one end or from the other."""
        found: list[bytes] = []
        entries = None
        try:
            entries = self._families[family].iter(self._whole_order)
            step = entries.next if is_ascending else entries.prev
            (entries.seek if is_ascending else entries.seek_for_prev)(low if is_ascending else high)
            while len(found) < count and entries.valid() and low <= entries.key() <= high:
                found.append(entries.key())
                step()
            # At a damaged block it is not valid either, as in a cursor.
            entries.status()
        except Exception as error:
            # As in `first_of_prefix`.
            entries = step = None
            raise _failure(self._path, error) from error
        return found

    def scan(self, family: str) -> Iterator[tuple[bytes, bytes]]:
        """All entries of a family, in the order of their keys."""
        cursor = self.cursor(family)
        entry = cursor.seek(b"")
        while entry is not None:
            yield entry
            entry = cursor.next()

    def walk(self, family: str) -> Iterator[tuple[bytes, bytes]]:
        """As `scan`, for whoever reads all of a family and does nothing else: it takes a fifth of the time."""
        entries = self._families[family].iter(self._whole_order)
        valid, key, value, step = entries.valid, entries.key, entries.value, entries.next
        try:
            entries.seek(b"")
            while valid():
                yield key(), value()
                step()
            # At a damaged block it is not valid either, as in a cursor.
            entries.status()
        except Exception as error:
            # As in `first_of_prefix`.
            entries = valid = key = value = step = None  # type: ignore[assignment]
            raise _failure(self._path, error) from error

    def cursor(self, family: str) -> RocksCursor:
        cursor = RocksCursor(self._path, self._families[family].iter(self._whole_order))
        self._cursors.add(cursor)
        return cursor

    @doing(Work.DISK)
    def write(self, batch: WriteBatch, *, sync: bool = True) -> None:
        """Write and sync; unsynced, a crash may undo it, though never without all that was written later.

        Raises `StoreUnavailable`, or `Corrupt` when a background job found damage.
        """
        if self._failure is not None:
            raise self._failure
        began = time.monotonic()
        try:
            is_synced = sync and not Syncs.are_left_out
            self._rocks.write(batch.raw, self._synced if is_synced else self._unsynced)
        except Exception as error:
            self._failure = _failure(self._path, error)
            raise self._failure from error
        if time.monotonic() - began > SLOW_SYNC_S:
            tell_slow_sync(began, str(self._path))

    @doing(Work.DISK)
    def catch_up(self) -> None:
        """Take in what the primary has written since; on a secondary only."""
        try:
            self._rocks.try_catch_up_with_primary()
        except Exception as error:
            raise _failure(self._path, error) from error

    @doing(Work.DISK)
    def checkpoint(self, path: Path) -> None:
        """Make a copy as of now; files that never change again are hard links."""
        try:
            Checkpoint(self._rocks).create_checkpoint(str(path))
        except Exception as error:
            raise _failure(self._path, error) from error

    def begin_flush(self) -> None:
        """Have the memtables written out in the background; see `is_flushing`."""
        try:
            for part in self._families.values():
                part.flush(wait=False)
        except Exception as error:
            raise _failure(self._path, error) from error

    @property
    def is_flushing(self) -> bool:
        return any(part.property_int_value("rocksdb.num-immutable-mem-table") for part in self._families.values())

    def count_entries(self, family: str) -> "Entries":
        """The entries of a family, as its tables and memtables count them. It takes microseconds."""
        part = self._families[family]
        try:
            tables = part.property_value("rocksdb.aggregated-table-properties") or ""
            kinds = (
                (_ENTRIES, ("num-entries-active-mem-table", "num-entries-imm-mem-tables")),
                (_REMOVALS, ("num-deletes-active-mem-table", "num-deletes-imm-mem-tables")),
            )
            total, removals = (
                sum(int(found) for found in pattern.findall(tables))
                + sum(part.property_int_value("rocksdb." + name) or 0 for name in names)
                for pattern, names in kinds
            )
            size_bytes = part.property_int_value("rocksdb.live-sst-files-size") or 0
        except Exception as error:
            raise _failure(self._path, error) from error
        return Entries(total, removals, size_bytes)

    def compact(self, family: str) -> None:
        """Rewrite a family, without what was removed, and delete the old files.

        May take long; it is for a thread, and others may read and write meanwhile. It needs as much free space as
        the family has entries that are not removed.
        """
        options = CompactOptions()
        options.set_exclusive_manual_compaction(False)
        # In this order, and in the other one in `stop_compaction`: one of the two threads sees the other.
        self._is_compacting = True
        try:
            if not self._is_stopping:
                self._families[family].compact_range(None, None, options)
        except Exception as error:
            raise _failure(self._path, error) from error
        finally:
            self._is_compacting = False

    def stop_compaction(self) -> None:
        """Let a running `compact` return soon, without an effect. The database must then be closed."""
        self._is_stopping = True
        if self._is_compacting:
            with suppress(Exception):
                for part in self._families.values():
                    # First: afterwards there are no more flushes, and the next opening replays a longer log.
                    part.flush()
                self._rocks.cancel_all_background(False)

    @doing(Work.DISK)
    def close(self) -> None:
        """Flush the memtables, if the disk still accepts writes, and close all files."""
        # RocksDB releases its lock with the last reference; a forgotten one would block the next opening.
        self.handles.clear()
        for cursor in list(self._cursors):
            cursor.close()
        for part in (*self._families.values(), self._rocks):
            # What cannot be written out now is in the log, and the next opening replays that.
            with suppress(Exception):
                part.close()
        self._families.clear()


def _database_options(strict: bool) -> Options:
    options = Options(raw_mode=True)
    options.set_paranoid_checks(True)
    options.set_wal_recovery_mode(DBRecoveryMode.absolute_consistency() if strict else DBRecoveryMode.point_in_time())
    # One log for all families: none holds back a log that the others are done with, and followers get all or nothing.
    options.set_atomic_flush(True)
    # Secondaries must keep files open that the primary has deleted since.
    options.set_max_open_files(-1)
    # With all files kept open a secondary opens new ones at every catch-up, by default with 16 new threads for each
    # family, whether there is anything to open or not.
    options.set_max_file_opening_threads(1)
    options.set_max_background_jobs(2)
    # One writer: nothing to gain from concurrency, and the plain path remembers where it inserted last.
    options.set_allow_concurrent_memtable_write(False)
    options.set_enable_write_thread_adaptive_yield(False)
    options.set_manifest_preallocation_size(64 << 10)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(256 << 10)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    return options


def _family_options(name: str, cache: Cache) -> Options:
    options = Options(raw_mode=True)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    # Keys are hashes, so leveled compaction rewrites each entry more often: up to a half more work in the background.
    options.set_compaction_style(DBCompactionStyle.universal())
    # Hashes and signatures do not compress.
    options.set_compression_type(DBCompressionType.none())
    table = BlockBasedOptions()
    table.set_block_cache(cache)
    table.set_checksum_type(ChecksumType.xxh3())
    table.set_bloom_filter(10, False)
    if name == ACCOUNTS:
        options.set_prefix_extractor(SliceTransform.create_fixed_prefix(ADDRESS_SIZE))
    options.set_block_based_table_factory(table)
    return options


def _failure(path: Path, error: Exception) -> StoreUnavailable | Fatal:
    """What an error of RocksDB means: damage stops the node, a failing disk is tried again later."""
    text = str(error)
    if text.startswith("Corruption"):
        return Corrupt(f"the chain's store at {path} is damaged: {text}")
    return StoreUnavailable(f"the chain's store at {path} failed: {text}")


def _opening_failure(path: Path, error: Exception) -> StoreUnavailable | Fatal:
    text = str(error)
    if "lock hold by current process" in text or "While lock file" in text:
        return DirectoryInUse(f"{path} is in use: {text}")
    if text.startswith("Invalid argument"):
        return WrongFormat(f"{path} is not a store of this version: {text}")
    if "No such file or directory" in text:
        return Corrupt(f"the chain's store at {path} is damaged, a file is missing: {text}")
    return _failure(path, error)
