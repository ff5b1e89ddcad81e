"""The ASGI side of a WebSocket: the application's `receive` and `send`.

The application accepts the handshake. It refuses one, and writes messages, directly on the connection.
"""

import asyncio
from typing import Any, Protocol
from urllib.parse import unquote

import structlog
from starlette.types import ASGIApp, Message, Scope
from websockets.frames import CloseCode

from cairn.api.server.http_heads import RequestHead
from cairn.domain.errors import Internal, NodeError

EXTENSION = "cairn.socket"
"""The ASGI extension that holds the connection itself."""

log = structlog.get_logger("cairn.api")


class AnsweredSocket(Protocol):
    """What the application's answers are for."""

    def accept(self) -> None: ...

    def refuse(self, error: NodeError) -> None:
        """Send an error instead of accepting, unless the handshake is already answered."""

    def all_answered(self) -> None:
        """The application waits for the next message."""

    def resume_reading(self) -> None: ...

    def end(self) -> None:
        """The application has returned."""


class Session:
    """The session of one socket."""

    def __init__(self, connection: AnsweredSocket) -> None:
        self._connection = connection
        self._queue: asyncio.Queue[Message] = asyncio.Queue()
        # Before the disconnect, which may come before the application has begun.
        self.put({"type": "websocket.connect"})

    @property
    def has_read_all(self) -> bool:
        """Whether the application waits for the client."""
        return self._queue.empty()

    def put(self, message: Message) -> None:
        self._queue.put_nowait(message)

    def disconnect(self) -> None:
        """Let the application end."""
        self.put({"type": "websocket.disconnect", "code": CloseCode.ABNORMAL_CLOSURE})

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        try:
            await app(scope, self._receive, self._send)
        except Exception:
            log.exception("a WebSocket failed")
        self._connection.refuse(Internal("the endpoint failed"))
        self._connection.end()

    async def _receive(self) -> Message:
        if self._queue.empty():
            self._connection.all_answered()
        message = await self._queue.get()
        if self._queue.empty():
            self._connection.resume_reading()
        return message

    async def _send(self, message: Message) -> None:
        if message["type"] != "websocket.accept":
            raise RuntimeError(f"{message['type']} is not for here")
        self._connection.accept()


def scope_of(
    head: RequestHead, client: tuple[str, int] | None, transport: asyncio.Transport, connection: AnsweredSocket
) -> Scope:
    raw_path, _, query = head.target.partition(b"?")
    name: Any = transport.get_extra_info("sockname")
    return {
        "type": "websocket",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "scheme": "wss" if transport.get_extra_info("sslcontext") else "ws",
        "server": tuple(name[:2]) if isinstance(name, tuple) else None,
        "client": client,
        "root_path": "",
        "path": unquote(raw_path.decode("ascii")),
        "raw_path": raw_path,
        "query_string": query,
        "headers": head.headers,
        "subprotocols": [],
        "state": {},
        "extensions": {EXTENSION: {"connection": connection}},
    }
