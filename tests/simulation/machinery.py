"""Puts the simulator's clock, disk, threads and CometBFT where the node's own code looks for the real ones.

The node's code is not changed: the modules of `cairn` find other objects under the names `os`, `time` and `threading`,
and two classes that would open sockets are replaced. Everything above them is real.
"""

import asyncio
import math
import os
import pathlib
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import structlog
from rocksdict import Options

import cairn.core.process
import cairn.engine.network.engine
import cairn.store.compaction
import cairn.store.inspection
import cairn.store.journal
import cairn.store.rocks
from cairn.core import service
from cairn.store.journal import Bounds, Journal
from cairn.store.rocks import Batch, Database
from tests.simulation import threads
from tests.simulation.disk import Machines
from tests.support.journals import UNBOUNDED
from tests.support.virtual_time import VirtualTimeLoop

START_S = 1_800_000_000.0
TICKS = 2**20
"""In a second of virtual time."""
NEVER_FULL_BYTES = 1 << 30
"""Of a memtable, which takes memory only as it fills."""


class SimulatedLoop(VirtualTimeLoop):
    """Work for another thread is done at once: the order of things must depend on the seed alone."""

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        # In ticks that add up exactly: who waits again for a remainder of less would wait for ever.
        return super().call_at(math.ceil(when * TICKS) / TICKS, callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as failure:
                future.set_exception(failure)

        self.call_soon(work)
        return future


class Clock:
    """What the node finds as `time`."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop
        self.step_s = 0.0
        """How far the wall clock was set, beside what passed."""

    def time(self) -> float:
        return START_S + self._loop.now + self.step_s

    def monotonic(self) -> float:
        return self._loop.now

    def thread_time(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        threads.pause()


class SimulatedOs:
    """What the store finds as `os`."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._open: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        disk = self._machines.find(path)
        if disk is not None:
            disk.opened(pathlib.Path(path), flags)
            if flags & os.O_WRONLY:
                # The disk looks at what was there before a write.
                flags = flags & ~os.O_WRONLY | os.O_RDWR
        file = os.open(path, flags, mode)
        self._open[file] = os.fspath(path)
        return file

    def close(self, file: int) -> None:
        self._open.pop(file, None)
        os.close(file)

    def pwrite(self, file: int, data: bytes | memoryview, offset: int) -> int:
        disk = self._machines.find(self._open.get(file))
        return os.pwrite(file, data, offset) if disk is None else disk.write(file, data, offset)

    def fdatasync(self, file: int) -> None:
        path = self._open.get(file)
        disk = self._machines.find(path)
        if disk is not None and path is not None:
            disk.sync(file, pathlib.Path(path))

    def fsync(self, file: int) -> None:
        path = self._open.get(file)
        disk = self._machines.find(path)
        if disk is not None and path is not None:
            if os.path.isdir(path):
                disk.sync_directory(pathlib.Path(path))
            else:
                disk.sync(file, pathlib.Path(path))

    def statvfs(self, path: Any) -> os.statvfs_result:
        found = os.statvfs(path)
        disk = self._machines.find(path)
        if disk is None or not disk.is_full:
            return found
        fields = list(found)
        fields[4] = 0
        return os.statvfs_result(fields)


def _patch_paths(machines: Machines, patches: ExitStack) -> None:
    real_unlink, real_rename, real_mkdir = pathlib.Path.unlink, pathlib.Path.rename, pathlib.Path.mkdir

    def unlink(path: pathlib.Path, missing_ok: bool = False) -> None:
        disk = machines.find(path)
        if disk is not None and path.exists():
            disk.removing(path)
        real_unlink(path, missing_ok)

    def rename(path: pathlib.Path, target: Any) -> pathlib.Path:
        disk = machines.find(path)
        if disk is not None:
            disk.renaming(path, pathlib.Path(target))
        return real_rename(path, target)

    def mkdir(path: pathlib.Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        disk = machines.find(path)
        if disk is not None and not path.exists():
            disk.made_directory(path)
        real_mkdir(path, mode, parents, exist_ok)

    for name, replacement in (("unlink", unlink), ("rename", rename), ("mkdir", mkdir)):
        patches.enter_context(mock.patch.object(pathlib.Path, name, replacement))


class _Refusing:
    """In RocksDB's place for one write, which fails as RocksDB reports it."""

    def __init__(self, failure: OSError) -> None:
        self._failure = failure

    def write(self, *args: object) -> None:
        raise Exception(f"IO error: {self._failure}")


def _patch_rocksdb(machines: Machines, patches: ExitStack) -> None:
    real_init, real_write, real_checkpoint = Database.__init__, Database.write, Database.checkpoint
    real_options, real_family = cairn.store.rocks._database_options, cairn.store.rocks._family_options

    def init(self: Database, path: pathlib.Path, *args: Any, **kwargs: Any) -> None:
        disk = machines.find(path)
        if disk is not None:
            try:
                disk.opening()
            except OSError as failure:
                raise cairn.store.rocks._failure(path, Exception(f"IO error: {failure}")) from failure
        real_init(self, path, *args, **kwargs)

    def refuse(self: Database, batch: Batch, failure: OSError) -> None:
        real, self._rocks = self._rocks, _Refusing(failure)  # type: ignore[assignment]
        try:
            real_write(self, batch)
        finally:
            self._rocks = real

    def write(self: Database, batch: Batch, *, sync: bool = True) -> None:
        disk = machines.find(self._path)
        if disk is None:
            real_write(self, batch, sync=sync)
            return
        try:
            fault = disk.before_batch()
            real_write(self, batch, sync=sync)
            disk.after_batch(self._path, sync, fault)
        except OSError as failure:
            refuse(self, batch, failure)

    def checkpoint(self: Database, path: pathlib.Path) -> None:
        real_checkpoint(self, path)
        disk = machines.find(path)
        if disk is not None:
            disk.trust_logs(path)

    def options(strict: bool) -> Options:
        made = real_options(strict)
        # A hundred threads to open a few files with.
        made.set_max_file_opening_threads(1)
        return made

    def family(*args: Any) -> Options:
        made = real_family(*args)
        # Nothing may happen to the files beside what the simulator does: threads of RocksDB's own keep no order.
        made.set_disable_auto_compactions(True)
        made.set_write_buffer_size(NEVER_FULL_BYTES)
        return made

    for name, replacement in (("__init__", init), ("write", write), ("checkpoint", checkpoint)):
        patches.enter_context(mock.patch.object(Database, name, replacement))
    patches.enter_context(mock.patch.object(cairn.store.rocks, "_database_options", options))
    patches.enter_context(mock.patch.object(cairn.store.rocks, "_family_options", family))


class SmallJournal:
    """Of few bytes, so that segments come and go."""

    segment_bytes = 4096
    max_segments = 3
    is_bounded = True
    """Whether others know where it must start and end."""

    @classmethod
    def open(cls, path: pathlib.Path, bounds: Bounds) -> Journal:
        return Journal.open(path, bounds if cls.is_bounded else UNBOUNDED, cls.segment_bytes, cls.max_segments)

    @classmethod
    def check(cls, path: pathlib.Path, bounds: Bounds) -> None:
        Journal.check(path, bounds if cls.is_bounded else UNBOUNDED)


@contextmanager
def simulated_surroundings(
    machines: Machines, clock: Clock, abci_server: type, rpc: type, link_server: type
) -> Generator[None, None, None]:
    """While this lasts, the node's code in this process runs in the simulated world."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50), cache_logger_on_first_use=False)
    fake_os = SimulatedOs(machines)
    with ExitStack() as patches:
        patches.enter_context(threads.no_leftovers())
        for name, module in list(sys.modules.items()):
            if name.startswith("cairn."):
                if getattr(module, "time", None) is time:
                    patches.enter_context(mock.patch.object(module, "time", clock))
                if name.startswith("cairn.store.") and getattr(module, "os", None) is os:
                    patches.enter_context(mock.patch.object(module, "os", fake_os))
                if getattr(module, "threading", None) is threading:
                    patches.enter_context(mock.patch.object(module, "threading", threads.Threading))
        patches.enter_context(mock.patch.object(cairn.engine.network.engine, "AbciServer", abci_server))
        patches.enter_context(mock.patch.object(cairn.engine.network.engine, "Rpc", rpc))
        patches.enter_context(mock.patch.object(cairn.core.process, "LinkServer", link_server))
        patches.enter_context(mock.patch.object(service, "Journal", SmallJournal))
        patches.enter_context(mock.patch.object(cairn.store.inspection, "Journal", SmallJournal))
        # As small beside a segment as in a real journal: large ones would leave each segment half empty for ever.
        patches.enter_context(mock.patch.object(cairn.store.journal, "_FRAME_RECORDS", 2))
        # A few removals, so that pruning has files merged.
        patches.enter_context(mock.patch.object(cairn.store.compaction, "LEAST_REMOVALS", 3))
        _patch_paths(machines, patches)
        _patch_rocksdb(machines, patches)
        yield
