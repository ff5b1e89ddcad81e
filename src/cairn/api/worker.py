"""An API worker: serves the listening socket that the supervisor opened, until told to stop."""

import asyncio
import contextlib
import gc
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import structlog
import uvloop
from websockets.frames import CloseCode

from cairn.api.app import make_api
from cairn.api.chain_view import ChainView
from cairn.api.events.hub import EventHub
from cairn.api.node_gauges import NodeGauges
from cairn.api.rpc.transaction_methods import import_encoder
from cairn.api.server.certificates import Certificates, Pair
from cairn.api.server.http_server import Server
from cairn.api.server.metrics_server import MetricsServer
from cairn.api.server.server_state import ServerState
from cairn.board import Board
from cairn.config import Settings
from cairn.core.gateway import CoreGateway
from cairn.core.link import LinkClient
from cairn.domain.errors import Fatal
from cairn.heartbeat import keep_beating
from cairn.log import keep_telling

IMPORT_AFTER_S = 5.0
"""How long after its start a dev chain's worker imports what few clients need."""
IMPORT_SWITCH_S = 0.0005
"""How long that import keeps Python's lock while the event loop waits for it: a tenth of what is usual."""
MEETING_S = 2.0
"""How long a worker that replaces another waits for the core, before it says that the core is starting."""
MEETING_POLL_S = 0.002

log = structlog.get_logger("cairn.api")


def run_worker(
    index: int, settings: Settings, sock: socket.socket, core_socket: Path, scratch_dir: Path, lifeline: int,
    chain_id: int | None = None, reread: Callable[[], Settings] | None = None, genesis_file: bytes = b"",
    board: Board | None = None, metrics_sock: socket.socket | None = None, home: Path | None = None,
) -> None:  # fmt: skip
    """Run until SIGTERM, or until `lifeline` ends because the supervisor died. Raises `Fatal` for a damaged store.

    `chain_id` is for answers before the core has announced it. `reread` gives the settings when they may have changed.
    `genesis_file` is the canonical genesis.json. `board` is that of all cores and workers of this node.
    `metrics_sock` is where metrics are served, if they are. `home` is where the latest backup is noted.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker = Worker(settings, scratch_dir, chain_id, index, reread, genesis_file, board, home)
    uvloop.run(worker.run(sock, core_socket, lifeline, metrics_sock))
    log.debug("worker stopped", worker=index)


class Worker:
    def __init__(
        self,
        settings: Settings,
        scratch_dir: Path,
        chain_id: int | None,
        index: int = 0,
        reread: Callable[[], Settings] | None = None,
        genesis_file: bytes = b"",
        board: Board | None = None,
        home: Path | None = None,
    ) -> None:
        self._index = index
        self._home = home
        self._settings = settings
        self._reread = reread
        self._failure: Fatal | None = None
        self._view = ChainView(scratch_dir, chain_id, self._fail, genesis_file, board)
        self._hub = EventHub(self._view, settings)
        self._view.subscribe(self._hub)

    async def run(
        self, sock: socket.socket, core_socket: Path, lifeline: int, metrics_sock: socket.socket | None = None
    ) -> None:
        loop = asyncio.get_running_loop()
        link = LinkClient(core_socket, self._view)
        # All workers have the same certificate: the first one speaks of it.
        self._certificates = make_certificates(self._settings, speaks=self._index == 0)
        self._server = make_server(link, self._view, self._hub, self._settings, certificates=self._certificates)
        # What a worker keeps for good is there now: later collections need not look at it, which takes milliseconds.
        gc.collect()
        gc.freeze()
        loop.add_signal_handler(signal.SIGTERM, self._stop)
        loop.add_reader(lifeline, self._orphaned, lifeline)
        keep_beating(loop.call_later, self._reload)
        keep_telling(loop.call_later)
        loop.call_later(IMPORT_AFTER_S, self._import_early)
        linking = loop.create_task(link.run())
        renewing = loop.create_task(self._certificates.watch()) if self._certificates is not None else None
        gauges = NodeGauges(self._view, loop.time, self._home)
        metrics_server = MetricsServer(self._settings, gauges.refresh, self._hub.shares)
        if metrics_sock is not None:
            await metrics_server.listen(metrics_sock)
        try:
            await self._meet_core()
            await self._server.serve(sock)
        finally:
            metrics_server.close()
            linking.cancel()
            if renewing is not None:
                renewing.cancel()
            self._view.close()
        if self._failure is not None:
            raise self._failure

    async def _meet_core(self) -> None:
        """If the chain is open, this worker replaces one that could answer: be as good from the first answer on."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MEETING_S):
                # Short and rare, so poll: the phase also changes at a stop, and the board when a core ends.
                while self._view.board.is_open and self._view.phase == "starting":  # noqa: ASYNC110
                    await asyncio.sleep(MEETING_POLL_S)

    def _import_early(self) -> None:
        """On a dev chain, where the first typed data to sign would wait seconds for it; by now the node is ready."""
        if self._view.info is not None and self._view.info.signs_for:
            import_in_background()

    def _reload(self) -> None:
        """The operator asks: apply what may change, and read the certificate again."""
        if self._reread is None:
            return
        settings = self._reread()
        self._server.adjust(settings)
        if self._certificates is not None:
            pair = Pair(settings.tls_cert, settings.tls_key)
            self._renewing = asyncio.get_running_loop().create_task(self._certificates.renew(pair, asked=True))

    def _stop(self) -> None:
        """Accept nothing new; finish the current answers."""
        self._view.on_phase("draining", "the node is shutting down")
        self._hub.close_all(CloseCode.GOING_AWAY)
        self._server.stop()

    def _orphaned(self, lifeline: int) -> None:
        asyncio.get_running_loop().remove_reader(lifeline)
        self._stop()

    def _fail(self, failure: Fatal) -> None:
        self._failure = failure
        self._stop()


def make_server(
    link: CoreGateway,
    view: ChainView,
    hub: EventHub,
    settings: Settings,
    clock: Callable[[], float] = time.monotonic,
    certificates: Certificates | None = None,
) -> Server:
    api = make_api(link, view, hub, settings, server_adds_chain_id=True)
    state = ServerState(view, api.app, api.hot, api.app.limiter, api.app.shares, settings)
    return Server(state, clock, certificates or make_certificates(settings))


def make_certificates(settings: Settings, speaks: bool = True) -> Certificates | None:
    return Certificates(Pair(settings.tls_cert, settings.tls_key), speaks) if settings.tls_cert else None


def import_in_background() -> None:
    """Import what signs typed data. Whatever prevents it now: the first request tries again, and tells."""
    # A process that has no memory left for a thread cannot start one.
    with contextlib.suppress(RuntimeError):
        Thread(target=_import_quietly, daemon=True).start()


def _import_quietly() -> None:
    # What is imported stays, too: a collection that looked at its 40,000 objects would take 12 ms.
    gc.disable()
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(IMPORT_SWITCH_S)
    # Such as too few descriptors.
    with contextlib.suppress(Exception):
        import_encoder()
    sys.setswitchinterval(usual_s)
    gc.freeze()
    gc.enable()
