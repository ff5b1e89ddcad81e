"""A small HTTP server, for what needs no more: a connection is answered once, and closed.

No client keeps others out, whether it says nothing, or says it slowly, or does not read, or asks for more than can be
answered. When all places are taken, a connection that waits for its client makes room: the oldest one of the client
that has most. If none does, the newest one of the client that has most, even while it is answered. A client that has
fewer than the newcomer's never makes room. And each connection has its time, from its beginning to its end, however
much is said on it.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import NamedTuple

import structlog

from cairn.api.server.access import client_of
from cairn.api.server.http_heads import NO_STORE, STATUS_LINES, Header, encode_lines
from cairn.api.server.listener import address_of

MAX_HEAD_BYTES = 8 * 1024
TIMEOUT_S = 10.0
"""How long a connection may take, from its beginning to its end."""

_HEAD_END = b"\r\n\r\n"
_CLOSE: Header = (b"connection", b"close")

log = structlog.get_logger("cairn.api")


class SmallRequest(NamedTuple):
    method: bytes
    path: bytes
    version: str
    headers: list[Header]
    """With names in lower case."""
    client: str


class Reply(NamedTuple):
    status: HTTPStatus
    content: bytes
    headers: tuple[Header, ...]


class SmallServer:
    """Accepts connections on a socket until it is closed."""

    def __init__(self, answer: Callable[[SmallRequest], Awaitable[Reply]], max_connections: int) -> None:
        self.answer = answer
        self._max_connections = max_connections
        self.connections: dict[SmallProtocol, None] = {}
        """The oldest first."""
        self._server: asyncio.Server | None = None

    async def listen(self, sock: socket.socket) -> None:
        self._server = await asyncio.get_running_loop().create_server(lambda: SmallProtocol(self), sock=sock)

    def admit(self, newcomer: "SmallProtocol") -> bool:
        """Give the connection a place, and have another make room if none is free; False if none does."""
        if len(self.connections) >= self._max_connections:
            leaving = self._find_leaving(newcomer.client)
            if leaving is None:
                return False
            leaving.leave()
        self.connections[newcomer] = None
        return True

    def _find_leaving(self, client: str) -> "SmallProtocol | None":
        """Which connection makes room for one of the client's."""
        by_client: dict[str, list[SmallProtocol]] = {}
        for connection in self.connections:
            by_client.setdefault(connection.client, []).append(connection)
        own = len(by_client.get(client, ()))
        greediest = sorted(by_client.values(), key=len, reverse=True)
        for held in greediest:
            for connection in held:
                # Of those that have fewer, one may be about to ask.
                if connection.is_idle and len(held) >= own:
                    return connection
        # Only for a client that has no more than that one even then: otherwise two would go on cutting each other.
        return greediest[0][-1] if len(greediest[0]) > own + 1 else None

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.leave()


class SmallProtocol(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: SmallServer) -> None:
        self._server = server
        self.client = ""
        self._head = b""
        self._answering: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """It waits for its client: to ask, or to read the answer."""
        return self._answering is None or self._answering.done()

    def leave(self) -> None:
        self._server.connections.pop(self, None)
        self._transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._deadline = asyncio.get_running_loop().call_later(TIMEOUT_S, self.leave)
        self.client = client_of(address_of(transport.get_extra_info("peername")))
        if not self._server.admit(self):
            self.leave()

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.pop(self, None)
        self._deadline.cancel()
        if self._answering is not None:
            self._answering.cancel()

    def data_received(self, data: bytes) -> None:
        if self._answering is not None or self._transport.is_closing():
            return
        self._head += data
        if _HEAD_END in self._head:
            request = _request_of(self.client, *self._head.partition(_HEAD_END)[0].split(b"\r\n"))
            self._answering = asyncio.get_running_loop().create_task(self._answer(request))
        elif len(self._head) > MAX_HEAD_BYTES:
            self.leave()

    async def _answer(self, request: SmallRequest) -> None:
        try:
            reply = await self._server.answer(request)
        except Exception as failure:
            log.error("a request failed", method=request.method, path=request.path, exc_info=failure)
            reply = Reply(HTTPStatus.INTERNAL_SERVER_ERROR, b"", ())
        length = (b"content-length", b"%d" % len(reply.content))
        lines = STATUS_LINES[reply.status] + encode_lines([*reply.headers, length, NO_STORE, _CLOSE])
        self._transport.write(lines + b"\r\n" + (b"" if request.method == b"HEAD" else reply.content))
        self._transport.close()


def _request_of(client: str, request_line: bytes, *header_lines: bytes) -> SmallRequest:
    method, _, rest = request_line.partition(b" ")
    target, _, version = rest.partition(b" ")
    pairs = [line.partition(b":") for line in header_lines]
    headers = [(name.lower(), value.strip()) for name, _, value in pairs]
    return SmallRequest(method, target.partition(b"?")[0], "1.1" if version == b"HTTP/1.1" else "1.0", headers, client)
