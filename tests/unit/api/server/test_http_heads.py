"""Where a request ends, and what comes behind it: bodies, trailers, upgrades. A body never passes for a request."""

import asyncio
import json
from dataclasses import replace

import pytest

from cairn.api.server.http_heads import RequestHead, asks_for_websocket, check_framing
from cairn.config import Settings
from cairn.domain.errors import MalformedRequest
from cairn.domain.transactions import encode_tx
from tests.support.core_fixtures import CHAIN_ID, signed
from tests.support.rest_node import body_of, hash_of
from tests.support.rest_server import Client, RestServer, get, post, post_tx, rest_server, wait_until

UPGRADES = [
    ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"),
    ("Connection: upgrade", "Upgrade: foo"),
    ("Connection: upgrade", "Upgrade: websocket, h2c"),
    ("Connection: upgrade", "Connection: keep-alive", "Upgrade: h2c"),
    ("Connection: keep-alive", "Connection: upgrade", "Upgrade: websockets"),
]
"""Each asks for another protocol, and none of them for WebSocket alone."""
WEBSOCKET = (
    "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)  # fmt: skip


def code_of(body: bytes) -> str:
    code: str = json.loads(body)["code"]
    return code


async def in_segments(client: Client, *segments: bytes) -> None:
    """Each is a read of its own for the server."""
    for segment in segments:
        client.write(segment)
        await asyncio.sleep(0.01)


# Upgrades.


@pytest.mark.parametrize("headers", UPGRADES)
@pytest.mark.parametrize("cut", ["together", "head first", "within the body"])
@pytest.mark.uvloop
async def test_an_upgrade_to_something_else_is_ignored_and_the_body_stays_a_body(
    server: RestServer, headers: tuple[str, ...], cut: str
) -> None:
    smuggled = get("/nothing") + post_tx(signed(1))
    request = post(smuggled, *headers, path="/rpc")
    at = {"together": len(request), "head first": len(request) - len(smuggled), "within the body": len(request) - 9}[
        cut
    ]
    async with server.client() as client:
        await in_segments(client, request[:at], request[at:], get("/health", "Connection: close"))
        first, second = await client.answer(), await client.answer()
        # JSON-RPC says so of a body that is not JSON.
        assert (first.status, first.json()["error"]["code"]) == (200, -32700)
        assert (second.status, second.json()) == (200, {"status": "alive"})
        assert await client.rest() == b""
        assert not server.core.submitted


@pytest.mark.parametrize("headers", UPGRADES)
@pytest.mark.uvloop
async def test_a_transaction_with_an_upgrade_is_taken(server: RestServer, headers: tuple[str, ...]) -> None:
    """As `curl --http2 -d` and Java's HttpClient send it."""
    async with server.client() as client:
        chunked = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body_bytes()[:9], body_bytes()[9:], b""))
        head = post(b"", *headers, "Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"")
        for request in (post_tx(signed(0), *headers), head + chunked):
            client.write(request)
            await server.submissions(1)
            server.core.admit_all()
            assert (await client.answer()).json()["txHash"] == hash_of(signed(0))
            server.core.submitted.clear()


def body_bytes() -> bytes:
    return json.dumps(body_of(signed(0))).encode()


@pytest.mark.uvloop
async def test_an_upgrade_and_the_end_of_the_connection(server: RestServer) -> None:
    async with server.client() as client:
        client.write(get("/health", "Connection: close, upgrade", "Upgrade: h2c") + get("/nothing"))
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert await client.rest() == b""


@pytest.mark.uvloop
async def test_a_websocket_waits_for_the_answers_before_it(server: RestServer) -> None:
    async with server.client() as client:
        client.write(post_tx(signed(0), "Origin: http://localhost") + get("/events", *WEBSOCKET))
        await server.submissions(1)
        await asyncio.sleep(0.01)
        server.core.admit_all()
        assert (await client.answer()).json()["txHash"] == hash_of(signed(0))
        assert (await client.answer()).status == 101


@pytest.mark.uvloop
async def test_a_websocket_behind_many_requests(server: RestServer) -> None:
    async with server.client() as client:
        client.write(get("/ready") * 3 + get("/nothing") + get("/events", *WEBSOCKET))
        assert [(await client.answer()).status for _ in range(5)] == [200, 200, 200, 404, 101]


@pytest.mark.uvloop
async def test_a_websocket_behind_the_last_request_is_not_served(server: RestServer) -> None:
    async with server.client() as client:
        client.write(get("/ready", "Connection: close") + get("/events", *WEBSOCKET))
        assert (await client.answer()).status == 200
        assert await client.rest() == b""


@pytest.mark.uvloop
async def test_nothing_behind_a_refused_websocket_is_a_request(server: RestServer) -> None:
    for path, headers in (("/other", WEBSOCKET), ("/events", (*WEBSOCKET, "Content-Length: 5"))):
        async with server.client() as client:
            client.write(get(path, *headers) + post_tx(signed(0)) + get("/health"))
            assert (await client.answer()).status in (400, 404)
            assert await client.rest() == b""
    assert not server.core.submitted


@pytest.mark.uvloop
async def test_frames_right_behind_the_upgrade_are_not_lost(server: RestServer) -> None:
    async with server.client() as client:
        ping = b"\x89\x84\0\0\0\0ping"
        client.write(get("/events", *WEBSOCKET) + ping)
        assert (await client.answer()).status == 101
        assert await client.exactly(6) == b"\x8a\x04ping"


# Trailers.


def chunked(*headers: str) -> bytes:
    head = post(b"", "Transfer-Encoding: chunked", *headers, path="/rpc").replace(b"Content-Length: 0\r\n", b"")
    return head + b"2\r\n{}\r\n0\r\n"


@pytest.mark.uvloop
async def test_trailers_are_no_headers(server: RestServer) -> None:
    """Neither one that would be refused as a header, nor one that would be let in."""
    async with server.client() as client:
        evil = b"Host: evil.example\r\nOrigin: http://evil.example\r\n\r\n"
        assert (await client.ask(chunked("Origin: http://localhost") + evil)).status == 200
        good = b"Origin: http://localhost\r\n\r\n"
        assert (await client.ask(chunked("Origin: http://evil.example") + good)).status == 403
        assert (await client.ask(get("/health"))).status == 200


@pytest.mark.parametrize(
    "trailers",
    [b"X: %b\r\n" % (b"y" * 1_000) * 100, b"X: " + b"y" * 100_000, b"X" * 100_000, b"X:1\r\n" * 20_000],
    ids=["many", "a long value", "a long name", "short ones"],
)
@pytest.mark.parametrize("segment_bytes", [100_000, 1_000])
@pytest.mark.uvloop
async def test_trailers_are_counted_with_the_head(server: RestServer, trailers: bytes, segment_bytes: int) -> None:
    async with server.client() as client:
        client.write(chunked())
        for at in range(0, len(trailers), segment_bytes):
            client.write(trailers[at : at + segment_bytes])
            await asyncio.sleep(0)
        answer = await client.answer()
        assert (answer.status, code_of(answer.body)) == (431, "HEADERS_TOO_LARGE")
        assert await client.rest() == b""


@pytest.mark.uvloop
async def test_a_few_trailers_are_fine_and_leave_the_connection_as_it_was(server: RestServer) -> None:
    async with server.client() as client:
        for _ in range(5):
            client.write(chunked() + b"X: %b\r\n" % (b"y" * 1_000) * 60 + b"\r\n")
            assert (await client.answer()).status == 200


@pytest.mark.uvloop
async def test_a_size_line_that_never_ends(server: RestServer) -> None:
    async with server.client() as client:
        client.write(chunked().removesuffix(b"0\r\n") + b"5;" + b"x" * 200_000)
        assert (await client.answer()).status == 431


# Never two answers to one request.


@pytest.mark.parametrize(
    "rest", [b"zz\r\n", b"0\r\n" + b"X: %b\r\n" % (b"y" * 1_000) * 100], ids=["no chunk", "trailers"]
)
@pytest.mark.uvloop
async def test_a_body_that_goes_wrong_behind_its_answer_gets_no_second_one(server: RestServer, rest: bytes) -> None:
    async with server.client() as client:
        client.write(b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert (await client.answer()).status == 404
        client.write(rest)
        assert await client.rest() == b""


@pytest.mark.uvloop
async def test_a_request_that_never_arrives_takes_nothing_from_those_before_it() -> None:
    async with (
        rest_server(replace(Settings(), header_timeout_s=0.2, idle_timeout_s=60)) as server,
        server.client() as client,
    ):
        requests = post_tx(signed(0)) + post_tx(signed(1))[:-5]
        client.write(requests)
        await server.submissions(1)
        await server.heard(len(requests))
        server.pass_time(1)
        [connection] = server.connections
        assert connection.is_refused
        client.write(get("/health") * 10_000)
        await server.heard(len(requests) + 100_000)
        server.core.admit_all()
        assert (await client.answer()).json()["txHash"] == hash_of(signed(0))
        late = await client.answer()
        assert (late.status, code_of(late.body)) == (408, "REQUEST_TIMEOUT")
        assert await client.rest() == b"", "what came since is read and discarded, and resets nothing"


@pytest.mark.parametrize("last", [b"nonsense\r\n\r\n", chunked() + b"zz"], ids=["no request", "no body"])
@pytest.mark.uvloop
async def test_what_goes_wrong_behind_several_requests_takes_nothing_from_them(server: RestServer, last: bytes) -> None:
    server.core.check_delay_s = 0.05
    async with server.client() as client:
        client.write(get("/ready") + get("/nothing") + get("/ready") + last.replace(b"0\r\nzz", b"zz"))
        assert [(await client.answer()).status for _ in range(4)] == [200, 404, 200, 400]
        assert await client.rest() == b""


REFUSED = {
    "no request": (b"nonsense\r\n\r\n", 400),
    "a large head": (get("/health", "X: " + "a" * 70_000), 431),
    "no chunk": (chunked().removesuffix(b"0\r\n") + b"zz", 400),
    "many trailers": (chunked() + b"X: %b\r\n" % (b"y" * 1_000) * 100, 431),
    "another version": (b"GET /health HTTP/2.0\r\n\r\n", 400),
    "a tunnel": (b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
}


@pytest.mark.parametrize("before", ["/ready", "/tx", "/rpc"])
@pytest.mark.parametrize("refused", REFUSED)
@pytest.mark.uvloop
async def test_a_refused_request_behind_one_that_takes_long_gets_its_own_answer_after_it(
    server: RestServer, before: str, refused: str
) -> None:
    last, status = REFUSED[refused]
    server.core.check_delay_s = 0.05
    raw = "0x" + encode_tx(signed(0), CHAIN_ID).hex()
    call = {"jsonrpc": "2.0", "id": 1, "method": "eth_sendRawTransaction", "params": [raw]}
    requests = {
        "/ready": get("/ready"), "/tx": post_tx(signed(0)), "/rpc": post(json.dumps(call).encode(), path="/rpc"),
    }  # fmt: skip
    async with server.client() as client:
        client.write(requests[before] + last)
        if before != "/ready":
            await server.submissions(1)
            await asyncio.sleep(0.01)
            server.core.admit_all()
        assert (await client.answer()).status == 200
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (status, "close")
        assert await client.rest() == b""


async def test_nobody_is_told_to_go_on_with_a_request_that_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async with rest_server() as server, server.client() as client:
        client.write(chunked("Expect: 100-continue").removesuffix(b"2\r\n{}\r\n0\r\n") + b"zz\r\n")
        assert (await client.answer()).status == 400
        assert await client.rest() == b""
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_client_that_leaves_several_requests_behind(caplog: pytest.LogCaptureFixture) -> None:
    async with rest_server() as server:
        server.core.check_delay_s = 0.05
        async with server.client() as client:
            client.write(get("/ready") * 3)
            await wait_until(lambda: bool(server.server.tasks))
            client.abort()
            await wait_until(lambda: not server.server.tasks)
            await server.no_connections()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


# What is unclear is refused.


@pytest.mark.parametrize(
    ("version", "headers"),
    [
        ("2.0", ""),
        ("0.9", ""),
        ("1.0", "Transfer-Encoding: chunked\r\n"),
        ("1.1", "Transfer-Encoding: gzip, chunked\r\n"),
        ("1.1", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        ("1.1", "Transfer-Encoding: identity\r\n"),
        ("1.1", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
        ("1.1", "Content-Length: 5\r\nContent-Length: 5\r\n"),
        ("1.1", "Content-Length: +5\r\n"),
    ],
)
@pytest.mark.uvloop
async def test_bodies_whose_end_others_may_see_elsewhere(server: RestServer, version: str, headers: str) -> None:
    async with server.client() as client:
        head = f"POST /rpc HTTP/{version}\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}\r\n"
        answer = await client.ask(head.encode() + b"0\r\n\r\n")
        assert (answer.status, code_of(answer.body)) == (400, "MALFORMED_REQUEST")
        assert await client.rest() == b""


@pytest.mark.parametrize("target", ["/#/rpc", "/health#", "#"])
@pytest.mark.uvloop
async def test_a_target_with_a_fragment(server: RestServer, target: str) -> None:
    async with server.client() as client:
        assert (await client.ask(get(target))).status == 400


def test_what_a_head_says() -> None:
    check_framing("1.1", [(b"transfer-encoding", b"Chunked")])
    check_framing("1.0", [(b"content-length", b"5")])
    with pytest.raises(MalformedRequest):
        check_framing("1.1", [(b"transfer-encoding", b"gzip")])
    assert asks_for_websocket("1.1", [(b"upgrade", b" WebSocket ")])
    assert not asks_for_websocket("1.0", [(b"upgrade", b"websocket")])
    assert not asks_for_websocket("1.1", [(b"upgrade", b"websocket"), (b"upgrade", b"h2c")])
    assert RequestHead("GET", b"/x?y", "1.0", [(b"a", b"b")]).encode() == b"GET /x?y HTTP/1.0\r\na: b\r\n\r\n"
