"""The core process: opens the chain, serves the workers, reopens the chain when the disk fails, drains at a stop."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import structlog
import uvloop

from cairn import metrics
from cairn.board import Board, Fault
from cairn.config import EXIT_FATAL, EXIT_VERSION, Settings
from cairn.core.calls import Method, Needs
from cairn.core.gateway import UNOBSERVED, ChainInfo, ChainObserver, Observing, Status, TxStatus
from cairn.core.idempotency_keys import IdempotencyKeys
from cairn.core.link_server import LinkedCore, LinkServer
from cairn.core.opening import open_core
from cairn.core.service import Core
from cairn.domain.answers import NOT_KNOWN, Checks
from cairn.domain.errors import (
    AnotherVersionNeeded,
    Fatal,
    JournalUnavailable,
    NodeError,
    Reverting,
    ShuttingDown,
    Starting,
    StoreUnavailable,
    Unavailable,
    reason_of,
)
from cairn.domain.genesis import Genesis
from cairn.domain.types import Address, Phase, TxHash
from cairn.engine.embedded import Pace
from cairn.heartbeat import BEAT_S, Work, doing, keep_beating
from cairn.log import keep_telling, print_fatal
from cairn.store.directory import SeenChain
from cairn.store.signing_key import KeyFiles, SigningKeys

REOPEN_INTERVAL_S = 1.0
FAULT_INTERVAL_S = 0.5
"""How often it is shown what is wrong."""

_A = TypeVar("_A")
log = structlog.get_logger("cairn.core")


def run_core(
    genesis: Genesis,
    data_dir: Path,
    settings: Settings,
    core_socket: Path,
    dev_keys: Mapping[Address, bytes],
    lifeline: int,
    abci_socket: Path | None,
    seen: SeenChain,
    observing: Observing = UNOBSERVED,
    reread: Callable[[], Settings] | None = None,
    key_files: KeyFiles | None = None,
    board: Board | None = None,
) -> int:
    """Run until the stop. Returns the exit code; the reason is printed on standard error.

    `abci_socket` is where to listen for CometBFT; None on a node that makes its blocks alone. `seen` is what earlier
    cores of this node have had on disk. `observing` is entered here, for as long as the core lives. `reread` is called
    when the settings may have changed; of those that can change, only the log level concerns the core. `key_files`
    hold the key that a node signs its blocks with, if it makes them alone; on a dev chain everybody has it. `board` is
    that of all cores and workers of this node.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with observing as observer:
            core = CoreProcess(genesis, data_dir, settings, dev_keys, abci_socket, seen, observer, key_files, board)
            uvloop.run(core.run(core_socket, lifeline, reread))
    except Fatal as failure:
        print_fatal(failure)
        return EXIT_VERSION if isinstance(failure, AnotherVersionNeeded) else EXIT_FATAL
    return 0


class CoreProcess(LinkedCore):
    """The core in all of its phases, as the workers see it."""

    def __init__(
        self,
        genesis: Genesis,
        data_dir: Path,
        settings: Settings,
        dev_keys: Mapping[Address, bytes],
        abci_socket: Path | None = None,
        seen: SeenChain | None = None,
        observer: ChainObserver | None = None,
        key_files: KeyFiles | None = None,
        board: Board | None = None,
    ) -> None:
        """Read the signing keys. Raises `NoSigningKey`."""
        self._settings = settings
        self._seen = seen or SeenChain()
        self._observer = observer
        self._core: Core | None = None
        self._ended: Core | None = None
        """The previous core, while the disk fails: it still answers from memory."""
        self._phase: Phase = "starting"
        self._reason = "the store is being opened"
        self._failed_checks = Checks(store="not open yet", mempool="not open yet", core=self._reason)
        self._arrivals_watched = False
        self._reverted: asyncio.Future[None] | None = None
        """Done once the chain is open again after a revert."""
        self._board = board or Board()
        self._stopping = asyncio.Event()
        self._server = LinkServer(self)
        self._open = partial(
            open_core,
            genesis,
            data_dir,
            settings,
            dev_keys,
            self._server,
            abci_socket,
            pace=Pace(settings.block_time_s, settings.empty_blocks),
            observer=observer,
            signing_keys=SigningKeys(key_files),
            board=self._board,
            idempotency_keys=IdempotencyKeys(),
        )

    async def run(self, core_socket: Path, lifeline: int, reread: Callable[[], Settings] | None = None) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._loop_failed)
        loop.add_signal_handler(signal.SIGTERM, self._drain)
        # The supervisor holds the other end while it lives. Without a supervisor nobody would stop this process.
        loop.add_reader(lifeline, os._exit, EXIT_FATAL)
        keep_beating(loop.call_later, reread or (lambda: None))
        keep_telling(loop.call_later)
        show_life(loop, loop.time())
        self._keep_showing_faults()
        listener = await self._server.listen(str(core_socket))
        try:
            while not self._stopping.is_set():
                await self._serve()
        finally:
            self._end_revert(ShuttingDown("the node is shutting down; the revert is finished when it starts again"))
            listener.close()

    async def _serve(self) -> None:
        """Run one opened chain, until the stop or a failed write."""
        try:
            # Only the first opening after the node's start may start a new chain, and only the node's first one.
            with doing(Work.OPENING):
                core = self._open(seen=self._seen.last(), begun=self._seen.find_begun_file())
        except StoreUnavailable as failure:
            self._end_revert(failure)
            await self._unavailable(failure)
            return
        self._remember(core)
        # Before anybody is served: from here on there is something to lose.
        self._remember_begun()
        # First, so that every announced block is among those that the next opening must find.
        core.feed.subscribe(lambda height: self._remember(core))
        core.feed.subscribe_blocks(self._server.on_commit)
        core.watch_arrivals(self._arrivals_watched)
        self._core, self._ended = core, None
        core.start()
        self._server.on_info(core.info())
        self._server.on_commit(core.head)
        if not self._stopping.is_set():
            self._enter("ready", "")
        if self._reverted is not None and self._observer is not None:
            self._observer.saw_revert(core.head)
        self._end_revert(None)
        stopping = asyncio.ensure_future(self._stopped())
        await asyncio.wait([stopping, core.failed], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        try:
            if self._reverted is not None:
                # No worker may read the files while they are replaced: the new ones have the same names.
                await self._server.settle()
            else:
                # If the disk is full, the next opening needs that space.
                core.have_files_released()
            await core.stop()
        finally:
            self._core = self.admissions = None
            # Also if the stop fails: a failure that nobody asks for is reported by asyncio as well.
            ended_by = core.failed.exception() if core.failed.done() else None
        if core.failed.done():
            if not isinstance(ended_by, StoreUnavailable):
                raise ended_by or Fatal("the engine ended")
            # A revert is not a failure: the snapshot is opened at once.
            if isinstance(ended_by, Reverting):
                log.info("the chain is reverted", reason=ended_by.detail)
            else:
                self._ended = core
                await self._unavailable(ended_by)

    def _remember_begun(self) -> None:
        try:
            self._seen.note_begun()
        except (OSError, StoreUnavailable) as failure:
            # Read-only homes are fine; this only protects from starting without the data directory.
            log.warning("cannot write down that the chain was begun", reason=reason_of(failure))

    def _remember(self, core: Core) -> None:
        self._seen.note(core.seen_head())

    async def _stopped(self) -> None:
        """Wait for the stop signal, and until every worker has ended."""
        await self._stopping.wait()
        await self._server.idle.wait()

    async def _unavailable(self, failure: StoreUnavailable) -> None:
        log.error("the store is unavailable", reason=failure.detail)
        self._failed_checks = checks_after(failure)
        if not self._stopping.is_set():
            self._enter("unavailable", failure.detail)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopped(), REOPEN_INTERVAL_S)

    def _enter(self, phase: Phase, reason: str) -> None:
        self._phase, self._reason = phase, reason
        self.admissions = self._core.admissions if phase == "ready" and self._core is not None else None
        self._server.on_phase(phase, reason)
        self._board.show_fault(self._find_fault())

    def _keep_showing_faults(self) -> None:
        self._board.show_fault(self._find_fault())
        asyncio.get_running_loop().call_later(FAULT_INTERVAL_S, self._keep_showing_faults)

    def _find_fault(self) -> Fault | None:
        """Why the node is not ready, as far as this process knows. A revert takes some milliseconds, and is none."""
        if self._phase == "unavailable":
            return Fault("disk", self._reason) if self._reverted is None else None
        if self._phase == "starting" or self._core is None:
            return Fault("core", self._reason)
        return self._core.find_fault()

    def _drain(self) -> None:
        self._enter("draining", "the node is shutting down")
        self._stopping.set()

    # Calls of the workers. A core that cannot answer raises the reason.

    def greeting(self) -> tuple[Phase, str, ChainInfo | None, int]:
        core = self._core
        if core is None:
            return self._phase, self._reason, None, 0
        return self._phase, self._reason, core.info(), core.head

    def answered_with(self, error: NodeError) -> None:
        if self._core is not None and isinstance(error, Fatal | StoreUnavailable):
            self._core.admissions.fail(error)

    def _loop_failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback raised. The core may be inconsistent, so it must end."""
        loop.default_exception_handler(context)
        failure = context.get("exception")
        if self._core is not None and isinstance(failure, Exception):
            self._core.admissions.fail(failure)

    def _core_for(self, needs: Needs) -> Core:
        if needs == "memory" and self._ended is not None:
            return self._ended
        if self._core is None or (needs == "ready" and self._phase != "ready"):
            raise self.why_not()
        return self._core

    def why_not(self) -> Unavailable:
        if self._phase == "draining":
            return ShuttingDown(self._reason)
        if self._phase == "starting":
            return Starting(self._reason)
        return StoreUnavailable(self._reason)

    def perform(self, method: Method[_A], request: msgspec.Struct) -> Coroutine[Any, Any, _A]:
        return method.ask(self._core_for(method.needs), request)

    async def find_tx(self, tx_hash: TxHash) -> TxStatus | None:
        """A core that has ended answers from memory; None is then no answer."""
        status = await self._core_for("memory").find_tx(tx_hash)
        if status is None and self._ended is not None:
            raise self.why_not()
        return status

    def watch_arrivals(self, on: bool) -> None:
        self._arrivals_watched = on
        if self._core is not None:
            self._core.watch_arrivals(on)

    async def status(self) -> Status:
        core = self._ended or self._core
        if core is None:
            return Status(self._phase, self._reason, 0, 0, 0, self._settings.mempool_size, int(time.time()))
        return core.status_in(self._phase, self._reason)

    async def check(self) -> Checks:
        if self._core is None:
            return self._failed_checks
        return await self._core.check()

    async def revert(self, snapshot: int) -> bool:
        """Answered once no worker shows anything of the old chain."""
        core = self._core_for("ready")
        if not await core.revert(snapshot):
            return False
        self._reverted = asyncio.get_running_loop().create_future()
        self._enter("unavailable", f"the chain goes back to snapshot {snapshot}")
        self._failed_checks = Checks(store=self._reason, mempool=self._reason, core=self._reason)
        self._server.on_info(core.info())
        await self._reverted
        await self._server.settle()
        return True

    def _end_revert(self, failure: NodeError | None) -> None:
        reverted, self._reverted = self._reverted, None
        if reverted is not None and failure is not None:
            reverted.set_exception(failure)
        elif reverted is not None:
            reverted.set_result(None)


def show_life(loop: asyncio.AbstractEventLoop, due: float) -> None:
    """Show again and again that the event loop turns, and how late it runs what was `due` now."""
    now = loop.time()
    metrics.CORE_LOOP_LAG.observe(max(0.0, now - due))
    metrics.CORE_HEARTBEAT.set(time.time())
    loop.call_at(now + BEAT_S, show_life, loop, now + BEAT_S)


def checks_after(failure: StoreUnavailable) -> Checks:
    """Name the part that failed. The other one is closed, too, until both can be opened."""
    if isinstance(failure, JournalUnavailable):
        store, mempool = "closed until the mempool's journal can be written", failure.detail
    else:
        store, mempool = failure.detail, "closed until the store can be written"
    return Checks(store=store, mempool=mempool, disk=failure.detail, engine=NOT_KNOWN, peers=NOT_KNOWN)
