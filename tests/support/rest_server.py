"""The worker's server on a real socket in the test's own event loop, with a core whose answers the test gives.

For the server time passes only when the test says so: however slow the machine is, no client is too slow by accident.
"""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from cairn.api.chain_json import confirmed_json
from cairn.api.chain_view import ChainView
from cairn.api.events.hub import EventHub
from cairn.api.server import exchange, http_protocol, server_state
from cairn.api.server import http_server as server_module
from cairn.api.server.http_protocol import HttpProtocol
from cairn.api.worker import make_server
from cairn.config import Settings
from cairn.domain.types import BlockHash, Tx, TxHash
from tests.support.core_fixtures import signed
from tests.support.pace import PATIENCE_S
from tests.support.rest_node import body_of
from tests.support.scripted_gateway import INFO, ScriptedGateway

CONFIRMED = signed(0, sender=9)
"""A transaction that the server's view shows as confirmed."""
DATE = "Thu, 01 Jan 1970 00:00:00 GMT"
"""When every answer is made: two that are compared may come with a second, or a minute, between them."""


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """A connection on which a test writes bytes as it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def ask(self, request: bytes) -> Answer:
        self.write(request)
        return await self.answer()

    async def answer(self, has_body: bool = True) -> Answer:
        head = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
        lines = head.decode().split("\r\n")
        status = int(lines[0].split()[1])
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:-2])}
        length = int(headers.get("content-length", 0)) if has_body and status != 100 else 0
        return Answer(status, headers, await asyncio.wait_for(self._reader.readexactly(length), PATIENCE_S))

    async def some(self) -> bytes:
        """What has come by now, or comes next."""
        return await asyncio.wait_for(self._reader.read(2**16), PATIENCE_S)

    async def exactly(self, count: int) -> bytes:
        return await asyncio.wait_for(self._reader.readexactly(count), PATIENCE_S)

    async def rest(self) -> bytes:
        """All that comes until the server ends the connection."""
        return await asyncio.wait_for(self._reader.read(), PATIENCE_S)

    def finish(self) -> None:
        """Send nothing more."""
        self._writer.write_eof()

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()

    def reset(self) -> None:
        """Go without a farewell: what the server reads next is an error."""
        raw: socket.socket = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.abort()


class OneTransaction(ChainView):
    """Stands for a store that shows one transaction: every other one is looked up further."""

    base = 0

    def find_confirmed(self, tx_hash: TxHash) -> bytes | None:
        return confirmed_json(CONFIRMED, 1, 0, BlockHash(b"\1" * 32)) if tx_hash == CONFIRMED.hash else None


class ObservedProtocol(HttpProtocol):
    """Knows what has arrived, so that a test can wait for it."""

    heard_bytes = 0
    has_heard_end = False

    def data_received(self, data: bytes) -> None:
        self.heard_bytes += len(data)
        super().data_received(data)

    def eof_received(self) -> bool:
        self.has_heard_end = True
        return super().eof_received()


class RestServer:
    def __init__(self, settings: Settings) -> None:
        self.view = OneTransaction(Path("unused"), chain_id=1337)
        self.view.info = INFO
        self.view.height = 0
        self.view.on_phase("ready", "")
        self.core = ScriptedGateway()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self._now = 0.0
        self.server = make_server(
            self.core, self.view, EventHub(self.view, settings), settings, clock=lambda: self._now
        )

    @property
    def connections(self) -> list[ObservedProtocol]:
        return [item for item in self.server.connections if isinstance(item, ObservedProtocol)]

    @property
    def held_bytes(self) -> int:
        """What is counted of unanswered requests."""
        return self.server._state.unanswered_bytes.taken

    def pass_time(self, seconds: float) -> None:
        """Time passes as if the server ran meanwhile: it looks at its connections ten times a second."""
        for _ in range(round(10 * seconds)):
            self.stand_still(0.1)

    def stand_still(self, seconds: float) -> None:
        """Time passes, but the server runs only at its end."""
        self._now += seconds
        self.server.sweep()

    @asynccontextmanager
    async def client(self, buffer_bytes: int = 2**24, address: str = "127.0.0.1") -> AsyncIterator[Client]:
        """`buffer_bytes` is what it reads ahead of the test; `address` is where it comes from."""
        connecting = asyncio.open_connection("127.0.0.1", self.port, limit=buffer_bytes, local_addr=(address, 0))
        client = Client(*await connecting)
        try:
            yield client
        finally:
            client.close()

    def unread_bytes(self) -> list[int]:
        """What was written on each connection and is not with the system yet, the least first."""
        return sorted(connection.transport.get_write_buffer_size() for connection in self.connections)

    async def accepted(self, count: int) -> None:
        """Return once so many connections are open."""
        await wait_until(lambda: len(self.connections) == count)

    async def heard(self, size_bytes: int) -> None:
        """Return once so much has come on the connections that are open."""
        await wait_until(lambda: sum(connection.heard_bytes for connection in self.connections) >= size_bytes)

    async def heard_end(self) -> None:
        """Return once the end of all that clients send has come, as far as the server reads it."""
        await wait_until(lambda: all(each.has_heard_end or each.read_paused for each in self.connections))

    async def submissions(self, count: int) -> None:
        """Return once so many have come to the core."""
        await wait_until(lambda: len(self.core.submitted) >= count)

    async def no_connections(self) -> None:
        """Return once the last connection has ended."""
        await wait_until(lambda: not self.connections)


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.002)


@asynccontextmanager
async def rest_server(settings: Settings | None = None) -> AsyncIterator[RestServer]:
    with (
        patch.object(server_module, "HttpProtocol", ObservedProtocol),
        # A test that stops the server gives the last answers itself.
        patch.object(server_module, "DRAIN_TIMEOUT_S", PATIENCE_S),
        patch.object(server_state, "formatdate", lambda usegmt: DATE),
        # Nor is any request slow, which its answer and the log would tell of.
        patch.object(http_protocol, "SLOW_S", inf),
        patch.object(exchange, "SLOW_S", inf),
    ):
        # Pings come by the machine's clock, and a client that writes bytes as it likes expects none.
        served = RestServer(replace(settings or Settings(), ws_ping_interval_s=0.0))
        # The socket listens already: whoever connects before the server runs waits in its backlog.
        serving = asyncio.ensure_future(served.server.serve(served.listener))
        try:
            yield served
        finally:
            served.server.stop()
            await serving
        assert served.held_bytes == 0, "every connection has ended"


def get(path: str, *headers: str) -> bytes:
    lines = "".join(f"{line}\r\n" for line in ("Host: localhost", *headers))
    return f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode()


def post(body: bytes, *headers: str, path: str = "/tx") -> bytes:
    lines = "".join(f"{line}\r\n" for line in ("Host: localhost", "Content-Type: application/json", *headers))
    return f"POST {path} HTTP/1.1\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


def post_tx(tx: Tx, *headers: str) -> bytes:
    return post(json.dumps(body_of(tx)).encode(), *headers)


def assert_problem(answer: Answer, status: int, code: str) -> dict[str, Any]:
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json"), answer
    assert answer.headers["x-chain-id"] == "1337"
    problem: dict[str, Any] = answer.json()
    assert (problem["status"], problem["code"]) == (status, code)
    return problem


async def submitted(server: RestServer, client: Client, request: bytes) -> Answer:
    client.write(request)
    await server.submissions(len(server.core.submitted) + 1)
    server.core.admit_all()
    return await client.answer()
