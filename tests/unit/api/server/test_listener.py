"""Connections are spread over the workers. With TLS, who completes no handshake takes no more than any idle one."""

import asyncio
import socket
import ssl
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from cairn.api.server import connection_slots, listener
from cairn.config import Settings
from tests.support.certificates import make_certificate
from tests.support.event_client import connect_patiently
from tests.support.pace import PATIENCE_S
from tests.support.rest_server import Client, get, rest_server, wait_until

pytestmark = pytest.mark.uvloop

PATIENT = replace(Settings(), header_timeout_s=86_400.0)
"""A handshake is timed by the clock of the machine, not by that of the server: this one is never late."""


def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def test_silent_handshakes_make_room_like_any_idle_connection(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)

    settings = replace(PATIENT, workers=1, max_connections=2)

    async with (
        rest_server(replace(settings, tls_cert=certificate, tls_key=key)) as server,
        AsyncExitStack() as stack,
    ):
        silent = [await stack.enter_async_context(server.client()) for _ in range(6)]
        # Far sooner than the time that each has.
        assert [await client.rest() for client in silent[:4]] == [b""] * 4
        secured = Client(*await asyncio.open_connection("127.0.0.1", server.port, ssl=trusting()))
        assert (await secured.ask(get("/health"))).status == 200
        secured.close()


async def test_a_client_s_handshakes_are_no_more_than_its_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_slots, "is_local", lambda client: False)
    monkeypatch.setattr(connection_slots, "PROBE_SLOTS", 2)
    certificate, key = make_certificate(tmp_path)

    settings = replace(PATIENT, workers=1, max_connections_per_client=3)

    async with (
        rest_server(replace(settings, tls_cert=certificate, tls_key=key)) as server,
        AsyncExitStack() as stack,
    ):
        silent = [await stack.enter_async_context(server.client()) for _ in range(6)]
        # The first three have the client's places; of the others, the oldest make room for newer ones.
        assert await silent[3].rest() == b""
        secured = Client(*await asyncio.open_connection("127.0.0.1", server.port, ssl=trusting()))
        assert (await secured.ask(get("/health"))).status == 200
        secured.close()
        refused = Client(*await asyncio.open_connection("127.0.0.1", server.port, ssl=trusting()))
        assert (await refused.ask(get("/chain"))).json()["code"] == "TOO_MANY_CONNECTIONS"
        refused.close()


async def test_a_request_that_comes_with_the_end_of_its_handshake(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    async with rest_server(replace(PATIENT, tls_cert=certificate, tls_key=key)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        arrived, leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = trusting().wrap_bio(arrived, leaving)
        while True:
            try:
                session.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(leaving.read())
                arrived.write(await asyncio.wait_for(reader.read(65_536), PATIENCE_S))
        session.write(get("/health"))
        writer.write(leaving.read())
        answer = b""
        while b"alive" not in answer:
            try:
                answer += session.read()
            except ssl.SSLWantReadError:
                arrived.write(await asyncio.wait_for(reader.read(65_536), PATIENCE_S))
        assert answer.startswith(b"HTTP/1.1 200 ")
        writer.transport.abort()


async def test_what_a_client_does_not_read_is_counted(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    async with rest_server(replace(PATIENT, tls_cert=certificate, tls_key=key)) as server:
        server.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        raw.connect(("127.0.0.1", server.port))
        raw.setblocking(False)
        secured = asyncio.open_connection(sock=raw, ssl=trusting(), server_hostname="localhost", limit=1_024)
        client = Client(*await secured)
        client.write(get("/openapi.json"))
        await wait_until(lambda: sum(server.unread_bytes()) > 0)
        assert (await client.answer()).status == 200
        client.close()


async def test_events_come_over_tls_too(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    async with rest_server(replace(PATIENT, tls_cert=certificate, tls_key=key)) as server:
        url = f"wss://127.0.0.1:{server.port}/events"
        async with connect_patiently(url, ssl=trusting()) as events, asyncio.timeout(PATIENCE_S):
            await events.send('{"action":"subscribe","event":"nothing"}')
            assert '"event":"error"' in str(await events.recv())
            await (await events.ping())


async def test_new_connections_are_left_to_a_worker_that_has_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "LEFT_S", 86_400.0)
    fewest = 1
    monkeypatch.setattr(listener, "fewest_connections_elsewhere", lambda: fewest)
    async with rest_server() as server, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(server.client()) for _ in range(6)]
        await server.accepted(3)
        assert (await clients[0].ask(get("/health"))).status == 200
        assert len(server.connections) == 3, "two more than the other"


async def test_a_worker_with_many_connections_may_have_an_eighth_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "LEFT_S", 86_400.0)
    monkeypatch.setattr(listener, "fewest_connections_elsewhere", lambda: 16)
    async with rest_server() as server, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(server.client()) for _ in range(30)]
        await wait_until(lambda: len(server.connections) >= 20)
        assert (await clients[0].ask(get("/health"))).status == 200
        assert 20 <= len(server.connections) <= 21


async def test_connections_that_a_worker_with_fewer_does_not_accept_are_taken_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener, "fewest_connections_elsewhere", lambda: 0)
    async with rest_server() as server, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(server.client()) for _ in range(20)]
        assert [(await client.ask(get("/health"))).status for client in clients] == [200] * 20
