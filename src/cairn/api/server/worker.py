"""An API worker: serves the listening socket that the supervisor opened, until told to stop."""

import asyncio
import contextlib
import functools
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import structlog
import uvicorn
import uvloop
from websockets.frames import CloseCode

from cairn.api.app import make_app
from cairn.api.chain_view import ChainView
from cairn.api.events.hub import EventHub
from cairn.api.server.fast_path import FastPath, PlainHeads
from cairn.api.server.http_protocol import HttpProtocol
from cairn.api.server.websocket_protocol import EventsProtocol
from cairn.api.submitter import Submitter
from cairn.config import Settings
from cairn.core.gateway import CoreGateway
from cairn.core.link import LinkClient
from cairn.domain.errors import Fatal

DRAIN_TIMEOUT_S = 2
"""How long answers in flight may take at a stop."""

log = structlog.get_logger("cairn.api")


def run_worker(
    index: int, settings: Settings, sock: socket.socket, core_socket: Path, scratch_dir: Path, lifeline: int,
    chain_id: int | None = None,
) -> None:  # fmt: skip
    """Run until SIGTERM, or until `lifeline` ends because the supervisor died. Raises `Fatal` for a damaged store.

    `chain_id` is for the answers given before the core has told it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    uvloop.run(Worker(settings, scratch_dir, chain_id).run(sock, core_socket, lifeline))
    log.debug("worker stopped", worker=index)


class Worker:
    def __init__(self, settings: Settings, scratch_dir: Path, chain_id: int | None) -> None:
        self._settings = settings
        self._failure: Fatal | None = None
        self._view = ChainView(scratch_dir, chain_id, self._fail)
        self._hub = EventHub(self._view, settings)
        self._view.subscribe(self._hub)

    async def run(self, sock: socket.socket, core_socket: Path, lifeline: int) -> None:
        loop = asyncio.get_running_loop()
        link = LinkClient(core_socket, self._view)
        self._server = make_server(link, self._view, self._hub, self._settings)
        loop.add_signal_handler(signal.SIGTERM, self._stop)
        loop.add_reader(lifeline, self._orphaned, lifeline)
        linking = loop.create_task(link.run())
        try:
            await self._server.serve(sockets=[sock])
        finally:
            linking.cancel()
            self._view.close()
        if self._failure is not None:
            raise self._failure

    def _stop(self) -> None:
        """Nothing new from now on; what is being answered is finished."""
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
) -> "Server":
    app = make_app(link, view, hub, settings, server_adds_chain_id=True)
    lane = FastPath(view, Submitter(link, view), PlainHeads(app.hosts), app.limiter, settings)
    config = uvicorn.Config(
        app,
        http=functools.partial(HttpProtocol, lane),  # type: ignore[arg-type]  # any callable that makes one will do
        ws=EventsProtocol,
        ws_max_size=settings.ws_max_message_bytes,
        ws_ping_interval=settings.ws_ping_interval_s,
        ws_per_message_deflate=False,
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_graceful_shutdown=DRAIN_TIMEOUT_S,
        ssl_certfile=settings.tls_cert or None,
        ssl_keyfile=settings.tls_key or None,
    )
    return Server(config, lane, clock)


class Server(uvicorn.Server):
    """uvicorn's server under our supervisor: it takes no signals itself, and sweeps its connections."""

    def __init__(self, config: uvicorn.Config, lane: FastPath, clock: Callable[[], float]) -> None:
        super().__init__(config)
        self._lane = lane
        self._clock = clock
        self._stopping = asyncio.Event()
        self.server_state.default_headers = lane.common_headers

    def stop(self) -> None:
        self.should_exit = True
        self._stopping.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            # It had its time.
            connection.transport.abort()

    async def main_loop(self) -> None:
        while not self.should_exit:
            self.sweep()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._lane.sweep_interval_s)

    def sweep(self) -> None:
        """End the connections that take too long."""
        self._lane.refresh(self._clock())
        self.server_state.default_headers = self._lane.common_headers
        for connection in list(self.server_state.connections):
            if isinstance(connection, HttpProtocol):
                connection.sweep()
