"""Clients of the event channel: one that reads as it should, and the raw bytes of one that does not."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from tests.support.event_server import EventServer
from tests.support.pace import PATIENCE_S

KEY = "dGhlIHNhbXBsZSBub25jZQ=="


def connect_patiently(url: str, **options: Any) -> connect:
    """A client without time-outs of its own: a busy machine may keep it waiting."""
    return connect(url, open_timeout=PATIENCE_S, ping_interval=None, **options)


def connect_to(server: EventServer, query: str = "", **options: Any) -> connect:
    return connect_patiently(server.url(query), sock=server.dial(), **options)


async def receive(client: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        message: dict[str, Any] = json.loads(await client.recv())
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
    async with connect_patiently(
        server.url(query), sock=server.dial(room_bytes=4_096), max_queue=1, close_timeout=1
    ) as client:
        yield client


async def wait_for(condition: Callable[[], bool]) -> None:
    """Return as soon as `condition` holds. Raises `TimeoutError`."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.02)


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
        async with asyncio.timeout(PATIENCE_S):
            first, size = await self.reader.readexactly(2)
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
    reader, writer = await asyncio.open_connection(sock=server.dial(), limit=room_bytes)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.transport.abort()
