"""Serves /metrics, on a socket of its own: any worker does, from the page of memory that all processes share.

So the answer needs neither the core nor a free connection of the API. Nothing else is answered there.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from cairn.api.server.access import HostList, is_loopback
from cairn.config import Settings
from cairn.domain.errors import ForbiddenHost, MalformedRequest
from cairn.metrics import PAGE
from cairn.time_shares import in_slices

MAX_CONNECTIONS = 16
"""Of a worker. Whoever watches a node has one or two."""
MAX_HEAD_BYTES = 8 * 1024
TIMEOUT_S = 10.0
"""How long a connection may take, from its beginning to its end."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_HEAD_END = b"\r\n\r\n"


class MetricsServer:
    """Accepts connections on a socket until it is closed."""

    def __init__(self, settings: Settings, refresh: Callable[[], Awaitable[None]]) -> None:
        """`refresh` is awaited before each answer: it looks up what nobody else has set."""
        self.refresh = refresh
        host = settings.metrics_host
        # On any other address everybody who can connect may read them, under whatever name.
        self.hosts = HostList(replace(settings, host=host)) if is_loopback(host) else None
        self.connections: set[MetricsProtocol] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, sock: socket.socket) -> None:
        self._server = await asyncio.get_running_loop().create_server(lambda: MetricsProtocol(self), sock=sock)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.transport.abort()


class MetricsProtocol(asyncio.Protocol):
    """One connection: it is answered once, and closed."""

    def __init__(self, server: MetricsServer) -> None:
        self._server = server
        self._head = b""
        self._answering: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        if len(self._server.connections) >= MAX_CONNECTIONS:
            transport.abort()
            return
        self._server.connections.add(self)
        self._deadline = asyncio.get_running_loop().call_later(TIMEOUT_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        if self in self._server.connections:
            self._server.connections.discard(self)
            self._deadline.cancel()
        if self._answering is not None:
            self._answering.cancel()

    def data_received(self, data: bytes) -> None:
        if self._answering is not None or self.transport.is_closing():
            return
        self._head += data
        if _HEAD_END in self._head:
            lines = self._head.partition(_HEAD_END)[0].split(b"\r\n")
            self._answering = asyncio.get_running_loop().create_task(self._answer(*lines))
        elif len(self._head) > MAX_HEAD_BYTES:
            self.transport.abort()

    async def _answer(self, request_line: bytes, *header_lines: bytes) -> None:
        method, _, rest = request_line.partition(b" ")
        target, _, version = rest.partition(b" ")
        path = target.partition(b"?")[0]
        if refusal := self._refuse(version, header_lines):
            self._write(method, *refusal)
        elif path != b"/metrics":
            self._write(method, "404 Not Found", "the metrics are at /metrics\n")
        elif method not in (b"GET", b"HEAD"):
            self._write(method, "405 Method Not Allowed", "ask with GET\n")
        else:
            await self._server.refresh()
            # With many workers there are many numbers to add up.
            pieces = [family.rendered(PAGE) async for family in in_slices(PAGE.families)]
            self._write(method, "200 OK", "".join(pieces))

    def _refuse(self, version: bytes, header_lines: Sequence[bytes]) -> tuple[str, str] | None:
        """The status and the text of the answer, if the name that the request gives this node is not one of its own."""
        if self._server.hosts is None:
            return None
        pairs = [line.partition(b":") for line in header_lines]
        headers = [(name.lower(), value.strip()) for name, _, value in pairs]
        try:
            self._server.hosts.check(headers, "1.1" if version == b"HTTP/1.1" else "1.0")
        except ForbiddenHost as refusal:
            return "403 Forbidden", f"{refusal.detail}\n"
        except MalformedRequest as refusal:
            return "400 Bad Request", f"{refusal.detail}\n"
        return None

    def _write(self, method: bytes, status: str, text: str) -> None:
        body = text.encode()
        head = (
            f"HTTP/1.1 {status}\r\ncontent-type: {CONTENT_TYPE}\r\ncontent-length: {len(body)}\r\n"
            "cache-control: no-store\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + (b"" if method == b"HEAD" else body))
        self.transport.close()
