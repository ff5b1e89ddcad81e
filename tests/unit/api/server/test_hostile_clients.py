"""Clients that do what no honest one does: each costs the server little, and takes nothing from others."""

import asyncio
import gc
import socket
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cairn.api.server import access, http_protocol, websocket_protocol
from cairn.api.server import http_server as server_module
from cairn.config import Settings
from tests.support.certificates import make_certificate
from tests.support.core_fixtures import signed
from tests.support.pace import PATIENCE_S
from tests.support.rest_node import hash_of
from tests.support.rest_server import CONFIRMED, Client, RestServer, get, post_tx, rest_server, wait_until

pytestmark = pytest.mark.uvloop

KNOWN = get(f"/tx/{hash_of(CONFIRMED)}")
IDLE_TIMEOUT_S = Settings().idle_timeout_s
SMALL_BUFFER_BYTES = 4_096
UPGRADE = (
    "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)  # fmt: skip
LIBRARY_HANDSHAKE_S = 60.0
"""How long it takes where nothing else is said."""
EMPTY_PING = b"\x89\x80\0\0\0\0"
EMPTY_PONG = b"\x8a\0"


@asynccontextmanager
async def unread(server: RestServer) -> AsyncIterator[Client]:
    """A client that reads nothing until it is asked to, and for which the system keeps very little."""
    server.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER_BYTES)
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER_BYTES)
    # The system takes it without the server, so this does not block.
    raw.connect(("127.0.0.1", server.port))
    raw.setblocking(False)
    client = Client(*await asyncio.open_connection(sock=raw, limit=1_024))
    try:
        yield client
    finally:
        client.abort()


async def test_a_connection_that_is_reset_leaves_nothing_behind(server: RestServer) -> None:
    async with server.client() as client:
        assert (await client.ask(get("/health"))).status == 200
        [connection] = server.connections
        left = weakref.ref(connection)
        del connection
        client.reset()
        await server.no_connections()
    await wait_until(lambda: gc.collect() >= 0 and left() is None)


async def test_an_answer_that_is_never_read_does_not_keep_its_connection(server: RestServer) -> None:
    async with unread(server) as client:
        client.write(get("/openapi.json", "Connection: close"))
        await wait_until(lambda: any(each.transport.is_closing() for each in server.connections))
        [connection] = server.connections
        assert connection.transport.get_write_buffer_size() > 0
        server.pass_time(IDLE_TIMEOUT_S + 2)
        await server.no_connections()


async def test_who_must_make_room_goes_whether_it_reads_or_not() -> None:
    async with rest_server(replace(Settings(), workers=1, max_connections=1)) as server, unread(server) as client:
        await server.accepted(1)
        [connection] = server.connections
        connection.transport.set_write_buffer_limits(high=1_024)
        client.write(get("/openapi.json"))
        await wait_until(lambda: connection.write_paused and connection.is_idle)
        async with server.client() as other:
            assert (await other.ask(KNOWN)).status == 200, "it has the place"
            server.pass_time(http_protocol.HALF_CLOSED_S + 1)
            await server.accepted(1)


async def test_a_socket_behind_answers_that_are_not_read(server: RestServer) -> None:
    async with unread(server) as client:
        await server.accepted(1)
        [connection] = server.connections
        connection.transport.set_write_buffer_limits(high=1_024)
        client.write(KNOWN * 40 + get("/events", *UPGRADE))
        await wait_until(lambda: connection.write_paused)
        await asyncio.sleep(0)
        assert server.connections == [connection], "no socket yet"
        assert [(await client.answer()).status for _ in range(41)] == [200] * 40 + [101]
        client.write(EMPTY_PING)
        assert await client.exactly(len(EMPTY_PONG)) == EMPTY_PONG


async def test_a_socket_behind_an_answer_that_takes_long(server: RestServer) -> None:
    async with server.client() as client:
        client.write(post_tx(signed(0)) + get("/events", *UPGRADE) + EMPTY_PING)
        await server.submissions(1)
        server.core.admit_all()
        assert [(await client.answer()).status for _ in range(2)] == [200, 101]
        client.write(EMPTY_PING)
        assert await client.exactly(2 * len(EMPTY_PONG)) == 2 * EMPTY_PONG


async def test_a_refused_handshake_that_is_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket_protocol, "LINGER_S", 0.05)
    async with rest_server() as server, unread(server) as client:
        await server.accepted(1)
        [connection] = server.connections
        requests = KNOWN * 60 + get("/events", *UPGRADE, *(f"X-{number}: y" for number in range(200)))
        client.write(requests)
        await wait_until(lambda: connection.heard_bytes == len(requests))
        await wait_until(lambda: not server.server.connections)


async def test_probes_only_is_no_room_for_a_socket() -> None:
    async with rest_server(replace(Settings(), workers=1, max_connections=1)) as server, server.client() as busy:
        busy.write(post_tx(signed(0)))
        await server.submissions(1)
        async with server.client() as late:
            answer = await late.ask(get("/health", *UPGRADE))
        assert (answer.status, answer.json()["code"]) == (503, "TOO_MANY_CONNECTIONS")
        server.core.admit_all()
        assert (await busy.answer()).status == 200


async def test_empty_lines_instead_of_requests(server: RestServer) -> None:
    async with server.client() as client:
        assert (await client.ask(b"\r\n" * 32 + get("/health"))).status == 200
        client.write(b"\r\n" * 100_000)
        answer = await asyncio.wait_for(client.answer(), PATIENCE_S)
        assert (answer.status, answer.json()["code"]) == (400, "MALFORMED_REQUEST")


async def test_who_leaves_most_unread_goes_first_when_it_is_too_much(
    server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_bytes = 90_000
    async with unread(server) as most, unread(server) as some, server.client() as reading:
        await server.accepted(3)
        page = await reading.ask(get("/openapi.json"))
        # So that what is left of it is within the limit below. The system keeps less than this for a client.
        assert len(page.body) < 2 * some_bytes
        for client in (most, some):
            client.write(get("/openapi.json"))
        await some.exactly(some_bytes)
        await wait_until(lambda: all(server.unread_bytes()[1:]))
        server.stand_still(0.1)
        assert (await reading.ask(get("/health"))).status == 200
        await server.accepted(3)
        monkeypatch.setattr(server_module, "MAX_UNREAD_BYTES", some_bytes)
        server.stand_still(0.1)
        await server.accepted(2)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await most.exactly(len(page.body))
        await some.exactly(len(page.body) - some_bytes)
        assert (await reading.ask(get("/health"))).status == 200


async def test_a_handshake_that_never_comes(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    async with (
        rest_server(replace(Settings(), tls_cert=certificate, tls_key=key, header_timeout_s=0.1)) as server,
        server.client() as client,
    ):
        started = asyncio.get_running_loop().time()
        assert await client.rest() == b""
        assert asyncio.get_running_loop().time() - started < LIBRARY_HANDSHAKE_S


EMPTY_TEXT = b"\x81\x80\0\0\0\0"
MANY = 2_000


async def test_a_socket_that_is_read_again_wakes_all_that_waited_for_it() -> None:
    """The application, which waits to answer; the hub, which has events for it; and the reading of more messages."""
    async with (
        # The test is over long before a client counts as stalled, which would wake them all, too.
        rest_server(replace(Settings(), ws_buffer_bytes=1_024, ws_stall_timeout_s=10 * PATIENCE_S)) as server,
        unread(server) as client,
    ):
        assert (await client.ask(get("/events", *UPGRADE))).status == 101
        [connection] = server.server.connections
        assert isinstance(connection, websocket_protocol.EventsProtocol)
        woken, tell_hub = [], connection._resume_listener

        def resumed() -> None:
            woken.append(connection.paused)
            tell_hub()

        connection.on_resume(resumed)
        client.write(EMPTY_TEXT * MANY)
        await wait_until(lambda: connection.paused)
        assert not connection.writable.is_set()
        # On a busy machine the kernel may take a first part late: then it was paused before, for a moment.
        woken.clear()
        answers = b""
        async with asyncio.timeout(PATIENCE_S):
            while answers.count(b'"event":"error"') < MANY:
                answers += await client.some()
            await wait_until(lambda: not connection.paused)
        assert connection.writable.is_set()
        assert woken, "the hub was told"
        assert not any(woken), "and only when it could write"
        client.write(EMPTY_PING)
        # Of the last answer the end may still be on its way.
        async with asyncio.timeout(PATIENCE_S):
            while EMPTY_PONG not in answers:
                answers += await client.some()


@pytest.mark.parametrize("path", ["/events", "/rpc"])
async def test_a_handshake_above_the_rate_limit_is_answered_429(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "is_local", lambda client: False)
    async with (
        rest_server(replace(Settings(), rate_limit_per_s=0.001, rate_limit_burst=1)) as server,
        server.client() as first,
        server.client() as second,
        server.client(address="127.0.0.2") as other,
    ):
        assert (await first.ask(get(path, *UPGRADE))).status == 101
        refused = await second.ask(get(path, *UPGRADE))
        assert (refused.status, refused.json()["code"]) == (429, "RATE_LIMITED")
        assert int(refused.headers["retry-after"]) > 0
        assert await second.rest() == b""
        assert (await other.ask(get(path, *UPGRADE))).status == 101
