"""Clients of the event channel: one that reads as it should, and the raw bytes of one that does not."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from tests.support.event_server import EventServer

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
RECEIVE_TIMEOUT_S = 10


async def receive(client: ClientConnection) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(await asyncio.wait_for(client.recv(), RECEIVE_TIMEOUT_S))
    return message


async def receive_many(client: ClientConnection, count: int) -> list[dict[str, Any]]:
    return [await receive(client) for _ in range(count)]


async def say(client: ClientConnection, **message: object) -> None:
    await client.send(json.dumps(message))


async def ask(client: ClientConnection, **message: object) -> dict[str, Any]:
    """Send, and take the next message as the answer."""
    await say(client, **message)
    return await receive(client)


async def read_to_the_end(client: ClientConnection) -> tuple[list[dict[str, Any]], int | None]:
    """All that still comes, and the close code that the node gave."""
    messages = []
    try:
        while True:
            messages.append(await receive(client))
    except ConnectionClosed as closed:
        return messages, None if closed.rcvd is None else closed.rcvd.code


@asynccontextmanager
async def connect_idle(server: EventServer, query: str = "") -> AsyncIterator[ClientConnection]:
    """A client with little room of its own: it takes a few thousand bytes and then waits until `recv` is called."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", server.port))
    async with connect(server.url(query), sock=raw, max_queue=1, ping_interval=None, close_timeout=1) as client:
        yield client


async def wait_for(condition: Callable[[], bool], timeout_s: float = 10) -> None:
    """Return as soon as `condition` holds. Raises `TimeoutError`."""
    for _ in range(int(timeout_s / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise TimeoutError


class RawClient:
    """A client that sends whatever bytes a test likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def request(self, head: str) -> tuple[int, dict[str, str], bytes]:
        """Send a request head, and read the answer: status, headers, body."""
        self.writer.write(head.replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n")
        start, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return int(start.split()[1]), headers, body

    async def upgrade(self, target: str = "/events", **more: str) -> tuple[int, dict[str, str], bytes]:
        return await self.request(upgrade_head(target, **more))

    def send_frame(self, data: bytes, opcode: Opcode = Opcode.TEXT, fin: bool = True, mask: bool = True) -> None:
        self.writer.write(Frame(opcode, data, fin).serialize(mask=mask))

    async def read_frame(self) -> tuple[int, bytes]:
        """Opcode and payload of the next frame."""
        first, size = await asyncio.wait_for(self.reader.readexactly(2), RECEIVE_TIMEOUT_S)
        if size == 126:
            size = int.from_bytes(await self.reader.readexactly(2), "big")
        return first & 0x0F, await self.reader.readexactly(size)

    async def read_close_code(self) -> int:
        """Skip what comes before the close frame."""
        while True:
            opcode, payload = await self.read_frame()
            if opcode == Opcode.CLOSE:
                return int.from_bytes(payload[:2], "big")


def upgrade_head(target: str = "/events", **more: str) -> str:
    """An upgrade as it should be; `more` replaces headers (underscores for hyphens) or, when empty, leaves them out."""
    headers = {
        "Host": "127.0.0.1",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": KEY,
        "Sec-WebSocket-Version": "13",
    } | {name.replace("_", "-"): value for name, value in more.items()}
    lines = [f"{name}: {value}" for name, value in headers.items() if value]
    return "\n".join([f"GET {target} HTTP/1.1", *lines])


@asynccontextmanager
async def connect_raw(server: EventServer, room_bytes: int = 64 * 1024) -> AsyncIterator[RawClient]:
    """A client that takes about `room_bytes` before it is asked to read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=room_bytes)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.transport.abort()
