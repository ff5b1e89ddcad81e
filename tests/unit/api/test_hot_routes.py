"""JSON-RPC calls on the hot route: answered as the application answers them, one at a time and in order."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from starlette.types import Receive, Scope, Send

from cairn import metrics
from cairn.api import app, chain_view
from cairn.api.rpc.caller import LARGE_AT_ONCE, Caller, LargeAnswers, current_caller
from cairn.api.rpc.dispatch import handler_of
from cairn.api.server import access
from cairn.api.server.exchange import Exchange
from cairn.api.server.http_protocol import HALF_CLOSED_S
from cairn.api.server.middleware import Edge
from cairn.config import Settings
from cairn.domain.transactions import encode_tx
from cairn.domain.types import Tx
from cairn.time_shares import TimeShares
from tests.support.callers import UNLIMITED
from tests.support.core_fixtures import CHAIN_ID, signed
from tests.support.metrics import Scrape
from tests.support.rest_node import hash_of
from tests.support.rest_server import (
    CONFIRMED,
    Client,
    RestServer,
    assert_problem,
    get,
    post,
    post_tx,
    rest_server,
    submitted,
    wait_until,
)

pytestmark = pytest.mark.uvloop

APPLICATION = "Content-Encoding: identity"
"""A header that leaves a request to the application, and changes nothing else."""
SYSTEM_KEEPS_ANSWERS = 20
"""Of a megabyte each: more than a system keeps for a client that does not read."""


def message(method: str, *params: object, **more: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params} | more).encode()


def call(body: bytes, *headers: str) -> bytes:
    return post(body, *headers, path="/rpc")


def send_raw(tx: Tx) -> bytes:
    return call(message("eth_sendRawTransaction", "0x" + encode_tx(tx, CHAIN_ID).hex()))


CHAIN = message("eth_chainId")
NOTIFICATION = b'{"jsonrpc":"2.0","method":"eth_chainId"}'


BODIES = [
    CHAIN,
    message("eth_chainId", id="\u00e9"),
    message("net_version", id=1.5),
    message("eth_chainId", "too many"),
    message("eth_getBalance", "0x1"),
    message("eth_noSuchMethod"),
    message("eth_subscribe", "newHeads"),
    b"[" + CHAIN + b"," + NOTIFICATION + b"," + message("eth_noSuchMethod") + b"]",
    b"[" + b",".join([CHAIN] * 40) + b"]",
    b"[" + NOTIFICATION + b"]",
    b"[]",
    NOTIFICATION,
    NOTIFICATION.replace(b"}", b',"params":["too many"]}'),
    b"",
    b"{",
    b"\xff",
    b"null",
    b"[" * 3_000,
    CHAIN + b" " * 5_000,
]


@pytest.mark.parametrize("body", BODIES)
async def test_hot_route_and_application_answer_alike(server: RestServer, body: bytes) -> None:
    async with server.client() as client:
        fast = await client.ask(call(body))
        assert fast == await client.ask(call(body, APPLICATION))
        assert fast.headers["vary"] == "Origin"
        assert fast.status == (204 if fast.body == b"" else 200)


@pytest.mark.parametrize("body", BODIES)
async def test_hot_route_and_application_count_alike(body: bytes) -> None:
    assert await counted(call(body)) == await counted(call(body, APPLICATION)) != {}


async def counted(*requests: bytes) -> dict[str, float]:
    """By series: what is counted of calls and of answers to them, for these requests to a new worker."""
    metrics.PAGE.share(["test"])
    async with rest_server() as server, server.client() as client:
        for request in requests:
            await (submitted(server, client, request) if b"_sendRaw" in request else client.ask(request))
    page = Scrape("".join(family.rendered(metrics.PAGE) for family in (metrics.HTTP, metrics.RPC_REQUESTS)))
    counts = [each for each in page.samples if each.name.endswith(("_total", "_count"))]
    return {f"{each.name} {' '.join(each.labels.values())}": each.value for each in counts if each.value}


async def test_every_call_and_its_answer_are_counted_whatever_they_stand_beside() -> None:
    # More than a group of a tally, and than two.
    single, batched, refused, noted = 150, 3, 70, 2
    requests = [
        *[call(CHAIN)] * single,
        call(b"[" + b",".join([CHAIN] * batched) + b"]"),
        *[call(message("eth_chainId", "too many"))] * refused,
        *[call(NOTIFICATION)] * noted,
        call(message("net_version")),
        call(message("eth_noSuchMethod")),
        *[send_raw(signed(nonce)) for nonce in range(3)],
    ]
    plain = single + 1 + refused + 1 + 1 + 3
    assert await counted(*requests) == {
        "cairn_http_requests_total POST /rpc 200": plain,
        "cairn_http_requests_total POST /rpc 204": noted,
        "cairn_http_request_duration_seconds_count POST /rpc": plain + noted,
        "cairn_rpc_requests_total eth_chainId ok": single + batched + noted,
        "cairn_rpc_requests_total eth_chainId error": refused,
        "cairn_rpc_requests_total net_version ok": 1,
        "cairn_rpc_requests_total other error": 1,
        "cairn_rpc_requests_total eth_sendRawTransaction ok": 3,
    }


@pytest.mark.parametrize("origins", [(), ("*",), ("https://app.example",)])
async def test_hot_route_and_application_tell_browsers_the_same(origins: tuple[str, ...]) -> None:
    async with rest_server(replace(Settings(), cors_origins=origins)) as server, server.client() as client:
        for request in (call(CHAIN), call(NOTIFICATION), post(b"{}"), get("/tx/0x" + CONFIRMED.hash.hex())):
            end = request.index(b"\r\n\r\n")
            fast = await client.ask(request)
            full = await client.ask(request[:end] + f"\r\n{APPLICATION}".encode() + request[end:])
            assert (fast.headers, fast.body) == (full.headers, full.body)
            assert ("access-control-allow-origin" in fast.headers) == ("*" in origins)


async def test_the_application_has_no_part_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    application, asked = Edge.__call__, list[str]()

    async def noted(edge: Edge, scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(scope["path"])
        await application(edge, scope, receive, send)

    monkeypatch.setattr(Edge, "__call__", noted)

    async with rest_server() as server, server.client() as client:
        for headers, expected in ([], []), ([APPLICATION], ["/rpc"]):
            assert (await client.ask(call(CHAIN, *headers))).json()["result"] == hex(CHAIN_ID)
            assert asked == expected


def begun(server: RestServer, body: bytes) -> object:
    """What the route makes of a call: the answer, or what it waits for."""
    request = Exchange()
    request.body, request.payer, request.address = body, "127.0.0.1", "127.0.0.1"
    request.connection = server.connections[0]
    route = server.server._state.hot._posts[b"/rpc"]  # type: ignore[attr-defined]
    return route.begin(request, 0.0)


async def test_a_call_takes_a_task_only_if_it_waits_for_something_that_is_left_to_do(
    server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with server.client() as client:
        await client.ask(call(CHAIN))
        # However slow the machine is, nobody uses up a share of its time.
        server.server._state.shares.clock = lambda: 0.0
        await check_tasks(server, monkeypatch)


async def check_tasks(server: RestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for body in (CHAIN, NOTIFICATION, message("eth_noSuchMethod"), message("eth_chainId", 1)):
        assert isinstance(begun(server, body), bytes)
    submitted = begun(server, message("eth_sendRawTransaction", "0x" + encode_tx(signed(0), CHAIN_ID).hex()))
    assert isinstance(submitted, asyncio.Future)
    assert not isinstance(submitted, asyncio.Task)
    server.core.admit_all()
    assert (await submitted).tx_hash == signed(0).hash
    for body in (message("eth_getFilterChanges", 1), b"[" + CHAIN + b"]"):
        asked = begun(server, body)
        assert isinstance(asked, asyncio.Task)
        assert await asked
    # While others wait for their turn, it waits behind them.
    monkeypatch.setattr(TimeShares, "begin", lambda *_: None)
    waiting = begun(server, CHAIN)
    assert isinstance(waiting, asyncio.Task)
    assert json.loads(await waiting)["result"] == hex(CHAIN_ID)


async def test_each_call_counts_as_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "is_local", lambda client: False)
    async with (
        rest_server(replace(Settings(), rate_limit_per_s=0.001, rate_limit_burst=3)) as server,
        server.client() as client,
    ):
        assert (await client.ask(call(CHAIN))).json()["result"] == hex(CHAIN_ID)
        # The second of the two calls is one too many for it, and the third request for everybody.
        several = (await client.ask(call(b"[" + CHAIN + b"," + CHAIN + b"," + CHAIN + b"]"))).json()
        assert ["error" in answer for answer in several] == [False, False, True]
        assert (await client.ask(call(CHAIN))).status == 429


async def test_only_that_path_is_meant(server: RestServer) -> None:
    async with server.client() as client:
        for path in ("/rpcs", "/rpc/", "/rpc?x=1", "/RPC"):
            request = post(CHAIN, path=path), post(CHAIN, APPLICATION, path=path)
            fast, full = await client.ask(request[0]), await client.ask(request[1])
            assert (fast.status, fast.body) == (full.status, full.body)


async def sent(server: RestServer, client: Client, *requests: bytes) -> None:
    before = sum(connection.heard_bytes for connection in server.connections)
    client.write(b"".join(requests))
    await server.heard(before + sum(map(len, requests)))


async def test_answers_keep_their_order_and_a_call_waits_for_those_before_it(server: RestServer) -> None:
    async with server.client() as client:
        await sent(server, client, post_tx(signed(0)), send_raw(signed(1)), post_tx(signed(2)), call(CHAIN))
        for count in (1, 2, 3):
            await server.submissions(count)
            # Whatever comes to the core next comes only after this answer.
            for _ in range(20):
                await asyncio.sleep(0)
            assert [tx.nonce for tx, _ in server.core.submitted] == list(range(count))
            server.core.admit_all()
        assert (await client.answer()).json()["txHash"] == hash_of(signed(0))
        assert (await client.answer()).json()["result"] == hash_of(signed(1))
        assert (await client.answer()).json()["txHash"] == hash_of(signed(2))
        assert (await client.answer()).json()["result"] == hex(CHAIN_ID)


HEALTH, STARTUP, FOUND, INVALID = get("/health"), get("/startup"), get(f"/tx/0x{CONFIRMED.hash.hex()}"), post(b"{}")
OTHER_PROTOCOL = get("/health", "Connection: upgrade", "Upgrade: other")


@pytest.mark.parametrize(
    "further",
    [
        [call(CHAIN), STARTUP],
        [STARTUP, call(CHAIN), STARTUP],
        [FOUND, STARTUP],
        [INVALID, call(CHAIN)],
        [FOUND, INVALID, FOUND, call(CHAIN), call(CHAIN, APPLICATION), FOUND],
        [FOUND] * 70,
        [HEALTH, STARTUP, HEALTH, call(CHAIN), HEALTH],
        [STARTUP] * 20,
        [STARTUP, STARTUP, OTHER_PROTOCOL, STARTUP],
        [call(NOTIFICATION), call(b" " * 3_000), call(b" " * 5_000), STARTUP],
    ],
)
@pytest.mark.parametrize("begins", [send_raw, post_tx])
@pytest.mark.parametrize("incomplete", [b"", b"GET /chain HT"])
@pytest.mark.parametrize("has_left", [False, True], ids=["stop", "end"])
async def test_whatever_was_asked_for_is_answered_at_the_end(
    server: RestServer, begins: Callable[[Tx], bytes], further: list[bytes], incomplete: bytes, has_left: bool
) -> None:
    async with server.client() as client:
        alone = [await client.ask(request) for request in further]
        await sent(server, client, begins(signed(0)), *further, incomplete)
        await server.submissions(1)
        if has_left:
            client.finish()
            await server.heard_end()
        else:
            server.server.stop()
            for _ in range(20):
                await asyncio.sleep(0)
        server.core.admit_all()
        assert (await client.answer()).status == 200
        for expected in alone:
            answer = await client.answer()
            assert (answer.status, answer.body) == (expected.status, expected.body)
        assert await client.rest() == b""


def post_tx_to_application(tx: Tx) -> bytes:
    return post_tx(tx, APPLICATION)


def slow_lookup(tx: Tx) -> bytes:
    """Ask for a transaction that nobody knows; meanwhile the node looks whether its client is still there."""
    return get(f"/tx/{hash_of(tx)}?wait=0.2")


UNFINISHED = post(b"{}", APPLICATION)[:-1]
UNFINISHED_CHUNKS = UNFINISHED.replace(b"Content-Length: 2", b"Transfer-Encoding: chunked").replace(
    b"\r\n{", b"\r\n2\r\n{"
)


@pytest.mark.parametrize("begins", [send_raw, post_tx, post_tx_to_application, slow_lookup])
@pytest.mark.parametrize("further", [[], [FOUND], [STARTUP, call(CHAIN)], [STARTUP] * 20])
@pytest.mark.parametrize(
    "unfinished", [post(b"{}")[:-1], UNFINISHED, UNFINISHED_CHUNKS, post(b"{}", "Expect: 100-continue")[:-2]]
)
async def test_a_body_that_never_ends_takes_no_answer_from_those_before_it(
    begins: Callable[[Tx], bytes], further: list[bytes], unfinished: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain_view, "PRESENCE_INTERVAL_S", 0.01)
    async with rest_server() as server, server.client() as client:
        alone = [await client.ask(request) for request in further]
        client.write(begins(signed(0)) + b"".join(further) + unfinished)
        client.finish()
        if begins is not slow_lookup:
            await server.submissions(1)
            for _ in range(20):
                await asyncio.sleep(0)
            server.core.admit_all()
        assert (await client.answer()).status == (404 if begins is slow_lookup else 200)
        for expected in alone:
            answer = await client.answer()
            assert (answer.status, answer.body) == (expected.status, expected.body)
        rest = await client.rest()
        assert rest in (b"", b"HTTP/1.1 100 Continue\r\n\r\n")
        await server.no_connections()


async def test_a_complete_request_is_never_late(server: RestServer) -> None:
    async with server.client() as client:
        await sent(server, client, post_tx(signed(0)), call(CHAIN)[:40])
        await sent(server, client, call(CHAIN)[40:])
        await server.submissions(1)
        server.pass_time(Settings().header_timeout_s + 1)
        server.core.admit_all()
        assert (await client.answer()).json()["txHash"] == hash_of(signed(0))
        assert (await client.answer()).json()["result"] == hex(CHAIN_ID)


@pytest.mark.parametrize("more", [b"", b"\r\n", b"POST /rpc HT", call(CHAIN), call(CHAIN) * 20 + b"GET"])
@pytest.mark.parametrize("leave", [Client.reset, Client.abort])
async def test_whoever_leaves_is_noticed_and_takes_nothing_along(
    server: RestServer, leave: Callable[[Client], None], more: bytes
) -> None:
    async with server.client() as client:
        await sent(server, client, send_raw(signed(0)), more[:9])
        await server.submissions(1)
        await sent(server, client, more[9:])
        leave(client)
        # As long as it has asked for something, one that has closed its side may still wait for it.
        await wait_until(lambda: not server.connections or server.connections[0].has_heard_end)
        server.pass_time(HALF_CLOSED_S + 1)
        await server.no_connections()
        assert not server.server.tasks
        server.core.admit_all()
        assert len(server.core.submitted) == 1


async def test_nothing_large_is_made_for_whoever_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, asked, made = LargeAnswers(kept_by_batches=True), list[str](), list[str]()

    async def large() -> None:
        asked.append("large")
        async with answers.place():
            made.append("large")

    monkeypatch.setattr(app, "make_methods", lambda *_: {"large": handler_of(large)})

    async with rest_server() as server:
        held = [answers.place() for _ in range(LARGE_AT_ONCE)]
        async with AsyncExitStack() as places, server.client() as client:
            for number, place in enumerate(held):
                current_caller.set(Caller(f"192.0.2.{number}", UNLIMITED))
                await places.enter_async_context(place)
            await sent(server, client, call(message("large")), b"\r\n")
            await wait_until(lambda: bool(asked))
            client.reset()
            await server.no_connections()
        await wait_until(lambda: not server.server.tasks)
        assert made == []


async def test_whoever_reads_no_answer_gets_no_further_one(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, size, made = 40, 2**20, list[str]()

    async def long() -> str:
        made.append("long")
        return "x" * size

    monkeypatch.setattr(app, "make_methods", lambda *_: {"long": handler_of(long)})

    async with rest_server() as server, server.client(buffer_bytes=1_024) as client:
        await sent(server, client, *[call(message("long"))] * calls)
        await wait_until(lambda: server.connections[0].write_paused)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(made) < calls
        for number in range(calls):
            assert len(made) <= number + SYSTEM_KEEPS_ANSWERS
            assert len((await client.answer()).json()["result"]) == size


async def test_the_limit_of_a_body_holds() -> None:
    async with rest_server(replace(Settings(), max_batch_body_bytes=len(CHAIN))) as server, server.client() as client:
        for body in (CHAIN, CHAIN + b" " * 100):
            fast = await client.ask(call(body))
            assert fast == await client.ask(call(body, APPLICATION))
            assert fast.status == (200 if body == CHAIN else 413)


@pytest.mark.parametrize("calls", [1_000, 3_000])
async def test_a_batch_of_ordinary_calls_is_answered_with_an_array(calls: int) -> None:
    batch = b",".join(message("eth_getTransactionReceipt", "0x" + "ab" * 32, id=each) for each in range(calls))
    async with rest_server() as server, server.client() as client:
        answer = await client.ask(call(b"[%b]" % batch))
        assert answer.status == 200
        assert {each["id"] for each in answer.json()} == set(range(calls))


async def test_a_batch_of_more_than_two_mebibytes_is_refused() -> None:
    async with rest_server() as server, server.client() as client:
        assert_problem(await client.ask(call(b" " * (2 * 1024 * 1024 + 1))), 413, "BODY_TOO_LARGE")
