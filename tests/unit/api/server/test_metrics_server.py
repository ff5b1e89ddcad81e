"""The listener of metrics, under clients that misbehave."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest.mock import patch

import pytest

from cairn.api.server import metrics_server
from cairn.api.server.metrics_server import MAX_CONNECTIONS, MAX_HEAD_BYTES, MetricsServer
from cairn.config import Settings
from tests.support.pace import PATIENCE_S

ASKED = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Listening:
    def __init__(self, server: MetricsServer, port: int) -> None:
        self.server = server
        self._port = port

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port)

    async def ask(self, *pieces: bytes) -> bytes:
        """Everything that is answered; nothing if the connection is cut."""
        reader, writer = await self.connect()
        async with asyncio.timeout(PATIENCE_S):
            try:
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.close()


@asynccontextmanager
async def listening_with(settings: Settings) -> AsyncIterator[Listening]:
    """However slow the machine is, no connection takes too long by accident."""

    async def refresh() -> None:
        await asyncio.sleep(0)

    server = MetricsServer(settings, refresh)
    with (
        patch.object(metrics_server, "TIMEOUT_S", PATIENCE_S),
        socket.create_server(("127.0.0.1", 0)) as sock,
    ):
        await server.listen(sock)
        yield Listening(server, sock.getsockname()[1])
        server.close()


@pytest.fixture
async def listening() -> AsyncIterator[Listening]:
    async with listening_with(Settings()) as made:
        yield made


async def test_a_request_in_pieces_is_answered_once_and_the_connection_closed(listening: Listening) -> None:
    # The second request comes with the end of the first: later, it would meet a connection that is closed and reset.
    answer = await listening.ask(ASKED[:10], ASKED[10:-2], ASKED[-2:] + ASKED)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.count(b"HTTP/1.1") == 1
    head, _, body = answer.partition(b"\r\n\r\n")
    assert f"content-length: {len(body)}".encode() in head
    assert b"# TYPE cairn_chain_transactions_total counter" in body


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"HTTP/1.1\r\nHost: 127.0.0.1:8646", b"200 OK"),
        (b"HTTP/1.1\r\nhost:[::1]:8646", b"200 OK"),
        (b"HTTP/1.1\r\nHost: node.example.com", b"200 OK"),
        (b"HTTP/1.0", b"200 OK"),
        (b"HTTP/1.1\r\nHost: rebound.example", b"403 Forbidden"),
        (b"HTTP/1.1", b"400 Bad Request"),
        (b"HTTP/1.1\r\nHost: localhost\r\nHost: rebound.example", b"400 Bad Request"),
    ],
)
async def test_on_loopback_a_request_must_give_a_name_of_this_node(head: bytes, status: bytes) -> None:
    """A page that rebinds its own name to 127.0.0.1 has the browser send that name."""
    async with listening_with(Settings(allowed_hosts=("node.example.com",))) as listening:
        answer = await listening.ask(b"GET /metrics " + head + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status)


async def test_on_other_addresses_any_name_will_do() -> None:
    async with listening_with(Settings(metrics_host="0.0.0.0")) as listening:
        answer = await listening.ask(b"GET /metrics HTTP/1.1\r\nHost: validator-2\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK")


async def test_a_head_that_never_ends_is_cut_off(listening: Listening) -> None:
    assert await listening.ask(b"GET /metrics HTTP/1.1\r\nX: ", b"x" * (MAX_HEAD_BYTES + 1)) == b""


async def test_silent_connections_beyond_the_most_are_refused_and_others_answered_after_them(
    listening: Listening,
) -> None:
    silent = [await listening.connect() for _ in range(MAX_CONNECTIONS)]
    async with asyncio.timeout(PATIENCE_S):
        while len(listening.server.connections) < MAX_CONNECTIONS:
            await asyncio.sleep(0.01)
    assert await listening.ask(ASKED) == b""
    for _, writer in silent:
        writer.close()
    async with asyncio.timeout(PATIENCE_S):
        while listening.server.connections:
            await asyncio.sleep(0.01)
    assert (await listening.ask(ASKED)).startswith(b"HTTP/1.1 200")


async def test_a_connection_that_takes_too_long_is_cut_off(
    listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_server, "TIMEOUT_S", 0.05)
    assert await listening.ask(ASKED[:-2]) == b""
    assert not listening.server.connections
