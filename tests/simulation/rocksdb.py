"""RocksDB on a simulated disk: it is the real one, but what it does by itself it does when the simulator has it do so.

Its memtables are never full and its tables are never merged by threads of its own, which keep no order. Instead both
happen now and then within a write, and around the look of a worker's secondary.
"""

import pathlib
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from rocksdict import AccessType, Options

import cairn.store.rocks
from cairn.store.directory import chain_path
from cairn.store.rocks import Database, RocksCursor, WriteBatch
from tests.simulation import threads
from tests.simulation.disk import Disk, Machines, aside
from tests.support.disk import compact, flush

NEVER_FULL_BYTES = 1 << 30
"""Of a memtable, which takes memory only as it fills."""
COMPACTION_SHARE = 0.3
"""Of the times that memtables are written out."""


@contextmanager
def simulated_rocksdb(machines: Machines) -> Generator[None, None, None]:
    with ExitStack() as patches:
        for owner, name, replacement in (*_opening(machines), *_writing(machines), *_reading(machines)):
            patches.enter_context(mock.patch.object(owner, name, replacement))
        yield


Replacements = tuple[tuple[Any, str, Any], ...]


def _opening(machines: Machines) -> Replacements:
    real_init, real_close = Database.__init__, Database.close
    real_options, real_family = cairn.store.rocks._database_options, cairn.store.rocks._family_options

    def init(self: Database, path: pathlib.Path, *args: Any, **kwargs: Any) -> None:
        disk = machines.find(path)
        if disk is not None:
            try:
                disk.opening()
            except OSError as failure:
                raise _failure(path, failure) from failure
        real_init(self, path, *args, **kwargs)

    def open_primary(cls: type[Database], path: pathlib.Path, *, strict: bool) -> Database:
        opened = cls(path, AccessType.read_write(), strict=strict)
        disk = machines.find(path)
        if disk is not None and path == chain_path(disk.path):
            disk.primary = opened
        return opened

    def open_secondary(cls: type[Database], path: pathlib.Path, scratch: pathlib.Path) -> Database:
        # It only reads, and is not of the life of the node's that has ended there.
        _read(machines, path)
        with aside():
            return cls(path, AccessType.secondary(str(scratch)), strict=False)

    def close(self: Database) -> None:
        for disk in machines:
            if disk.primary is self:
                disk.primary = None
        real_close(self)

    def options(strict: bool) -> Options:
        made = real_options(strict)
        # A hundred threads to open a few files with.
        made.set_max_file_opening_threads(1)
        return made

    def family(*args: Any) -> Options:
        made = real_family(*args)
        made.set_disable_auto_compactions(True)
        made.set_write_buffer_size(NEVER_FULL_BYTES)
        return made

    return (
        (Database, "__init__", init),
        (Database, "open_primary", classmethod(open_primary)),
        (Database, "open_secondary", classmethod(open_secondary)),
        (Database, "close", close),
        (cairn.store.rocks, "_database_options", options),
        (cairn.store.rocks, "_family_options", family),
    )


class _Refusing:
    """In RocksDB's place for one write, which fails as RocksDB reports it."""

    def __init__(self, failure: OSError) -> None:
        self._failure = failure

    def write(self, *args: object) -> None:
        raise Exception(f"IO error: {self._failure}")


def _writing(machines: Machines) -> Replacements:
    real_write, real_checkpoint = Database.write, Database.checkpoint

    def refuse(self: Database, batch: WriteBatch, failure: OSError) -> None:
        real, self._rocks = self._rocks, _Refusing(failure)  # type: ignore[assignment]
        try:
            real_write(self, batch)
        finally:
            self._rocks = real

    def write(self: Database, batch: WriteBatch, *, sync: bool = True) -> None:
        disk = machines.find(self._path)
        if disk is None:
            real_write(self, batch, sync=sync)
            return
        threads.give_way()
        try:
            fault = disk.before_batch()
            with aside():
                real_write(self, batch, sync=sync)
                disk.after_batch(self._path, sync, fault)
            if self is disk.primary and disk.rng.random() < disk.flush_rate:
                _write_out(disk)
        except OSError as failure:
            refuse(self, batch, failure)

    def checkpoint(self: Database, path: pathlib.Path) -> None:
        real_checkpoint(self, path)
        disk = machines.find(path)
        if disk is not None:
            disk.trust_logs(path)

    return (Database, "write", write), (Database, "checkpoint", checkpoint)


def _write_out(disk: Disk) -> None:
    """What RocksDB does by itself when a memtable is full, and with the tables that come of it."""
    database = disk.primary
    with aside():
        begun = disk.begin_flush(database._path)
        if begun is None:
            return
        flush(database)
        disk.end_flush(database._path, begun)
        if disk.rng.random() < COMPACTION_SHARE:
            compact(database)
            disk.met["tables merged"] += 1


def _reading(machines: Machines) -> Replacements:
    real_get, real_catch_up, real_moved = Database.get, Database.catch_up, RocksCursor._moved

    def catch_up(self: Database) -> None:
        """The node goes on while a worker looks: before it reads the MANIFEST, or after it has read the logs."""
        _maybe_go_on(machines.find_living(self._path))
        real_catch_up(self)
        _maybe_go_on(machines.find_living(self._path))

    def get(self: Database, family: str, key: bytes) -> bytes | None:
        _read(machines, self._path)
        return real_get(self, family, key)

    def moved(self: RocksCursor, move: Callable[[Any], None]) -> tuple[bytes, bytes] | None:
        _read(machines, self._path)
        return real_moved(self, move)

    return (Database, "catch_up", catch_up), (Database, "get", get), (RocksCursor, "_moved", moved)


def _maybe_go_on(disk: Disk | None) -> None:
    if disk is not None and disk.primary is not None and disk.rng.random() < disk.flush_rate:
        disk.met["memtables written out while a worker looked"] += 1
        _write_out(disk)


def _read(machines: Machines, path: pathlib.Path) -> None:
    disk = machines.find_living(path)
    if disk is not None:
        try:
            disk.reading()
        except OSError as failure:
            raise _failure(path, failure) from failure


def _failure(path: pathlib.Path, failure: OSError) -> Exception:
    return cairn.store.rocks._failure(path, Exception(f"IO error: {failure}"))
