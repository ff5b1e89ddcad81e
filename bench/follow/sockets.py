"""Thousands of event sockets in one process: they note when each event came, and nothing else."""

import asyncio
import base64
import os
import re
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec
from websockets.frames import Frame, Opcode

ADDRESSES_IN_A_MESSAGE = 350
_EVENT = re.compile(rb'\{"event":"(\w+)"(?:,"txHash":"0x\w+")?(?:,"blockHeight":(\d+))?')


class EventSocket(asyncio.Protocol):
    """Reads frames as a node sends them: whole and unmasked."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._unread = b""
        self._is_open = False
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self.came: list[tuple[str, int, float]] = []
        """Name, height and time of each event."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        key = base64.b64encode(os.urandom(16)).decode()
        head = ["GET /events HTTP/1.1", f"Host: {self._host}", "Connection: Upgrade", "Upgrade: websocket"]
        head += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", "", ""]
        transport.write("\r\n".join(head).encode())

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        self._unread += data
        if not self._is_open:
            head, end, self._unread = self._unread.partition(b"\r\n\r\n")
            if not end:
                self._unread = head
                return
            assert head.startswith(b"HTTP/1.1 101"), head
            self._is_open = True
            self._answers.put_nowait(b"open")
        at, unread = 0, self._unread
        while len(unread) >= at + 4:
            size, start = unread[at + 1], at + 2
            if size == 126:
                size, start = int.from_bytes(unread[at + 2 : at + 4], "big"), at + 4
            if len(unread) < start + size:
                break
            if unread[at] == 0x81:
                self._take(unread[start : start + size], now)
            at = start + size
        self._unread = unread[at:]

    def _take(self, message: bytes, now: float) -> None:
        found = _EVENT.match(message)
        assert found is not None, message
        name = found[1].decode()
        if name in ("newBlock", "payment"):
            self.came.append((name, int(found[2]), now))
        else:
            assert name == "subscribed", message
            self._answers.put_nowait(message)

    async def answered(self) -> None:
        await self._answers.get()

    async def ask(self, **request: object) -> None:
        message = msgspec.json.encode({"action": "subscribe"} | request)
        self.transport.write(Frame(Opcode.TEXT, message).serialize(mask=True))
        await self.answered()

    async def follow(self, addresses: Sequence[str]) -> None:
        for start in range(0, len(addresses), ADDRESSES_IN_A_MESSAGE):
            await self.ask(event="payment", addresses=addresses[start : start + ADDRESSES_IN_A_MESSAGE])


async def open_socket(url: str) -> EventSocket:
    host = urlsplit(url).netloc
    name, _, port = host.rpartition(":")
    loop = asyncio.get_running_loop()
    _, opened = await loop.create_connection(lambda: EventSocket(host), name, int(port))
    await opened.answered()
    return opened
