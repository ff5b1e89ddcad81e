"""A node of the simulation: the real core, opened, failed, reopened and killed as a supervisor and fate would."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from cairn.config import Settings
from cairn.core.gateway import Admission
from cairn.core.process import CoreProcess
from cairn.core.service import Core
from cairn.domain.errors import Fatal
from cairn.domain.genesis import Genesis
from cairn.domain.types import Address, DropReason, SealedBlock, Tx, TxHash
from cairn.engine.network.engine import NetworkEngine
from cairn.store.directory import SeenChain
from tests.simulation.disk import Crash, Disk
from tests.simulation.link import Server
from tests.simulation.threads import Executor, Turns


class Violation(AssertionError):
    """The node broke a promise."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind


class Link(Server):
    """What the core finds as its server."""

    def __init__(self, core: "Process") -> None:
        super().__init__(core, core.node.link_path)
        self._node = core.node

    def on_commit(self, height: int, block: SealedBlock | None = None) -> None:
        if self.is_alive:
            self._node.announced(height)
        super().on_commit(height, block)
        if self.is_alive:
            self._node.told_something()

    def on_dropped(self, tx_hash: TxHash, reason: DropReason) -> None:
        if self.is_alive:
            self._node.told_drops[tx_hash] = reason
            self._node.on_dropped(self._node, tx_hash, reason)
        super().on_dropped(tx_hash, reason)
        if self.is_alive:
            self._node.told_something()

    @property
    def is_alive(self) -> bool:
        return super().is_alive and not self._node.disk.is_dead


class Process(CoreProcess):
    """The core's process, without signals and sockets."""

    def __init__(self, node: "Node", *args: Any) -> None:
        self.node = node
        super().__init__(*args)

    async def simulate(self) -> None:
        try:
            while not self._stopping.is_set():
                await self._serve()
        finally:
            self._end_revert(Fatal("the process ends"))

    @property
    def core(self) -> Core | None:
        return self._core

    @property
    def is_ready(self) -> bool:
        return self._core is not None and self._phase == "ready"

    def submit(self, tx: Tx) -> "asyncio.Future[Admission]":
        """As the link does. Raises `Unavailable`."""
        if self.admissions is None:
            raise self.why_not()
        return self.admissions.submit(tx)

    @property
    def link(self) -> Link:
        assert isinstance(self._server, Link)
        return self._server

    def drain(self) -> None:
        self._drain()


class Node:
    """One machine with one node on it, through all its lives."""

    def __init__(self, number: int, disk: Disk, genesis: Genesis, settings: Settings) -> None:
        self.number = number
        self.disk = disk
        self.genesis = genesis
        self.settings = settings
        self.dev_keys: Mapping[Address, bytes] = {}
        self.seen = SeenChain()
        self.process: Process | None = None
        self.worker: Any = None
        self.task: asyncio.Task[None] | None = None
        self.told = -1
        """The newest height that anybody was told of."""
        self.told_drops: dict[bytes, DropReason] = {}
        """What anybody was told is dropped, and nobody has sent since."""
        self.kept_told = -1
        """The same when the copy of its disk was made."""
        self.kept_promises: dict[tuple[int, bytes], Any] = {}
        self._tellings_left = 0
        self._telling_seed = 0
        self.life = 0
        self.epoch = 0
        """Counts how often all was made void that anybody was answered: on an empty disk, or by a revert."""
        self.damage = ""
        """What was done to its files while it was down: it must not start as if nothing were."""
        self.on_exit: Callable[[Node, BaseException | None], None] = lambda node, failure: None
        self.on_announced: Callable[[Node, int], None] = lambda node, height: None
        self.on_dropped: Callable[[Node, TxHash, DropReason], None] = lambda node, tx_hash, reason: None

    @property
    def name(self) -> str:
        return f"node{self.number}"

    @property
    def link_path(self) -> str:
        return f"/simulated/core{self.number}.sock"

    @property
    def socket(self) -> Path:
        return Path(f"/simulated/{self.number}")

    @property
    def is_up(self) -> bool:
        return self.process is not None

    def has_died(self) -> bool:
        """Asked anew each time: its disk may have failed since."""
        return self.disk.is_dead

    @property
    def core(self) -> Core | None:
        return None if self.process is None or self.disk.is_dead else self.process.core

    @property
    def is_ready(self) -> bool:
        return self.process is not None and not self.disk.is_dead and self.process.is_ready

    def crash_at_telling(self, after: int, seed: int) -> None:
        self._tellings_left, self._telling_seed = after, seed

    def told_something(self) -> None:
        if self._tellings_left and not self.disk.is_dead:
            self._tellings_left -= 1
            if not self._tellings_left:
                self.forget_supervisor()
                self.disk.met["power losses at a telling"] += 1
                self.disk.crash(power=True, seed=self._telling_seed)
                raise Crash

    def announced(self, height: int) -> None:
        if not self.disk.is_dead:
            if height > self.told:
                self.disk.anchor()
            self.told = max(self.told, height)
            self.on_announced(self, height)

    def start(self) -> None:
        assert self.process is None
        self.life += 1
        socket = self.socket if self.settings.engine != "embedded" else None
        self.process = Process(self, self.genesis, self.disk.path, self.settings, self.dev_keys, socket, self.seen)
        self.task = asyncio.get_running_loop().create_task(self.process.simulate(), name=f"{self.name} {self.life}")
        self.task.add_done_callback(self._ended)
        if self.worker is not None:
            self.worker.join()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if task is not self.task:
            return
        failure = None if task.cancelled() else task.exception()
        if isinstance(failure, Crash) or self.disk.is_dead:
            return
        self._end_link()
        self.process = self.task = None
        self.on_exit(self, failure)

    async def stop(self) -> None:
        """A clean stop, if nothing fails meanwhile."""
        if self.process is not None and self.task is not None and not self.disk.is_dead:
            self.process.drain()
            if self.worker is not None:
                self.worker.leave()
            task = self.task
            # The power may fail in a thread beside it: then nothing of it ends by itself.
            while not task.done() and not self.has_died():
                await asyncio.wait([task], timeout=1.0)

    def bury(self) -> None:
        """After its disk is dead: take everything of the last life out of the world."""
        assert self.disk.is_dead
        process, task = self.process, self.task
        self._end_link()
        self.process = self.task = None
        if task is not None:
            task.cancel()
        core = None if process is None else process.core
        if core is not None:
            _bury_core(core)
        elif self.disk.primary is not None:
            # It died while its core was being stopped, which its process no longer has. What nobody closes, RocksDB
            # closes when it is collected, and by then its files are gone: that ends the whole simulation.
            self.disk.primary.close()

    def _end_link(self) -> None:
        if self.process is not None:
            self.process.link.die()

    def forget_supervisor(self) -> None:
        """Not only the core ended: the next start knows nothing of what this node has seen."""
        self.seen = SeenChain()


def _bury_core(core: Core) -> None:
    for pending in (core._housekeeping, core._engine_task):
        if pending is not None:
            pending.cancel()
    engine = core.engine
    upkeep = engine._snapshots if isinstance(engine, NetworkEngine) else getattr(engine, "_pruning", None)
    for kind in (upkeep, core._tree_upkeep):
        thread: object = None if kind is None else kind._thread
        if isinstance(thread, Turns):
            thread.kill()
    if isinstance(engine, NetworkEngine):
        for executor in (
            engine._snapshots._sync._thread,
            engine._parsed_txs._threads,
            engine._parsed_txs._block_threads,
        ):
            cast(Executor, executor).kill()
    core.failed.cancel()
    core._arrivals.close()
    # It would remove the segment that it has begun in advance.
    with suppress(Crash):
        core._journal.close()
    core._chain.close()
