"""The worker's server on a real socket in the test's own event loop, with a core whose answers the test gives."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from cairn.api.answers import confirmed_json
from cairn.api.hub import EventHub
from cairn.api.protocol import HttpProtocol
from cairn.api.view import ChainView
from cairn.api.worker import make_server
from cairn.config import Settings
from cairn.domain.types import BlockHash, Tx, TxHash
from tests.support.core_fixtures import signed
from tests.support.rest_node import body_of
from tests.support.scripted_gateway import INFO, ScriptedGateway

CONFIRMED = signed(0, sender=9)
"""A transaction that the server's view shows as confirmed."""


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
        head = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), 10)
        lines = head.decode().split("\r\n")
        status = int(lines[0].split()[1])
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:-2])}
        length = int(headers.get("content-length", 0)) if has_body and status != 100 else 0
        return Answer(status, headers, await asyncio.wait_for(self._reader.readexactly(length), 10))

    async def rest(self) -> bytes:
        """All that comes until the server ends the connection."""
        return await asyncio.wait_for(self._reader.read(), 10)

    def finish(self) -> None:
        """Send nothing more."""
        self._writer.write_eof()

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()


class OneTransaction(ChainView):
    """Stands for a store that shows one transaction: every other one is looked up further."""

    def find_confirmed(self, tx_hash: TxHash) -> bytes | None:
        return confirmed_json(CONFIRMED, 1, 0, BlockHash(b"\1" * 32)) if tx_hash == CONFIRMED.hash else None


class RestServer:
    def __init__(self, settings: Settings) -> None:
        self.view = OneTransaction(Path("unused"), chain_id=1337)
        self.view.info = INFO
        self.view.height = 0
        self.view.on_phase("ready", "")
        self.core = ScriptedGateway()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.server = make_server(self.core, self.view, EventHub(self.view, settings), settings)

    @property
    def connections(self) -> list[HttpProtocol]:
        return [item for item in self.server.server_state.connections if isinstance(item, HttpProtocol)]

    @asynccontextmanager
    async def client(self, buffer_bytes: int = 2**24) -> AsyncIterator[Client]:
        """`buffer_bytes` is what it reads ahead of the test."""
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port, limit=buffer_bytes))
        try:
            yield client
        finally:
            client.close()

    async def submissions(self, count: int) -> None:
        """Return once so many have come to the core."""
        await wait_until(lambda: len(self.core.submitted) >= count)

    async def no_connections(self) -> None:
        """Return once the last connection has ended."""
        await wait_until(lambda: not self.connections)


async def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(5_000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise TimeoutError


def run_server(scenario: Callable[[RestServer], Awaitable[None]], settings: Settings | None = None) -> None:
    async def main() -> None:
        served = RestServer(settings or Settings())
        serving = asyncio.ensure_future(served.server.serve(sockets=[served.listener]))
        await wait_until(lambda: served.server.started)
        try:
            await asyncio.wait_for(scenario(served), 30)
        finally:
            served.server.stop()
            await serving

    uvloop.run(main())


def get(path: str, *headers: str) -> bytes:
    lines = "".join(f"{line}\r\n" for line in ("Host: localhost", *headers))
    return f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode()


def post(body: bytes, *headers: str, path: str = "/tx") -> bytes:
    lines = "".join(f"{line}\r\n" for line in ("Host: localhost", "Content-Type: application/json", *headers))
    return f"POST {path} HTTP/1.1\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


def post_tx(tx: Tx, *headers: str) -> bytes:
    return post(json.dumps(body_of(tx)).encode(), *headers)
