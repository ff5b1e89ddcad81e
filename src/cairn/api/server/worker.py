"""An API worker: serves the listening socket that the supervisor opened, until told to stop."""

import asyncio
import contextlib
import gc
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread

import structlog
import uvicorn
import uvloop
from websockets.frames import CloseCode

from cairn import memory
from cairn.api.app import make_app
from cairn.api.chain_view import ChainView
from cairn.api.events.hub import EventHub
from cairn.api.rpc.signing_methods import import_encoder
from cairn.api.server.certificates import Certificates, Pair
from cairn.api.server.fast_path import FastPath, Held
from cairn.api.server.http_protocol import HttpProtocol
from cairn.api.server.listener import Listener
from cairn.api.submitter import Submitter
from cairn.config import Settings
from cairn.core.gateway import CoreGateway
from cairn.core.link import LinkClient
from cairn.domain.errors import Fatal
from cairn.heartbeat import keep_beating

BACKLOG = 2_048
"""Connections that the system keeps until they are accepted."""
DRAIN_TIMEOUT_S = 2.0
"""How long unfinished answers may take at a stop."""
DRAIN_POLL_S = 0.05
MAX_UNREAD_BYTES = 256 * 1024 * 1024
"""Written for all clients together and not read by them yet. A client that reads has next to none."""
WORTH_TRIMMING_BYTES = 8 * 1024 * 1024
IMPORT_AFTER_S = 5.0
"""How long after its start a dev chain's worker imports what few clients need."""

log = structlog.get_logger("cairn.api")


def run_worker(
    index: int, settings: Settings, sock: socket.socket, core_socket: Path, scratch_dir: Path, lifeline: int,
    chain_id: int | None = None, reread: Callable[[], Settings] | None = None,
) -> None:  # fmt: skip
    """Run until SIGTERM, or until `lifeline` ends because the supervisor died. Raises `Fatal` for a damaged store.

    `chain_id` is for answers before the core has announced it. `reread` gives the settings when they may have changed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    uvloop.run(Worker(settings, scratch_dir, chain_id, index, reread).run(sock, core_socket, lifeline))
    log.debug("worker stopped", worker=index)


class Worker:
    def __init__(
        self,
        settings: Settings,
        scratch_dir: Path,
        chain_id: int | None,
        index: int = 0,
        reread: Callable[[], Settings] | None = None,
    ) -> None:
        self._index = index
        self._settings = settings
        self._reread = reread
        self._failure: Fatal | None = None
        self._view = ChainView(scratch_dir, chain_id, self._fail)
        self._hub = EventHub(self._view, settings)
        self._view.subscribe(self._hub)

    async def run(self, sock: socket.socket, core_socket: Path, lifeline: int) -> None:
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
        loop.call_later(IMPORT_AFTER_S, self._import_early)
        linking = loop.create_task(link.run())
        renewing = loop.create_task(self._certificates.watch()) if self._certificates is not None else None
        try:
            await self._server.serve(sock)
        finally:
            linking.cancel()
            if renewing is not None:
                renewing.cancel()
            self._view.close()
        if self._failure is not None:
            raise self._failure

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
) -> "Server":
    app = make_app(link, view, hub, settings, server_adds_chain_id=True)
    intake = Submitter(link, view)
    lane = FastPath(view, intake, app.calls, app.hosts, app.origins, app.limiter, settings, app, app.shares)
    return Server(lane, clock, certificates or make_certificates(settings))


def make_certificates(settings: Settings, speaks: bool = True) -> Certificates | None:
    return Certificates(Pair(settings.tls_cert, settings.tls_key), speaks) if settings.tls_cert else None


class Server:
    """Accepts connections on a socket, and ends slow ones, until the stop."""

    def __init__(self, lane: FastPath, clock: Callable[[], float], certificates: Certificates | None = None) -> None:
        self._lane = lane
        self._clock = clock
        self._certificates = certificates
        self._most_held_bytes = 0
        """For clients, since memory was given back."""
        self._stopping = asyncio.Event()
        self._config = uvicorn.Config(
            lane.app,
            http="httptools",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
        )

    @property
    def connections(self) -> list[Held]:
        return list(self._lane.connections)

    @property
    def tasks(self) -> set["asyncio.Task[None]"]:
        """The running tasks of the application."""
        return self._lane.tasks

    def stop(self) -> None:
        self._stopping.set()

    def adjust(self, settings: Settings) -> None:
        self._lane.adjust(settings)

    async def serve(self, sock: socket.socket) -> None:
        accepting = self._accept_on(sock)
        while not self._stopping.is_set():
            self.sweep()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._lane.sweep_interval_s)
        accepting.close()
        sock.close()
        await self._end_connections()

    def _accept_on(self, sock: socket.socket) -> Listener:
        sock.listen(BACKLOG)
        return Listener(self._lane, self._certificates, sock, partial(HttpProtocol, self._lane, self._config))

    async def _end_connections(self) -> None:
        """Wait until the current answers are finished, within the time limit."""
        for connection in self.connections:
            connection.finish()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_TIMEOUT_S):
                # uvicorn's sets have no event for being empty, so poll.
                while self.connections or self.tasks:  # noqa: ASYNC110
                    await asyncio.sleep(DRAIN_POLL_S)
        for connection in self.connections:
            # The time is over.
            connection.transport.abort()

    def sweep(self) -> None:
        """End the connections that take too long."""
        self._lane.refresh(self._clock())
        # Before others end: what those let go is free only once the application has heard of it.
        self._give_memory_back(self._cut_off_unread() + self._lane.unanswered_bytes.taken)
        for connection in self.connections:
            if isinstance(connection, HttpProtocol):
                connection.sweep()

    def _give_memory_back(self, held_bytes: int) -> None:
        """Once clients have let go of much that they had made this worker hold."""
        self._most_held_bytes = max(self._most_held_bytes, held_bytes)
        if self._most_held_bytes - held_bytes >= WORTH_TRIMMING_BYTES:
            self._most_held_bytes = held_bytes
            memory.trim()

    def _cut_off_unread(self) -> int:
        """Answers have megabytes, and many clients that read none would fill the memory: the most unread go first.

        Returns how many bytes were unread.
        """
        transports = [connection.transport for connection in self.connections]
        unread = sorted(((each.get_write_buffer_size(), index) for index, each in enumerate(transports)), reverse=True)
        unread_bytes = sum(size_bytes for size_bytes, _ in unread)
        excess_bytes = unread_bytes - MAX_UNREAD_BYTES
        for size_bytes, index in unread:
            if excess_bytes <= 0:
                break
            transports[index].abort()
            excess_bytes -= size_bytes
        return unread_bytes


def import_in_background() -> None:
    """Import what signs typed data. Whatever prevents it now: the first request tries again, and tells."""
    # A process that has no memory left for a thread cannot start one.
    with contextlib.suppress(RuntimeError):
        Thread(target=_import_quietly, daemon=True).start()


def _import_quietly() -> None:
    # What is imported stays, too: a collection that looked at its 40,000 objects would take 12 ms.
    gc.disable()
    # Such as too few descriptors.
    with contextlib.suppress(Exception):
        import_encoder()
    gc.freeze()
    gc.enable()
