"""A small HTTP server, for what needs no more: a connection is answered once, and closed.

Who says nothing, or says it slowly, or does not read, keeps nobody out. When all places are taken, a connection that
waits for its client makes room: the oldest one of the client that has most. And each has its time, from its beginning
to its end, however much is said on it.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus
from typing import NamedTuple

import structlog

from cairn.api.server.connection_slots import ConnectionSlots
from cairn.api.server.http_heads import NO_STORE, STATUS_LINES, Header, encode_lines
from cairn.api.server.listener import address_of
from cairn.config import Settings

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


class Reply(NamedTuple):
    status: HTTPStatus
    content: bytes
    headers: tuple[Header, ...]


class SmallServer:
    """Accepts connections on a socket until it is closed."""

    def __init__(self, answer: Callable[[SmallRequest], Awaitable[Reply]], max_connections: int) -> None:
        self.answer = answer
        limits = replace(Settings(), workers=1, max_connections=max_connections, max_connections_per_client=0)
        self.slots = ConnectionSlots(limits)
        self.connections: set[SmallProtocol] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, sock: socket.socket) -> None:
        self._server = await asyncio.get_running_loop().create_server(lambda: SmallProtocol(self), sock=sock)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.leave()


class SmallProtocol(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: SmallServer) -> None:
        self._server = server
        self._head = b""
        self._answering: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """It waits for its client: to ask, or to read the answer."""
        return self._answering is None or self._answering.done()

    def leave(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        loop = asyncio.get_running_loop()
        self._transport = transport
        self._deadline = loop.call_later(TIMEOUT_S, self.leave)
        self._slot = self._server.slots.take(address_of(transport.get_extra_info("peername")), self, loop.time())
        if self._slot is None:
            self.leave()
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._deadline.cancel()
        if self._slot is not None:
            self._slot.give_up()
        if self._answering is not None:
            self._answering.cancel()

    def data_received(self, data: bytes) -> None:
        if self._answering is not None or self._transport.is_closing():
            return
        self._head += data
        if _HEAD_END in self._head:
            request = _request_of(*self._head.partition(_HEAD_END)[0].split(b"\r\n"))
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


def _request_of(request_line: bytes, *header_lines: bytes) -> SmallRequest:
    method, _, rest = request_line.partition(b" ")
    target, _, version = rest.partition(b" ")
    pairs = [line.partition(b":") for line in header_lines]
    headers = [(name.lower(), value.strip()) for name, _, value in pairs]
    return SmallRequest(method, target.partition(b"?")[0], "1.1" if version == b"HTTP/1.1" else "1.0", headers)
