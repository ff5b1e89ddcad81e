"""A client with many connections on a real server, and what another client gets meanwhile."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest

from cairn.api import app, hot_routes
from cairn.api.hot_routes import SubmitRoute
from cairn.api.rpc.dispatch import handler_of
from cairn.api.server import access
from cairn.api.server.exchange import AnswerFuture, Exchange
from cairn.api.server.request_reader import RequestReader
from cairn.config import Settings
from cairn.time_shares import SLICE_S, _Queue, in_slices
from tests.support.core_fixtures import signed
from tests.support.rest_node import body_of
from tests.support.rest_server import CONFIRMED, RestServer, get, post, post_tx, rest_server, wait_until

pytestmark = pytest.mark.uvloop

OTHER = "127.0.0.2"
CONNECTIONS = 60
PAUSE_S = 0.2


class Work:
    """Methods whose work can be counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps = 0
        methods = {"long": handler_of(self.long), "short": handler_of(self.short), "paused": handler_of(self.paused)}
        monkeypatch.setattr(app, "make_methods", lambda *_: methods)

    async def long(self) -> None:
        async for _ in in_slices(range(10_000)):
            self.spend()

    async def short(self) -> str:
        return "done"

    async def paused(self) -> str:
        pause()
        return "done"

    def spend(self) -> None:
        """A step that fills a slice."""
        self.steps += 1
        began = time.perf_counter()
        while time.perf_counter() - began < SLICE_S:
            pass

    def slow_submissions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each takes a step."""
        begin = SubmitRoute.begin

        def slow(route: SubmitRoute, request: Exchange, used_s: float) -> AnswerFuture | bytes | None:
            self.spend()
            return begin(route, request, used_s)

        monkeypatch.setattr(SubmitRoute, "begin", slow)


def pause() -> None:
    """For the clock it is all the same who stands still: the thread or the machine."""
    time.sleep(PAUSE_S)


def rpc(*methods: str) -> bytes:
    calls = [{"jsonrpc": "2.0", "id": 1, "method": method, "params": []} for method in methods]
    return post(json.dumps(calls if len(calls) > 1 else calls[0]).encode(), path="/rpc")


@asynccontextmanager
async def greedy(server: RestServer, requests: Sequence[bytes]) -> AsyncIterator[None]:
    """One connection for each request. They are reset at the end."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(server.client()) for _ in requests]
        for client, request in zip(clients, requests, strict=True):
            client.write(request)
        await server.accepted(CONNECTIONS)
        yield
        for client in clients:
            client.reset()


@pytest.mark.parametrize("methods", [["long"], ["long"] * 50], ids=["calls", "batches"])
@pytest.mark.parametrize(
    "asked",
    [rpc("short"), get("/health"), get("/asyncapi.json"), rpc("short", "short")],
    ids=["call", "probe", "page", "batch"],
)
async def test_many_long_answers_for_one_client_are_a_few_slices_for_another(
    monkeypatch: pytest.MonkeyPatch, methods: list[str], asked: bytes
) -> None:
    work = Work(monkeypatch)
    async with (
        rest_server() as server,
        greedy(server, [rpc(*methods)] * CONNECTIONS),
        server.client(address=OTHER) as other,
    ):
        await wait_until(lambda: work.steps > 20)
        assert (await other.ask(asked)).status == 200
        before = work.steps
        assert (await other.ask(asked)).status == 200
        # A few rounds, not a step of every connection.
        assert work.steps - before < CONNECTIONS / 2


async def test_after_a_pause_of_the_machine_in_its_turn_a_client_waits_for_a_few_slices_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = Work(monkeypatch)
    async with (
        rest_server() as server,
        greedy(server, [rpc("long")] * CONNECTIONS),
        server.client(address=OTHER) as other,
    ):
        await wait_until(lambda: work.steps > 20)
        assert (await other.ask(rpc("paused"))).status == 200
        before = work.steps
        assert (await other.ask(rpc("short"))).status == 200
        assert work.steps - before < CONNECTIONS / 2


async def test_pipelined_submissions_of_one_client_do_not_hold_up_another_s(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)
    work.slow_submissions(monkeypatch)
    forged = post(json.dumps(body_of(signed(0)) | {"value": 99}).encode())
    async with (
        rest_server() as server,
        greedy(server, [forged * 60] * CONNECTIONS),
        server.client(address=OTHER) as other,
    ):
        await wait_until(lambda: work.steps > 20)
        before = work.steps
        assert (await other.ask(get("/health"))).status == 200
        other.write(post_tx(signed(1)))
        await server.submissions(1)
        # Thousands are waiting.
        assert work.steps - before < CONNECTIONS
        server.core.admit_all()
        assert (await other.answer()).status == 200


async def test_work_for_connections_that_are_gone_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)
    async with rest_server() as server:
        async with greedy(server, [rpc("long")] * CONNECTIONS):
            await wait_until(lambda: work.steps > 20)
        await server.no_connections()
        await wait_until(lambda: not server.server.tasks)
        # Alone, each would have taken ten thousand.
        assert work.steps < 10_000


async def test_answers_of_one_connection_keep_their_order_when_its_client_must_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = Work(monkeypatch)
    work.slow_submissions(monkeypatch)
    async with rest_server() as server, server.client() as client:
        for nonce in range(200):
            client.write(post_tx(signed(nonce)))
        for nonce in range(200):
            while len(server.core.submitted) <= nonce:
                await asyncio.sleep(0)
            server.core.admit_all()
            assert (await client.answer()).json()["txHash"] == "0x" + signed(nonce).hash.hex()


async def test_a_crowd_of_new_connections_does_not_keep_a_probe_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvloop itself accepts one connection in each turn of the loop, which has a round of work."""
    work = Work(monkeypatch)
    async with rest_server() as server, server.client() as busy:
        busy.write(rpc(*["long"] * 100))
        await wait_until(lambda: work.steps > 5)
        # Without a turn of the loop in between.
        crowd = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(CONNECTIONS)]
        before = work.steps
        async with server.client(address=OTHER) as other:
            assert (await other.ask(get("/health"))).status == 200
        assert work.steps - before < CONNECTIONS
        for each in crowd:
            each.close()
        busy.reset()


async def test_each_transaction_of_a_batch_counts_against_the_rate_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "is_local", lambda client: False)

    def batch(count: int) -> bytes:
        return post(json.dumps([{}] * count).encode(), path="/txs")

    async with (
        rest_server(replace(Settings(), rate_limit_per_s=0.001, rate_limit_burst=9)) as server,
        server.client() as client,
    ):
        assert (await client.ask(batch(8))).status == 200
        refused = await client.ask(batch(3))
        assert (refused.status, refused.json()["code"]) == (429, "RATE_LIMITED")
        assert "counts as 3 requests" in refused.json()["detail"]
        assert (await client.ask(batch(1))).status == 429


async def test_a_batch_of_more_than_the_limit_allows_at_once_takes_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "is_local", lambda client: False)
    async with (
        rest_server(replace(Settings(), rate_limit_per_s=0.001, rate_limit_burst=9)) as server,
        server.client() as client,
    ):
        request = post(json.dumps([{}] * 50).encode(), path="/txs")
        assert [(await client.ask(request)).status for _ in range(2)] == [200, 429]


async def test_the_longest_answers_are_not_copied_together_with_their_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot_routes, "LARGE_BYTES", 10)
    Work(monkeypatch)
    async with rest_server() as server, server.client() as client:
        client.write(rpc("short") * 3)
        assert [(await client.answer()).json()["result"] for _ in range(3)] == ["done"] * 3


@pytest.mark.parametrize("asked", ["application", "lookup", "submission", "call", "refused"])
async def test_a_client_is_charged_for_parsing_what_it_sends(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    Work(monkeypatch)
    forged = post(json.dumps(body_of(signed(0)) | {"value": 99}).encode())
    known = get(f"/tx/0x{CONFIRMED.hash.hex()}")
    requests = {
        "application": get("/asyncapi.json"), "lookup": known, "submission": forged, "call": rpc("short"),
        "refused": b"nonsense\r\n\r\n",
    }  # fmt: skip
    parsed_s, charged = list[float](), list[tuple[str, float]]()
    feed, charge = RequestReader.feed, _Queue.charge_at_once

    def noted_feed(reader: RequestReader, data: bytes) -> bytes | None:
        began = time.perf_counter()
        try:
            return feed(reader, data)
        finally:
            parsed_s.append(time.perf_counter() - began)

    def noted_charge(queue: _Queue, client: str, took_s: float, besides_s: float = 0.0) -> bool:
        charged.append((client, besides_s))
        return charge(queue, client, took_s, besides_s)

    monkeypatch.setattr(RequestReader, "feed", noted_feed)
    monkeypatch.setattr(_Queue, "charge_at_once", noted_charge)
    async with rest_server() as server:
        async with server.client(address=OTHER) as client:
            await client.ask(requests[asked])
        client_charged, besides_s = charged[0]
        assert client_charged == OTHER
        assert besides_s >= sum(parsed_s) > 0
