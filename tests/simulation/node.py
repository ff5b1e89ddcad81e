"""A node of the simulation: the real core, opened, failed, reopened and killed as a supervisor and fate would."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cairn.config import Settings
from cairn.core.gateway import ChainInfo, Phase
from cairn.core.process import CoreProcess
from cairn.core.service import Core
from cairn.domain.errors import Fatal
from cairn.domain.genesis import Genesis
from cairn.domain.types import Address, DropReason, Tx, TxHash
from cairn.engine.network.engine import NetworkEngine
from cairn.store.known_chain import SeenChain
from tests.simulation.disk import Crash, Disk
from tests.simulation.threads import Turns


class Violation(AssertionError):
    """The node broke a promise."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind


class Link:
    """What the core finds as its server: whatever it tells workers is told to one listener, in order."""

    def __init__(self, core: "Process") -> None:
        self._node = core.node
        self.idle = asyncio.Event()
        self.idle.set()

    def on_info(self, info: ChainInfo) -> None:
        self._tell("on_info", info)

    def on_phase(self, phase: Phase, reason: str) -> None:
        self._tell("on_phase", phase, reason)

    def on_commit(self, height: int) -> None:
        self._node.announced(height)
        self._tell("on_commit", height)

    def on_dropped(self, tx_hash: TxHash, reason: DropReason) -> None:
        if not self._node.disk.is_dead:
            self._node.on_dropped(self._node, tx_hash, reason)
        self._tell("on_dropped", tx_hash, reason)

    def on_arrived(self, txs: Sequence[Tx]) -> None:
        self._tell("on_arrived", txs)

    def _tell(self, name: str, *args: object) -> None:
        worker = self._node.worker
        if worker is not None and not self._node.disk.is_dead:
            getattr(worker, name)(*args)

    async def settle(self) -> None:
        await asyncio.sleep(0)


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
        self.life = 0
        self.damage = ""
        """What was done to its files while it was down: it must not start as if nothing were."""
        self.on_exit: Callable[[Node, BaseException | None], None] = lambda node, failure: None
        self.on_announced: Callable[[Node, int], None] = lambda node, height: None
        self.on_dropped: Callable[[Node, TxHash, DropReason], None] = lambda node, tx_hash, reason: None

    @property
    def name(self) -> str:
        return f"node{self.number}"

    @property
    def socket(self) -> Path:
        return Path(f"/simulated/{self.number}")

    @property
    def is_up(self) -> bool:
        return self.process is not None

    @property
    def core(self) -> Core | None:
        return None if self.process is None or self.disk.is_dead else self.process.core

    @property
    def is_ready(self) -> bool:
        return self.process is not None and not self.disk.is_dead and self.process.is_ready

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

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if task is not self.task:
            return
        failure = None if task.cancelled() else task.exception()
        if isinstance(failure, Crash) or self.disk.is_dead:
            return
        self.process = self.task = None
        self.on_exit(self, failure)

    async def stop(self) -> None:
        """A clean stop, if nothing fails meanwhile."""
        if self.process is not None and self.task is not None:
            self.process.drain()
            await asyncio.wait([self.task])

    def bury(self) -> None:
        """After its disk is dead: take everything of the last life out of the world."""
        assert self.disk.is_dead
        process, task = self.process, self.task
        self.process = self.task = None
        if task is not None:
            task.cancel()
        core = None if process is None else process.core
        if core is not None:
            _bury_core(core)
        if self.worker is not None:
            self.worker.lost_core()

    def forget_supervisor(self) -> None:
        """Not only the core ended: the next start knows nothing of what this node has seen."""
        self.seen = SeenChain()


def _bury_core(core: Core) -> None:
    for pending in (core._housekeeping, core._engine_task):
        if pending is not None:
            pending.cancel()
    if isinstance(core.engine, NetworkEngine):
        thread: object = core.engine._snapshots._thread
        if isinstance(thread, Turns):
            thread.kill()
    core.failed.cancel()
    core._arrivals.close()
    core._journal.close()
    core._chain.close()
