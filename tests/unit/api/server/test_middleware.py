"""What surrounds every request: hosts, origins, rates, the headers of each answer, and failures as problems."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cairn.api.app import make_api
from cairn.api.chain_view import ChainView
from cairn.api.events.hub import EventHub
from cairn.api.server.access import HostList, OriginList, RateLimiter
from cairn.api.server.middleware import Edge
from cairn.api.server.websocket_session import EXTENSION
from cairn.config import Settings
from cairn.domain.errors import Corrupt, Fatal, NodeError
from cairn.time_shares import TimeShares
from tests.support.public import assert_problem
from tests.support.scripted_gateway import ScriptedGateway

LISTED = replace(Settings(), cors_origins=("https://app.example",), rate_limit_per_s=1.0, rate_limit_burst=2)


def send(
    method: str,
    path: str,
    headers: dict[str, str] | list[tuple[str, str]] | None = None,
    settings: Settings = LISTED,
    client: str = "127.0.0.1",
) -> httpx.Response:
    async def main() -> httpx.Response:
        view = ChainView(Path("unused"), chain_id=1337)
        app = make_api(ScriptedGateway(), view, EventHub(view, settings), settings).app
        transport = httpx.ASGITransport(app, client=(client, 5))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8645") as http:
            return await http.request(method, path, headers=headers)

    return asyncio.run(main())


def test_every_answer_says_which_chain_and_how_long_it_holds() -> None:
    for path in ("/health", "/ready", "/nothing", "/openapi.json"):
        answer = send("GET", path)
        assert answer.headers["x-chain-id"] == "1337"
        assert "cache-control" in answer.headers


def test_without_a_known_chain_the_header_is_left_out() -> None:
    async def main() -> httpx.Response:
        view = ChainView(Path("unused"))
        app = make_api(ScriptedGateway(), view, EventHub(view, LISTED), LISTED).app
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
            return await http.get("/health")

    assert "x-chain-id" not in asyncio.run(main()).headers


def test_two_origins_are_refused_whichever_comes_last() -> None:
    for origins in (["https://evil.example", "https://app.example"], ["https://app.example"] * 2):
        answer = send("GET", "/health", [("origin", origin) for origin in origins])
        assert_problem(answer, 400, "MALFORMED_REQUEST")
        assert "access-control-allow-origin" not in answer.headers


def test_another_host_is_refused() -> None:
    problem = assert_problem(send("GET", "/chain", {"host": "evil.example"}), 403, "FORBIDDEN_HOST")
    assert "evil.example" in problem["detail"]


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_another_origin_is_refused(method: str) -> None:
    headers = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    answer = send(method, "/tx", headers)
    assert_problem(answer, 403, "FORBIDDEN_ORIGIN")
    assert "access-control-allow-origin" not in answer.headers


def test_the_nodes_own_page_needs_no_permission() -> None:
    for headers in ({"origin": "http://localhost:8645"}, {}):
        answer = send("GET", "/health", headers)
        assert answer.status_code == 200
        assert "access-control-allow-origin" not in answer.headers
        assert answer.headers["vary"] == "Origin", "a cache must not give this answer to a page that may read it"
    assert "vary" not in send("GET", "/health", settings=Settings()).headers


def test_an_allowed_origin_may_read_the_answer_and_the_refusal() -> None:
    for path, status in (("/health", 200), ("/nothing", 404)):
        answer = send("GET", path, {"origin": "https://app.example"})
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        for name in ("X-Total-Count", "X-Oldest-Block"):
            assert name in answer.headers["access-control-expose-headers"]
        assert answer.headers["vary"] == "Origin"


def test_preflight() -> None:
    headers = {
        "origin": "https://app.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type",
    }
    answer = send("OPTIONS", "/tx", headers)
    assert answer.status_code == 204
    assert answer.content == b""
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-headers"] == "content-type"
    assert int(answer.headers["access-control-max-age"]) > 0
    assert answer.headers["x-chain-id"] == "1337"


def test_a_wallet_in_the_browser_may_use_json_rpc_and_nothing_else() -> None:
    headers = {"origin": "chrome-extension://nkbihfbeogaeaoehlefnkodbefgpgknn", "access-control-request-method": "POST"}
    answer = send("OPTIONS", "/rpc", headers)
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == headers["origin"]
    assert answer.headers["vary"] == "Origin"
    assert_problem(send("OPTIONS", "/tx", headers), 403, "FORBIDDEN_ORIGIN")
    headers["origin"] = "https://evil.example"
    assert_problem(send("POST", "/rpc", headers), 403, "FORBIDDEN_ORIGIN")


def test_any_origin_when_told_so() -> None:
    for headers in ({"origin": "null"}, {}):
        answer = send("GET", "/health", headers, replace(Settings(), cors_origins=("*",)))
        assert answer.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/tx/",
        "/tx",
        "/health/",
        "http://localhost:8645//health",
        "/tx/0x12/proof/",
        "/chain%0A",
        "/docs/other.js",
    ],
)
def test_paths_that_do_not_exist(path: str) -> None:
    answer = send("GET", path)
    if path == "/tx":
        assert_problem(answer, 405, "METHOD_NOT_ALLOWED")
    else:
        assert_problem(answer, 404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/tx", "POST"),
        ("PUT", "/txs", "POST"),
        ("POST", "/chain", "GET, HEAD"),
        ("DELETE", "/tx/0x12", "GET, HEAD"),
        ("OPTIONS", "/health", "GET, HEAD"),
        ("PATCH", "/block/latest", "GET, HEAD"),
        ("DELETE", "/validators", "GET, HEAD, POST"),
    ],
)
def test_methods_that_are_not_served(method: str, path: str, allowed: str) -> None:
    answer = send(method, path)
    assert_problem(answer, 405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == allowed


def test_events_without_an_upgrade() -> None:
    answer = send("GET", "/events")
    assert_problem(answer, 426, "UPGRADE_REQUIRED")
    assert answer.headers["upgrade"] == "websocket"


def requests_of(client: str, path: str, count: int) -> list[httpx.Response]:
    async def main() -> list[httpx.Response]:
        view = ChainView(Path("unused"), chain_id=1337)
        app = make_api(ScriptedGateway(), view, EventHub(view, LISTED), LISTED).app
        # However long an answer takes, no request is earned meanwhile.
        app.limiter = RateLimiter(LISTED, lambda: 0.0)
        transport = httpx.ASGITransport(app, client=(client, 5))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return [await http.get(path) for _ in range(count)]

    return asyncio.run(main())


def test_who_asks_too_often_is_told_when_to_come_back() -> None:
    answers = requests_of("10.0.0.1", "/openapi.json", 4)
    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
    assert_problem(answers[-1], 429, "RATE_LIMITED")


def test_loopback_and_probes_are_never_limited() -> None:
    assert {answer.status_code for answer in requests_of("127.0.0.1", "/openapi.json", 10)} == {200}
    assert {answer.status_code for answer in requests_of("10.0.0.1", "/health", 10)} == {200}


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "https://evil.example"}])
def test_who_is_refused_is_counted_too(headers: dict[str, str]) -> None:
    async def main() -> list[int]:
        edge = edge_around(not_reached)
        transport = httpx.ASGITransport(edge, client=("10.0.0.1", 5))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return [(await http.get("/chain", headers=headers)).status_code for _ in range(4)]

    assert asyncio.run(main()) == [403, 403, 429, 429]


class Refusals:
    """A connection that notes why it was refused."""

    def __init__(self) -> None:
        self.codes: list[str] = []

    def refuse(self, error: NodeError) -> None:
        self.codes.append(error.code)


def test_a_socket_that_is_refused_is_counted_too() -> None:
    async def receive() -> Message:
        raise AssertionError("nothing is asked of the client")

    async def send(message: Message) -> None:
        raise AssertionError("the connection itself refuses")

    async def main() -> list[str]:
        edge, connection = edge_around(not_reached), Refusals()
        scope = {
            "type": "websocket", "path": "/events", "headers": [(b"host", b"evil.example")], "client": ("10.0.0.1", 5),
            "extensions": {EXTENSION: {"connection": connection}},
        }  # fmt: skip
        for _ in range(3):
            await edge(scope, receive, send)
        return connection.codes

    assert asyncio.run(main()) == ["FORBIDDEN_HOST", "FORBIDDEN_HOST", "RATE_LIMITED"]


async def not_reached(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("a request that must be refused")


def edge_around(app: ASGIApp, on_fatal: Callable[[Fatal], None] | None = None) -> Edge:
    """Its limits never come back."""
    view = ChainView(Path("unused"), chain_id=1337, on_fatal=on_fatal)
    return Edge(
        app,
        view,
        HostList(LISTED),
        OriginList(LISTED),
        RateLimiter(LISTED, lambda: 0.0),
        TimeShares(),
        server_adds_chain_id=False,
    )


def failing_with(failure: Exception, on_fatal: Callable[[Fatal], None] | None = None) -> httpx.Response:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise failure

    async def main() -> httpx.Response:
        edge = edge_around(app, on_fatal)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(edge), base_url="http://localhost") as http:
            return await http.get("/chain")

    return asyncio.run(main())


def test_a_failure_of_ours_is_a_problem_without_a_traceback() -> None:
    answer = failing_with(KeyError("secret"))
    assert_problem(answer, 500, "INTERNAL")
    assert "secret" not in answer.text


def test_a_damaged_store_is_reported_to_who_runs_the_worker() -> None:
    reported: list[Fatal] = []
    damage = Corrupt("block 7: checksum")
    answer = failing_with(damage, reported.append)
    assert_problem(answer, 500, "INTERNAL")
    assert reported == [damage]
    assert "block 7" not in answer.text
