"""Which requests are for a hot route, by their heads; every other one is the application's."""

import asyncio
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from cairn.api.app import make_api
from cairn.api.chain_view import ChainView
from cairn.api.events.hub import EventHub
from cairn.api.hot_routes import MAX_HOT_BODY_BYTES, CallRoute, HealthRoute, HotRoutes, SubmitRoute
from cairn.api.read_routes import AccountRoute, BlockRoute, ChainRoute, TxRoute
from cairn.api.server.exchange import Exchange, HotRoute
from cairn.api.server.http_protocol import HttpProtocol
from cairn.api.server.server_state import ServerState
from cairn.config import Settings
from tests.support.scripted_gateway import ScriptedGateway

SETTINGS = Settings()
HOST = b"Host: localhost:8645"
TYPE = b"Content-Type: application/json"
HASH = b"/tx/0x" + b"ab" * 32
ACCOUNT = b"/account/0x" + b"aB" * 20
BLOCK = b"/block/0x" + b"ab" * 32
STRINGS = b"?amounts=string"


class Found:
    """Notes the route of each request, and leaves all of them to the application."""

    def __init__(self, hot: HotRoutes) -> None:
        self._hot = hot
        self.routes: list[HotRoute | None] = []

    def find(self, request: Exchange) -> None:
        self.routes.append(self._hot.find(request))

    def find_read(self, target: bytes) -> None:
        """Nothing is known, since no request has a route."""

    def failed(self, request: Exchange, failure: BaseException) -> bytes:
        return self._hot.failed(request, failure)

    def refresh(self, common_lines: bytes) -> None:
        self._hot.refresh(common_lines)


def route_of(start: bytes, *lines: bytes, settings: Settings = SETTINGS) -> type | None:
    """The kind of route for a request, as the parser of a connection reads its head."""

    async def main() -> list[HotRoute | None]:
        view = ChainView(Path("unused"), chain_id=1337)
        app, hot = make_api(ScriptedGateway(), view, EventHub(view, settings), settings)
        found = Found(hot)
        state = ServerState(view, app, found, app.limiter, app.shares, settings)
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        transport, connection = await loop.connect_accepted_socket(lambda: HttpProtocol(state), ours)
        connection.data_received(start + b"\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n")
        transport.abort()
        theirs.close()
        return found.routes

    routes = asyncio.run(main())
    return type(routes[0]) if routes and routes[0] is not None else None


def post(*lines: bytes, target: bytes = b"/tx", version: bytes = b"HTTP/1.1") -> type | None:
    return route_of(b"POST %b %b" % (target, version), *lines)


def test_plain_posts() -> None:
    assert post(HOST, TYPE, b"Content-Length: 450") is SubmitRoute
    assert post(HOST, TYPE, b"Content-Length: 450", target=b"/rpc") is CallRoute
    json = b"content-type: Application/JSON; charset=UTF-8"
    assert post(b"hOsT: 127.0.0.1", json, b"content-length: 1") is SubmitRoute
    more = (b"Connection: keep-alive", b"Accept: */*", b"X-Own: 1", b"Long: " + b"x" * 3_000)
    assert post(HOST, TYPE, b"Content-Length: 5", *more) is SubmitRoute


@pytest.mark.parametrize(
    "lines",
    [
        [TYPE, b"Content-Length: 5"],
        [b"Host: evil.example", TYPE, b"Content-Length: 5"],
        [HOST, HOST, TYPE, b"Content-Length: 5"],
        [HOST, b"Content-Length: 5"],
        [HOST, b"Content-Type: text/plain", b"Content-Length: 5"],
        [HOST, TYPE],
        [HOST, TYPE, b"Content-Length: 5", b"Content-Length: 5"],
        [HOST, TYPE, b"Content-Length: %d" % (MAX_HOT_BODY_BYTES + 1)],
        [HOST, TYPE, b"Content-Length: 99999999999999999999"],
        [HOST, TYPE, b"Content-Length: x"],
        [HOST, TYPE, b"Content-Length: -5"],
        [HOST, TYPE, b"Transfer-Encoding: chunked"],
        [HOST, TYPE, b"Content-Length: 5", b"Transfer-Encoding: chunked"],
        [HOST, TYPE, b"Content-Length: 5", b"Expect: 100-continue"],
        [HOST, TYPE, b"Content-Length: 5", b"Origin: http://localhost"],
        [HOST, TYPE, b"Content-Length: 5", b"Content-Encoding: gzip"],
        [HOST, TYPE, b"Content-Length: 5", b"Connection: close"],
        [HOST, TYPE, b"Content-Length: 5", b"Connection: Upgrade", b"Upgrade: websocket"],
        [HOST, TYPE, b"Content-Length: 5", b"bad header"],
    ],
)
def test_posts_that_need_the_application_or_a_refusal(lines: list[bytes]) -> None:
    assert post(*lines) is None


@pytest.mark.parametrize("version", [b"HTTP/1.0", b"HTTP/2.0", b"x HTTP/1.1", b""])
def test_another_version_is_not_for_a_hot_route(version: bytes) -> None:
    assert post(HOST, TYPE, b"Content-Length: 5", version=version) is None


@pytest.mark.parametrize("target", [b"/tx?", b"/tx/", b"/TX", b"//tx", b"http://localhost/tx", b"/txs", b"/%74x"])
def test_another_target_is_not_for_a_hot_route(target: bytes) -> None:
    assert post(HOST, TYPE, b"Content-Length: 5", target=target) is None


@pytest.mark.parametrize(("start", "kind"), [(HASH, TxRoute), (ACCOUNT, AccountRoute), (BLOCK, BlockRoute)])
def test_lookups(start: bytes, kind: type) -> None:
    for target in (start, start + STRINGS):
        assert route_of(b"GET %b HTTP/1.1" % target, HOST, b"User-Agent: x") is kind
        assert route_of(b"HEAD %b HTTP/1.1" % target, HOST) is None
    longer = [
        start + end for end in (b"/proof", b"?wait=5", b"0", b"?amounts=number", b"&amounts=string", STRINGS + b"&")
    ]
    for target in (*longer, start[:-1], start.replace(b"/0x", b"/") + b"ab"):
        assert route_of(b"GET %b HTTP/1.1" % target, HOST) is None
    for odd in b"#?/%.\xff":
        assert route_of(b"GET %b%c HTTP/1.1" % (start[:-1], odd), HOST) is None
        assert route_of(b"GET %b%c%b HTTP/1.1" % (start[:-1], odd, STRINGS), HOST) is None


def test_the_chain() -> None:
    for target, kind in (
        (b"/chain", ChainRoute),
        (b"/chain" + STRINGS, ChainRoute),
        (b"/chain/", None),
        (b"/chain?", None),
    ):
        assert route_of(b"GET %b HTTP/1.1" % target, HOST) is kind


@pytest.mark.parametrize("name", [b"latest", b"0", b"17", b"999999999999999999"])
def test_blocks_by_another_name(name: bytes) -> None:
    for target in (name, name + STRINGS):
        assert route_of(b"GET /block/%b HTTP/1.1" % target, HOST) is BlockRoute


@pytest.mark.parametrize("name", [b"", b"007", b"-1", b"1.0", b"earliest", b"1" * 19, b"1?transactions=full", b"0x1"])
def test_names_of_blocks_that_the_application_judges(name: bytes) -> None:
    assert route_of(b"GET /block/%b HTTP/1.1" % name, HOST) is None


def test_the_probe_that_needs_nothing() -> None:
    assert route_of(b"GET /health HTTP/1.1", HOST) is HealthRoute
    for start in (b"GET /health? HTTP/1.1", b"HEAD /health HTTP/1.1", b"GET /health HTTP/1.0", b"GET /ready HTTP/1.1"):
        assert route_of(start, HOST) is None


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [b"Host: evil.example"],
        [HOST, b"If-None-Match: *"],
        [HOST, b"Origin: null"],
        [HOST, b"Content-Length: 0"],
        [HOST, b"Transfer-Encoding: chunked"],
        [HOST, b"Connection: close"],
    ],
)
def test_lookups_that_need_the_application(lines: list[bytes]) -> None:
    assert route_of(b"GET %b HTTP/1.1" % HASH, *lines) is None


def test_a_lower_limit_of_bodies_holds_here_too() -> None:
    for length, expected in ((5, SubmitRoute), (6, None)):
        lines = (HOST, TYPE, b"Content-Length: %d" % length)
        assert route_of(b"POST /tx HTTP/1.1", *lines, settings=replace(SETTINGS, max_body_bytes=5)) is expected
