"""Connections that take too long: requests that never arrive in full, idle and refused clients, on real sockets."""

import pytest

from cairn.api.server import http_protocol as protocol
from cairn.config import Settings
from tests.support.core_fixtures import signed
from tests.support.rest_server import RestServer, assert_problem, get, post_tx, submitted

pytestmark = pytest.mark.uvloop

APPLICATION = "Origin: http://localhost"
"""A header that leaves a request to the application, and changes nothing else."""
HEADER_TIMEOUT_S = Settings().header_timeout_s
IDLE_TIMEOUT_S = Settings().idle_timeout_s


@pytest.mark.parametrize(
    "part",
    [
        b"GET /hea",
        post_tx(signed(0))[:-5],
        post_tx(signed(0), APPLICATION)[:-5],
        post_tx(signed(0))[:40],
    ],
)
async def test_a_request_that_never_arrives_in_full(server: RestServer, part: bytes) -> None:
    async with server.client() as client:
        client.write(part)
        await server.heard(len(part))
        server.pass_time(HEADER_TIMEOUT_S + 1)
        assert_problem(await client.answer(), 408, "REQUEST_TIMEOUT")
        assert await client.rest() == b""


async def test_a_machine_that_stood_still_makes_no_client_late(server: RestServer) -> None:
    request = post_tx(signed(0))
    async with server.client() as sending, server.client() as idle:
        sending.write(request[:-5])
        await server.accepted(2)
        await server.heard(len(request) - 5)
        server.stand_still(3_600)
        assert (await idle.ask(get("/health"))).status == 200
        assert (await submitted(server, sending, request[-5:])).status == 200


async def test_a_refused_body_that_never_ends(server: RestServer) -> None:
    async with server.client() as client:
        client.write(b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n")
        assert_problem(await client.answer(), 404, "NOT_FOUND")
        server.pass_time(HEADER_TIMEOUT_S + 1)
        assert await client.rest() == b""


async def test_idle_connections_end_and_busy_ones_do_not(server: RestServer) -> None:
    async with server.client() as fresh, server.client() as used, server.client() as busy:
        assert (await used.ask(get("/health"))).status == 200
        busy.write(post_tx(signed(0)))
        await server.submissions(1)
        await server.accepted(3)
        server.pass_time(IDLE_TIMEOUT_S + 1)
        assert await fresh.rest() == b""
        assert await used.rest() == b""
        server.core.admit_all()
        assert (await busy.answer()).status == 200


async def test_a_refused_client_that_goes_on_sending_is_cut_off(server: RestServer) -> None:
    async with server.client() as client:
        assert_problem(await client.ask(b"nonsense\r\n\r\n"), 400, "MALFORMED_REQUEST")
        for _ in range(4):
            [connection] = server.connections
            heard_bytes = connection.heard_bytes
            client.write(b"more nonsense\r\n")
            await server.heard(heard_bytes + 1)
            server.pass_time(protocol.LINGER_S / 4)
        server.pass_time(1)
        await server.no_connections()
