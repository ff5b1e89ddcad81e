"""The connection: hot routes and the application, the order of answers, and every limit, on real sockets."""

import asyncio
import json
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from cairn.api import chain_view
from cairn.api.read_routes import MAX_HOT_BLOCK_BYTES
from cairn.api.rest import probes
from cairn.api.server import access
from cairn.api.server import http_protocol as protocol
from cairn.config import Settings
from cairn.core.gateway import Admission, PendingTx
from cairn.domain.errors import NonceTooLow
from tests.support.core_fixtures import signed
from tests.support.pace import PATIENCE_S
from tests.support.rest_node import body_of, hash_of, without
from tests.support.rest_server import (
    CONFIRMED,
    RestServer,
    assert_problem,
    get,
    post,
    post_tx,
    rest_server,
    submitted,
    wait_until,
)

APPLICATION = "Origin: http://localhost"
"""A header that leaves a request to the application, and changes nothing else."""
KNOWN = f"/tx/{hash_of(CONFIRMED)}"
IDLE_TIMEOUT_S = Settings().idle_timeout_s


@pytest.mark.uvloop
async def test_hot_route_and_application_answer_alike(server: RestServer) -> None:
    async with server.client() as client:
        fast = await submitted(server, client, post_tx(signed(0)))
        full = await submitted(server, client, post_tx(signed(0), APPLICATION))
        assert fast.json() == {"status": "pending", "txHash": hash_of(signed(0))}
        assert fast == full
        for path in (KNOWN, "/health"):
            assert await client.ask(get(path)) == await client.ask(get(path, APPLICATION))
        for body in (b"{", b'{"from":1}', json.dumps(body_of(signed(0)) | {"value": 2}).encode()):
            assert await client.ask(post(body)) == await client.ask(post(body, APPLICATION))


@pytest.mark.uvloop
async def test_queued_is_answered_alike_by_hot_route_and_application(server: RestServer) -> None:
    async with server.client() as client:
        answers = []
        for count, request in enumerate((post_tx(signed(3)), post_tx(signed(3), APPLICATION)), start=1):
            client.write(request)
            await server.submissions(count)
            server.core.submitted[-1][1].set_result(Admission(signed(3).hash, waits_for_nonce=2))
            answers.append(await client.answer())
        fast, full = answers
        assert fast == full
        why = {"queued": True, "queuedReason": "waits for nonce 2"}
        assert fast.json() == {"status": "pending", "txHash": hash_of(signed(3))} | why


@pytest.mark.uvloop
async def test_confirmed_before_and_refused(server: RestServer) -> None:
    async with server.client() as client:
        client.write(post_tx(signed(0)) + post_tx(signed(1)) + post_tx(signed(2)))
        await server.submissions(3)
        server.core.submitted[0][1].set_result(Admission(signed(0).hash, confirmed=True))
        server.core.submitted[1][1].set_exception(NonceTooLow("nonce is used"))
        server.core.submitted[2][1].set_exception(KeyError("secret"))
        assert (await client.answer()).json() == {"status": "confirmed", "txHash": hash_of(signed(0))}
        assert_problem(await client.answer(), 409, "NONCE_TOO_LOW")
        failed = await client.answer()
        assert_problem(failed, 500, "INTERNAL")
        assert b"secret" not in failed.body


@pytest.mark.parametrize("headers", [(), (APPLICATION,)])
@pytest.mark.uvloop
async def test_what_is_given_up_is_answered_whoever_waits_for_it(server: RestServer, headers: tuple[str, ...]) -> None:
    async with server.client() as client:
        client.write(post_tx(signed(0), *headers))
        await server.submissions(1)
        server.core.submitted[0][1].cancel()
        assert_problem(await client.answer(), 503, "SHUTTING_DOWN")


@pytest.mark.uvloop
async def test_what_hot_routes_leave_to_the_application(server: RestServer) -> None:
    async with server.client() as client:
        unknown = "0x" + "ab" * 32
        assert_problem(await client.ask(get(f"/tx/{unknown}")), 404, "TX_NOT_FOUND")
        assert_problem(await client.ask(get(KNOWN[:-1] + "g")), 400, "INVALID_HASH")
        assert_problem(await client.ask(get(KNOWN + "0")), 400, "INVALID_HASH")
        assert_problem(await client.ask(get(KNOWN + "?x=1")), 400, "INVALID_QUERY")
        assert (await client.ask(get(KNOWN + "?wait=5"))).status == 200
        # Without a nonce the core must be asked, which the scripted one refuses.
        nonceless = json.dumps(without(body_of(signed(0)), "nonce")).encode()
        assert_problem(await client.ask(post(nonceless)), 503, "STORE_UNAVAILABLE")
        # The second one is a name of this node, and counts as little as any other.
        assert_problem(await client.ask(get(KNOWN, "Host: localhost")), 400, "MALFORMED_REQUEST")
        forbidden = get(KNOWN).replace(b"localhost", b"evil.example")
        assert_problem(await client.ask(forbidden), 403, "FORBIDDEN_HOST")


@pytest.mark.parametrize("allowed", [(), ("*",)])
@pytest.mark.parametrize("path", [KNOWN, "/health", "/openapi.json"])
@pytest.mark.uvloop
async def test_no_host_at_all(allowed: tuple[str, ...], path: str) -> None:
    async with rest_server(replace(Settings(), allowed_hosts=allowed)) as server, server.client() as client:
        answer = await client.ask(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        assert_problem(answer, 400, "MALFORMED_REQUEST")


@pytest.mark.parametrize("headers", [(), (APPLICATION,)])
@pytest.mark.uvloop
async def test_bytes_may_come_in_any_pieces(server: RestServer, headers: tuple[str, ...]) -> None:
    request = post_tx(signed(0), *headers)
    body_at = request.index(b"\r\n\r\n") + 4
    for cuts in ([body_at], [5], [body_at - 2], [body_at + 1, body_at + 2], list(range(40, len(request), 97))):
        async with server.client() as client:
            for start, end in zip([0, *cuts], [*cuts, len(request)], strict=True):
                client.write(request[start:end])
                await server.heard(end)
            await server.submissions(1)
            server.core.admit_all()
            assert (await client.answer()).json()["txHash"] == hash_of(signed(0))
            server.core.submitted.clear()
        await server.no_connections()


@pytest.mark.uvloop
async def test_pipelined_answers_come_in_the_order_of_the_requests(server: RestServer) -> None:
    async with server.client() as client:
        requests = (
            post_tx(signed(0))
            + get(KNOWN)
            + post_tx(signed(1))
            + get("/startup")
            + post_tx(signed(2))
            + get("/nothing")
            + get(KNOWN)
        )
        client.write(requests)
        await server.heard(len(requests))
        await server.submissions(2)
        # Some turns later, too: where each client has its share of time, not all begin in one.
        await asyncio.sleep(0.05)
        assert len(server.core.submitted) == 2, "what is behind /startup waits"
        server.core.submitted[1][1].set_result(Admission(signed(1).hash))
        await asyncio.sleep(0)
        server.core.submitted[0][1].set_result(Admission(signed(0).hash))
        first = [await client.answer() for _ in range(4)]
        await server.submissions(3)
        server.core.admit_all()
        answers = [*first, *[await client.answer() for _ in range(3)]]
        hashes = [answer.json().get("txHash") for answer in answers]
        known = hash_of(CONFIRMED)
        assert hashes == [hash_of(signed(0)), known, hash_of(signed(1)), None, hash_of(signed(2)), None, known]
        assert [answer.status for answer in answers] == [200, 200, 200, 200, 200, 404, 200]


@pytest.mark.uvloop
async def test_more_in_flight_than_a_client_may_have(server: RestServer) -> None:
    count = 3 * protocol.MAX_DUE + 5
    txs = [signed(nonce) for nonce in range(count)]
    async with server.client() as client:
        client.write(b"".join(post_tx(tx) for tx in txs))
        hashes: list[str] = []
        while len(hashes) < count:
            await server.submissions(len(hashes) + 1)
            waiting = sum(not future.done() for _, future in server.core.submitted)
            assert waiting <= protocol.MAX_DUE
            server.core.admit_all()
            hashes += [(await client.answer()).json()["txHash"] for _ in range(waiting)]
        assert hashes == [hash_of(tx) for tx in txs]


@pytest.mark.uvloop
async def test_a_client_that_does_not_read_is_not_read_from(server: RestServer) -> None:
    count = 15_000
    async with server.client(buffer_bytes=1024) as client:
        client.write(get(KNOWN) * count + get("/health"))
        await wait_until(lambda: any(connection.write_paused for connection in server.connections))
        [connection] = server.connections
        assert connection.transport.get_write_buffer_size() < 512 * 1024
        assert connection.read_paused
        assert [(await client.answer()).status for _ in range(count + 1)] == [200] * (count + 1)


@pytest.mark.uvloop
async def test_a_client_that_does_not_read_long_answers_gets_few_of_them(
    server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = b"x" * MAX_HOT_BLOCK_BYTES
    monkeypatch.setattr(server.view, "find_block", lambda block_hash: block)
    count = 200
    async with server.client(buffer_bytes=1024) as client:
        client.write(get("/block/0x" + "ab" * 32) * count)
        await wait_until(lambda: any(connection.write_paused for connection in server.connections))
        [connection] = server.connections
        assert connection.transport.get_write_buffer_size() < protocol.READY_BYTES + 2 * len(block)
        assert [(await client.answer()).body == block for _ in range(count)] == [True] * count


@pytest.mark.uvloop
async def test_a_client_that_never_reads_is_cut_off(server: RestServer) -> None:
    async with server.client(buffer_bytes=1024) as client:
        client.write(get(KNOWN) * 15_000)
        await wait_until(lambda: any(connection.write_paused for connection in server.connections))
        server.pass_time(IDLE_TIMEOUT_S + 1)
        await server.no_connections()


@pytest.mark.uvloop
async def test_thousands_of_requests_at_once_for_the_application(server: RestServer) -> None:
    async with server.client() as client:
        client.write(get("/startup") * 3_000 + get("/nothing"))
        most = 0
        for _ in range(3_000):
            assert (await client.answer()).status == 200
            most = max(most, *(len(connection.waiting) for connection in server.connections))
        assert (await client.answer()).status == 404
        assert most < 1_000


@pytest.fixture
def patient_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "CHECK_TIMEOUT_S", PATIENCE_S)


@pytest.mark.usefixtures("patient_probes")
async def test_junk_behind_many_requests() -> None:
    with capture_logs() as logged:
        async with rest_server() as server, server.client() as client:
            server.core.check_delay_s = 0.05
            client.write(get("/ready") * 3 + b"nonsense\r\n\r\n")
            assert b"nonsense" not in await client.rest()
            server.pass_time(protocol.LINGER_S + 1)
            await server.no_connections()
            await wait_until(lambda: not server.server.tasks)
    assert logged == [], "the client's fault, not ours"


@pytest.mark.uvloop
async def test_a_client_that_goes_away_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_view, "PRESENCE_INTERVAL_S", 0.02)
    async with rest_server() as server:
        server.core.tx_status = PendingTx(signed(5), 0)
        async with server.client() as client:
            client.write(get(f"/tx/{hash_of(signed(5))}?wait=60"))
            await wait_until(lambda: bool(server.server.tasks))
            client.abort()
            await server.heard_end()
            server.pass_time(protocol.HALF_CLOSED_S + 1)
            await wait_until(lambda: not server.server.tasks)


@pytest.mark.uvloop
async def test_chunked_bodies(server: RestServer) -> None:
    body = json.dumps(body_of(signed(0))).encode()
    head = post(b"", "Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"")
    async with server.client() as client:
        halves = [body[:100], body[100:]]
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(half), half) for half in halves)
        answer = await submitted(server, client, head + chunks + b"0\r\n\r\n")
        assert answer.json()["txHash"] == hash_of(signed(0))
        large = b"%x\r\n%b\r\n" % (70_000, b" " * 70_000)
        assert_problem(await client.ask(head + large * 2 + b"0\r\n\r\n"), 413, "BODY_TOO_LARGE")
        assert (await client.ask(get("/health"))).status == 200, "the connection goes on"
        assert_problem(await client.ask(head + b"zz\r\n"), 400, "MALFORMED_REQUEST")


@pytest.mark.uvloop
async def test_declared_too_large(server: RestServer) -> None:
    async with server.client() as client:
        assert_problem(await client.ask(post(b" " * 131_073)), 413, "BODY_TOO_LARGE")
        assert_problem(await client.ask(post(b" " * 2_097_153, path="/txs")), 413, "BODY_TOO_LARGE")
        assert (await client.ask(get("/health"))).status == 200
        head = b"POST /tx HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
        client.write(head + b"Content-Length: 200000\r\n\r\n")
        assert_problem(await client.answer(), 413, "BODY_TOO_LARGE")


@pytest.mark.uvloop
async def test_expect_continue(server: RestServer) -> None:
    async with server.client() as client:
        request = post_tx(signed(0), "Expect: 100-continue")
        head, body = request.split(b"\r\n\r\n")
        assert (await client.ask(head + b"\r\n\r\n")).status == 100
        assert (await submitted(server, client, body)).status == 200


@pytest.mark.parametrize("request_line", ["GET /health HTTP/1.0\r\n", "GET /health HTTP/1.1\r\nConnection: close\r\n"])
@pytest.mark.uvloop
async def test_connections_that_end_with_the_answer(server: RestServer, request_line: str) -> None:
    async with server.client() as client:
        client.write(f"{request_line}Host: localhost\r\n\r\n".encode())
        received = await client.rest()
        assert received.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in received


@pytest.mark.uvloop
async def test_head_has_no_body(server: RestServer) -> None:
    async with server.client() as client:
        client.write(get(KNOWN).replace(b"GET", b"HEAD") + get(KNOWN))
        head = await client.answer(has_body=False)
        assert head.headers == (await client.answer()).headers


@pytest.mark.parametrize(
    ("path", "host", "status", "code"),
    [
        ("/other", "localhost", 404, "NOT_FOUND"),
        ("/events", "evil.example", 403, "FORBIDDEN_HOST"),
        ("/events", "localhost\r\nHost: localhost", 400, "MALFORMED_REQUEST"),
    ],
)
@pytest.mark.uvloop
async def test_sockets_that_are_refused(server: RestServer, path: str, host: str, status: int, code: str) -> None:
    async with server.client() as client:
        upgrade = (
            f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert_problem(await client.ask(upgrade.encode()), status, code)


@pytest.mark.parametrize(
    "junk",
    [
        b"nonsense\r\n\r\n",
        b"GET /health HTTP/1.1\r\nbad header\r\n\r\n",
        b"POST /tx HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
    ],
)
@pytest.mark.uvloop
async def test_what_is_no_http(server: RestServer, junk: bytes) -> None:
    async with server.client() as client:
        answer = await client.ask(junk)
        assert_problem(answer, 400, "MALFORMED_REQUEST")
        assert answer.headers["connection"] == "close"
        assert await client.rest() == b""


@pytest.mark.usefixtures("patient_probes")
@pytest.mark.uvloop
async def test_junk_behind_good_requests_takes_nothing_from_them(server: RestServer) -> None:
    async with server.client() as client:
        client.write(post_tx(signed(0)) + b"nonsense\r\n\r\n")
        await server.submissions(1)
        server.core.admit_all()
        assert (await client.answer()).status == 200
        assert_problem(await client.answer(), 400, "MALFORMED_REQUEST")
    async with server.client() as client:
        server.core.check_delay_s = 0.05
        client.write(get("/ready") + b"nonsense\r\n\r\n")
        assert (await client.answer()).status == 200
        assert_problem(await client.answer(), 400, "MALFORMED_REQUEST")
        assert await client.rest() == b""


@pytest.mark.parametrize("path", ["/health", KNOWN])
@pytest.mark.uvloop
async def test_a_head_is_measured_to_its_end(server: RestServer, path: str) -> None:
    """However it arrives: in one write, or with its end after a pause."""
    for head, status in (
        (get(path, "X: " + "a" * 65_000), 200),
        (get(path, "X: " + "a" * 65_600), 431),
        (get(path, "X: " + "a" * 70_000), 431),
        (get(path, *["X-Some: thing"] * 4_400), 431),
        (get(f"{path}?wait=0", "X: " + "a" * 65_600), 431),
        (get(path + "a" * 65_000), 404 if path == "/health" else 400),
        (get(path + "a" * 70_000), 431),
    ):
        for cut in (0, 40_000, len(head) - 1):
            async with server.client() as client:
                client.write(head[:cut])
                await server.heard(cut)
                answer = await client.ask(head[cut:])
                assert answer.status == status, (head[:40], len(head), cut)
                if status == 431:
                    assert_problem(answer, 431, "HEADERS_TOO_LARGE")
            await server.no_connections()


@pytest.mark.parametrize(
    "lines", [b"X: " + b"a" * 200_000 + b"\r\n\r\n", b"X: " + b"a" * 200_000, b"X-Some: thing\r\n" * 8_000 + b"\r\n"]
)
@pytest.mark.uvloop
async def test_a_head_that_is_too_large(server: RestServer, lines: bytes) -> None:
    async with server.client() as client:
        answer = await client.ask(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + lines)
        assert_problem(answer, 431, "HEADERS_TOO_LARGE")


@pytest.mark.parametrize("query", ["?wait=5", "?", "?amounts=string", "?x"])
@pytest.mark.parametrize("path", ["/tx", "/txs"])
@pytest.mark.uvloop
async def test_a_submission_with_a_query_parameter_is_refused_and_not_done(
    server: RestServer, path: str, query: str
) -> None:
    body = post_tx(signed(0)).partition(b"\r\n\r\n")[2]
    if path == "/txs":
        body = b"[" + body + b"]"
    async with server.client() as client:
        if query == "?":
            # An empty query asks for nothing.
            client.write(post(body, path=path + query))
            await server.submissions(1)
            server.core.admit_all()
            assert (await client.answer()).status == 200
        else:
            assert_problem(await client.ask(post(body, path=path + query)), 400, "INVALID_QUERY")
            assert server.core.submitted == []


@pytest.mark.uvloop
async def test_rate_limit_of_hot_routes_and_application(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "is_local", lambda client: False)
    async with (
        rest_server(replace(Settings(), rate_limit_per_s=0.001, rate_limit_burst=3)) as server,
        server.client() as client,
    ):
        answers = [await client.ask(get(KNOWN)) for _ in range(4)]
        assert [answer.status for answer in answers] == [200, 200, 200, 429]
        assert_problem(answers[-1], 429, "RATE_LIMITED")
        assert int(answers[-1].headers["retry-after"]) > 0
        assert_problem(await client.ask(post_tx(signed(0))), 429, "RATE_LIMITED")
        assert (await client.ask(get("/health"))).status == 200


@pytest.mark.uvloop
async def test_a_client_is_who_connects_whatever_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "is_local", lambda client: False)
    async with (
        rest_server(replace(Settings(), rate_limit_per_s=0.001, rate_limit_burst=3)) as server,
        server.client() as client,
    ):
        others = [(f"X-Forwarded-For: 10.0.0.{number}", f"Forwarded: for=10.0.0.{number}") for number in range(4)]
        answers = [await client.ask(get(path, *other)) for path in (KNOWN, "/chain") for other in others]
        assert [answer.status for answer in answers] == [200] * 3 + [429] * 5


@pytest.mark.uvloop
async def test_a_request_that_a_hot_route_leaves_to_the_application_counts_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(access, "is_local", lambda client: False)
    async with rest_server(replace(Settings(), rate_limit_per_s=0.001, rate_limit_burst=4)) as server:
        unknown = get("/tx/0x" + "ab" * 32)
        async with server.client() as client:
            # The middle ones are for a hot route first, and wait for the answer before them.
            client.write(post_tx(signed(0)) + unknown * 2 + get(KNOWN, APPLICATION) + get(KNOWN))
            await server.submissions(1)
            server.core.admit_all()
            assert [(await client.answer()).status for _ in range(5)] == [200, 404, 404, 200, 429]


@pytest.mark.uvloop
async def test_a_client_that_goes_away_in_the_middle(server: RestServer) -> None:
    for request in (post_tx(signed(0)), post_tx(signed(0), APPLICATION), post_tx(signed(0)) + get("/health")):
        server.core.submitted.clear()
        async with server.client() as client:
            client.write(request)
            await server.submissions(1)
            client.abort()
            await server.heard_end()
            server.core.admit_all()
            await server.no_connections()
    async with server.client() as client:
        assert (await client.ask(get("/health"))).status == 200


@pytest.mark.parametrize("headers", [(), (APPLICATION,)])
@pytest.mark.uvloop
async def test_a_stop_finishes_what_is_being_answered(server: RestServer, headers: tuple[str, ...]) -> None:
    async with server.client() as busy, server.client() as idle, server.client() as late:
        assert (await idle.ask(get("/health"))).status == 200
        assert (await late.ask(get("/health"))).status == 200
        busy.write(post_tx(signed(0), *headers))
        await server.submissions(1)
        server.view.on_phase("draining", "stopping")
        assert_problem(await late.ask(post_tx(signed(1), *headers)), 503, "SHUTTING_DOWN")
        server.server.stop()
        assert await idle.rest() == b""
        server.core.admit_all()
        answer = await busy.answer()
        assert answer.json()["txHash"] == hash_of(signed(0))
        assert await busy.rest() == b""


@pytest.mark.parametrize("headers", [(), (APPLICATION,)])
@pytest.mark.uvloop
async def test_a_client_that_only_stops_sending_gets_its_answers(server: RestServer, headers: tuple[str, ...]) -> None:
    async with server.client() as client:
        client.write(post_tx(signed(0), *headers))
        client.finish()
        await server.submissions(1)
        await server.heard_end()
        server.core.admit_all()
        assert (await client.answer()).json()["txHash"] == hash_of(signed(0))
        assert await client.rest() == b""
    async with server.client() as silent:
        silent.finish()
        assert await silent.rest() == b""
