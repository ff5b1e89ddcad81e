"""Puts the simulator's clock, disk, threads and CometBFT where the node's own code looks for the real ones.

The node's code is not changed: the modules of `cairn` find other objects under the names `time` and `threading`, files
are those of `files.py`, and classes that would open sockets are replaced. Everything above them is real.
"""

import asyncio
import functools
import math
import pathlib
import random
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import structlog

import cairn.core.process
import cairn.domain.steps
import cairn.engine.embedded
import cairn.engine.network.engine
import cairn.mempool.pool
import cairn.store.inspection
import cairn.store.journal
import cairn.store.prune
import cairn.store.state_recovery
import cairn.store.tree_file
from cairn.core import opening
from cairn.store.journal import Bounds, Journal
from cairn.store.rocks import Database
from cairn.store.state_recovery import RecoveredTree
from tests.simulation import link, threads
from tests.simulation.disk import Machines
from tests.simulation.files import simulated_files
from tests.simulation.rocksdb import simulated_rocksdb
from tests.support.virtual_time import VirtualTimeLoop

START_S = 1_800_000_000.0
TICKS = 2**20
"""In a second of virtual time."""
LEAVES_BLOCK = 0.1
"""How often a block's maker gives way after a step."""


class SimulatedLoop(VirtualTimeLoop):
    """Work for another thread is done by one that takes turns: the order of things must depend on the seed alone."""

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        # In ticks that add up exactly: who waits again for a remainder of less would wait for ever.
        return super().call_at(math.ceil(when * TICKS) / TICKS, callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        assert isinstance(executor, threads.Executor)
        return executor.run(self, functools.partial(func, *args))

    async def create_unix_connection(
        self, protocol_factory: Callable[[], Any], path: Any = None, **kwargs: Any
    ) -> tuple[Any, Any]:
        return await link.connect(protocol_factory, path)


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

    def perf_counter(self) -> float:
        return self._loop.now

    def thread_time(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        threads.pause()


def _slices_of(seed: int) -> Callable[[Iterable[Any]], AsyncIterator[Any]]:
    """What the engine finds as `in_slices`: the seed decides when a block's maker gives way, and for how long."""
    chance = random.Random(f"{seed}/slices")

    async def in_slices(items: Iterable[Any]) -> AsyncIterator[Any]:
        for item in items:
            yield item
            if chance.random() < LEAVES_BLOCK:
                await asyncio.sleep(chance.choice((0, 0, 0.002, 0.02, 0.2)))

    return in_slices


class SmallJournal:
    """A journal of few bytes, so that segments come and go."""

    segment_bytes = 4096
    max_segments = 3
    opened = 0
    """How often. The module that opens the node's may become another, which would know nothing of this one."""

    @classmethod
    def open(cls, path: pathlib.Path, bounds: Bounds) -> Journal:
        cls.opened += 1
        return Journal.open(path, bounds, cls.segment_bytes, cls.max_segments)


@contextmanager
def _counted_recoveries(machines: Machines) -> Generator[None, None, None]:
    real = cairn.store.state_recovery.recover_tree

    def recover(database: Database, path: pathlib.Path, *args: Any) -> RecoveredTree:
        found = real(database, path, *args)
        disk = machines.find_living(path)
        if disk is not None:
            disk.met["state trees from all accounts" if found.saved is None else "state trees from their file"] += 1
            disk.met["leaves computed anew"] += 0 if found.saved is None else found.age
        return found

    with mock.patch.object(cairn.store.inspection, "recover_tree", recover):
        yield


@contextmanager
def simulated_surroundings(
    seed: int,
    machines: Machines,
    clock: Clock,
    abci_server: type,
    rpc: type,
    link_server: type,
    passed_by: Callable[[str], None],
) -> Generator[None, None, None]:
    """While this lasts, the node's code in this process runs in the simulated world.

    `passed_by` is told of each file that was changed, but not through its disk.
    """
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50), cache_logger_on_first_use=False)
    link.begin(seed)
    with ExitStack() as patches:
        patches.enter_context(threads.no_leftovers(seed))
        for name, module in list(sys.modules.items()):
            if name.startswith("cairn."):
                if getattr(module, "time", None) is time:
                    patches.enter_context(mock.patch.object(module, "time", clock))
                if getattr(module, "ThreadPoolExecutor", None) is ThreadPoolExecutor:
                    patches.enter_context(mock.patch.object(module, "ThreadPoolExecutor", threads.Executor))
                if getattr(module, "threading", None) is threading:
                    patches.enter_context(mock.patch.object(module, "threading", threads.Threading))
        patches.enter_context(mock.patch.object(cairn.engine.network.engine, "AbciServer", abci_server))
        patches.enter_context(mock.patch.object(cairn.engine.network.engine, "Rpc", rpc))
        patches.enter_context(mock.patch.object(cairn.core.process, "LinkServer", link_server))
        patches.enter_context(mock.patch.object(opening, "Journal", SmallJournal))
        # As small beside a segment as in a real journal: large ones would leave each segment half empty for ever.
        patches.enter_context(mock.patch.object(cairn.store.journal, "_FRAME_RECORDS", 2))
        # A few removals, so that pruning has files merged.
        patches.enter_context(mock.patch.object(cairn.store.prune, "LEAST_REMOVALS", 3))
        # A few changes, so that the state tree is written while blocks are made; and read, however much they changed.
        patches.enter_context(mock.patch.object(cairn.store.tree_file, "LEAST_CHANGES", 10))
        patches.enter_context(mock.patch.object(cairn.store.tree_file, "SLICE_BYTES", 128))
        patches.enter_context(mock.patch.object(cairn.store.state_recovery, "MOST_SHARE", 0.1))
        # Large blocks and small steps, between which everybody else may come first.
        patches.enter_context(mock.patch.object(cairn.engine.embedded, "SMALL_BLOCK", 2))
        patches.enter_context(mock.patch.object(cairn.domain.steps, "STEP_ITEMS", 2))
        patches.enter_context(mock.patch.object(cairn.mempool.pool, "TAKEN_AT_ONCE", 1))
        patches.enter_context(mock.patch.object(cairn.engine.embedded, "in_slices", _slices_of(seed)))
        patches.enter_context(_counted_recoveries(machines))
        patches.enter_context(simulated_rocksdb(machines))
        patches.enter_context(simulated_files(machines, passed_by))
        yield
