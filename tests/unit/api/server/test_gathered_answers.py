"""Answers that are written together: each once and counted, before whatever else happens to its connection."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from math import inf, nextafter
from typing import cast

import pytest

from cairn import metrics, metrics_page
from cairn.api.server import gathered_answers, http_protocol
from cairn.api.server.gathered_answers import (
    BUSY_GROUPS,
    BUSY_S,
    FEW,
    MAX_GATHERED_BYTES,
    MOST,
    PAID_TURNS,
    PAYING,
    TRIAL_EVERY_S,
    TRIAL_TURNS,
    GatheredAnswers,
)
from cairn.config import Settings
from cairn.domain.errors import NodeError, NonceTooLow
from cairn.metrics import FAST
from cairn.metrics_page import GROUP
from tests.support.core_fixtures import signed
from tests.support.metrics import Scrape
from tests.support.rest_node import hash_of
from tests.support.rest_server import (
    CONFIRMED,
    Answer,
    Client,
    ObservedProtocol,
    RestServer,
    get,
    post_tx,
    rest_server,
)

FAST_S = 0.0005
WEBSOCKET = (
    "Connection: Upgrade", "Upgrade: websocket",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)  # fmt: skip


class Written:
    """A transport that notes what was counted when something was written to it."""

    def __init__(self, is_closing: bool = False) -> None:
        self._is_closing = is_closing
        self.answers: list[bytes] = []
        self.counted: list[int] = []

    def is_closing(self) -> bool:
        return self._is_closing

    def write(self, answer: bytes) -> None:
        self.answers.append(answer)
        self.counted.append(answers_shown())


def answers_shown() -> int:
    counts, good = metrics.PAGE.total_counts(metrics.HTTP), metrics.STATUSES.index(200)
    return sum(counts[metrics.HTTP.cell(route) + good] for route in metrics.ROUTES)


def sum_shown() -> float:
    return Scrape(metrics.HTTP.rendered(metrics.PAGE)).total("cairn_http_request_duration_seconds_sum")


@pytest.fixture(autouse=True)
def own_counts() -> None:
    metrics.PAGE.share(["test"])


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RestServer]:
    # However slow the machine is, the answers are fast enough to be gathered.
    monkeypatch.setattr(http_protocol, "FAST_S", inf)
    async with rest_server(replace(Settings(), workers=1)) as server:
        yield server


def put(
    gathered: GatheredAnswers, to: Written, answer: bytes, route: str = "GET /chain", took_s: float = FAST_S
) -> None:
    gathered.put(cast(asyncio.Transport, to), answer, metrics.HTTP.of_route(route), took_s)


async def test_answers_of_a_turn_are_written_at_its_end_in_order_after_all_are_counted() -> None:
    gathered, one, other = GatheredAnswers(), Written(), Written()
    put(gathered, one, b"1", took_s=3 * FAST_S)
    put(gathered, other, b"2", "GET /health", 4 * FAST_S)
    put(gathered, one, b"3", took_s=6 * FAST_S)
    put(gathered, other, b"4", "GET /blocks", 8 * FAST_S)
    assert not one.answers
    assert answers_shown() == 0
    await asyncio.sleep(0)
    assert (one.answers, other.answers) == ([b"1", b"3"], [b"2", b"4"])
    assert (one.counted, other.counted) == ([4, 4], [4, 4])
    page = Scrape(metrics.HTTP.rendered(metrics.PAGE))
    routes = ("GET /chain", 2, 9 * FAST_S), ("GET /health", 1, 4 * FAST_S), ("GET /blocks", 1, 8 * FAST_S)
    for route, number, seconds in routes:
        assert page.total("cairn_http_requests_total", route=route, code="200") == number
        sum_s = page.total("cairn_http_request_duration_seconds_sum", route=route)
        assert sum_s == pytest.approx(seconds)
    await asyncio.sleep(0)
    assert len(one.answers) == 2


async def test_the_most_do_not_wait_for_the_end_of_the_turn() -> None:
    gathered, written = GatheredAnswers(), Written()
    for number in range(MOST + 1):
        put(gathered, written, b"%d" % number)
    assert len(written.answers) == MOST
    await asyncio.sleep(0)
    assert written.answers == [b"%d" % number for number in range(MOST + 1)]


async def test_a_connection_that_is_gone_takes_no_answer_from_others() -> None:
    gathered, gone, there = GatheredAnswers(), Written(is_closing=True), Written()
    put(gathered, gone, b"1")
    put(gathered, there, b"2")
    await asyncio.sleep(0)
    assert (gone.answers, there.answers) == ([], [b"2"])


@pytest.mark.parametrize(("each_turn", "pays"), [(1, False), (PAYING - 1, False), (PAYING, True)])
async def test_it_ends_after_a_trial_with_few_answers_and_is_tried_again(each_turn: int, pays: bool) -> None:
    gathered = GatheredAnswers()
    for at in (0.0, TRIAL_EVERY_S):
        load(gathered, at)
        assert gathered.pays
        await turns(gathered, TRIAL_TURNS - 1, each_turn)
        assert gathered.pays
        await turns(gathered, 1, each_turn)
        assert gathered.pays == pays
        gathered.pays = False


async def test_once_it_has_paid_clients_that_are_slow_for_a_moment_do_not_end_it() -> None:
    gathered = GatheredAnswers()
    load(gathered)
    await turns(gathered, TRIAL_TURNS, PAYING)
    for slow_turns in (PAID_TURNS // PAYING, PAID_TURNS):
        assert gathered.pays
        await turns(gathered, slow_turns, 1)
        await turns(gathered, PAID_TURNS - slow_turns, PAYING + 2)
    assert not gathered.pays


@pytest.mark.parametrize(("took_s", "is_tried"), [(0.9 * BUSY_S, True), (1.1 * BUSY_S, False)])
def test_it_is_tried_under_load_but_not_all_the_time(took_s: float, is_tried: bool) -> None:
    gathered = GatheredAnswers()
    for at in (0.0, 2 * TRIAL_EVERY_S):
        load(gathered, at, took_s)
        assert gathered.pays == is_tried
        gathered.pays = False
        load(gathered, at + 2 * took_s, took_s)
        assert not gathered.pays


def load(gathered: GatheredAnswers, at: float = 0.0, took_s: float = 0.1) -> None:
    """So many reads that are answered one by one, twice: where the first ones began is not known."""
    for number in range(1, 2 * BUSY_GROUPS + 1):
        gathered.end_group(at + number * took_s / BUSY_GROUPS)


async def turns(gathered: GatheredAnswers, number: int, each_turn: int) -> None:
    gone = Written(is_closing=True)
    for _ in range(number):
        for _ in range(each_turn):
            put(gathered, gone, b"")
        await asyncio.sleep(0)


async def test_answers_that_are_expected_cost_and_prove_nothing() -> None:
    gathered, written = GatheredAnswers(), Written()
    gathered.expect(FEW)
    assert gathered.ends_due == 0
    for pays in (False, True):
        gathered.pays = pays
        for _ in range(TRIAL_TURNS):
            gathered.expect(FEW + 1)
            for _ in range(PAYING * (not pays)):
                put(gathered, written, b"")
            await asyncio.sleep(0)
            assert gathered.ends_due == 0
        assert gathered.pays == pays


async def test_what_is_expected_last_ends_the_turn() -> None:
    gathered, written, seen = GatheredAnswers(), Written(), []

    def put_between() -> None:
        seen.append((gathered.ends_due, list(written.answers)))
        put(gathered, written, b"2")

    gathered.expect(FEW + 1)
    put(gathered, written, b"1")
    asyncio.get_running_loop().call_soon(put_between)
    gathered.expect(FEW + 1)
    await asyncio.sleep(0)
    assert seen == [(1, [b"1"])]
    assert written.answers == [b"1", b"2"]


@pytest.mark.parametrize("sizes", [(1, 2, 60, 1), (GROUP,), (GROUP - 1, MOST)])
async def test_the_time_of_the_latest_fast_one_stands_for_a_group(sizes: Sequence[int]) -> None:
    gathered, sums_s = GatheredAnswers(), []
    for size in sizes:
        for number in range(size):
            put(gathered, Written(), b"", took_s=FAST_S * (number + 1) / size)
        await asyncio.sleep(0)
        sums_s.append(sum_shown())
    assert sums_s[:-1] == [0.0] * (len(sizes) - 1)
    assert sums_s[-1] == pytest.approx(sum(sizes) * FAST_S)


def test_answers_that_are_counted_alone_and_together_lose_neither_counts_nor_times() -> None:
    traffic, total = metrics.HTTP.of_route("GET /chain"), 0
    for number in (1, 63, 64, 100, 255, 256, 300):
        for _ in range(number):
            count_alone(traffic)
            total += 1
            assert answers_shown() == total
        traffic.answered(200, FAST_S)
        traffic.fast_s = FAST_S
        traffic.answered_together([FAST] * number)
        total += 1 + number
        assert answers_shown() == total
        timed = sum_shown() / FAST_S
        assert timed == pytest.approx(round(timed))
        assert total - GROUP < round(timed) <= total


@pytest.mark.parametrize("number", [1, 2, 30])
async def test_answers_that_are_counted_together_are_in_the_same_buckets_as_alone(number: int) -> None:
    bounds = metrics_page.SECONDS
    near = [time_s for bound in bounds for time_s in (nextafter(bound, 0), bound, nextafter(bound, inf))]
    gathered = GatheredAnswers()
    times_s = random.Random(1).sample([0.0, *near, 2 * bounds[-1]], 1 + len(near) + 1)
    for at in range(0, len(times_s), number):
        some = times_s[at : at + number]
        for time_s in some:
            put(gathered, Written(), b"", "GET /chain", time_s)
        gathered.write()
        for time_s in some:
            metrics.HTTP.of_route("GET /blocks").answered(200, time_s)
    page = Scrape(metrics.HTTP.rendered(metrics.PAGE))
    buckets = [each for each in page.samples if each.name.endswith("_bucket")]
    together, alone = (
        {each.labels["le"]: each.value for each in buckets if each.labels["route"] == route}
        for route in ("GET /chain", "GET /blocks")
    )
    assert together == alone
    assert len(set(together.values())) == len(bounds) + 1


def count_alone(traffic: metrics.RouteTraffic) -> None:
    """As a connection does it."""
    for low in traffic.left_of_group:
        traffic.bytes[traffic.at] = low
        return
    traffic.end_fast_group(FAST_S)


class TestConnections:
    """What happens in the same turn of the event loop as an answer that is gathered, on a real socket."""

    pytestmark = pytest.mark.uvloop

    async def test_what_is_refused_comes_behind_it(self, server: RestServer) -> None:
        async with server.client() as client:
            connection = await gathering(server)
            connection.data_received(b"\0\r\n\r\n")
            assert [(await client.answer()).status for _ in range(2)] == [200, 400]
            assert await client.rest() == b""

    async def test_what_the_application_answers_comes_behind_it(self, server: RestServer) -> None:
        async with server.client() as client:
            connection = await gathering(server)
            connection.data_received(get("/unknown") + get("/health"))
            assert [(await client.answer()).status for _ in range(3)] == [200, 404, 200]

    async def test_a_long_answer_is_written_at_once_behind_it(
        self, server: RestServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        block = b"x" * (MAX_GATHERED_BYTES + 1)
        monkeypatch.setattr(server.view, "find_block", lambda block_hash: block)
        async with server.client() as client:
            connection = await gathering(server)
            connection.data_received(get("/block/0x" + "ab" * 32))
            assert not is_gathered(server)
            first, second = await client.answer(), await client.answer()
            assert (first.status, second.body) == (200, block)

    @pytest.mark.parametrize(("version", "status"), [("13", 101), ("12", 400)])
    async def test_a_websocket_begins_or_is_refused_behind_it(
        self, server: RestServer, version: str, status: int
    ) -> None:
        async with server.client() as client:
            connection = await gathering(server)
            connection.data_received(get("/events", *WEBSOCKET, f"Sec-WebSocket-Version: {version}"))
            assert (await client.answer()).status == 200
            assert (await client.answer(has_body=False)).status == status

    async def test_a_probe_waits_for_nobody(self, server: RestServer) -> None:
        async with server.client() as client:
            await server.accepted(1)
            [connection] = server.connections
            server.gathered.pays = True
            connection.data_received(get("/health"))
            assert not is_gathered(server)
            assert (await client.answer()).status == 200

    @pytest.mark.parametrize("end", ["leave", "finish"])
    async def test_it_is_written_before_the_server_ends_the_connection(self, server: RestServer, end: str) -> None:
        async with server.client() as client:
            connection = await gathering(server)
            getattr(connection, end)()
            assert (await client.answer()).status == 200
            assert await client.rest() == b""

    async def test_it_is_written_to_a_client_that_sends_nothing_more(self, server: RestServer) -> None:
        async with server.client() as client:
            connection = await gathering(server)
            assert not connection.eof_received()
            connection.transport.close()
            assert (await client.answer()).status == 200


@pytest.mark.uvloop
async def test_a_connection_under_load_is_noticed(server: RestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered_answers, "BUSY_S", inf)
    async with server.client() as client:
        for _ in range(BUSY_GROUPS * GROUP):
            assert not server.gathered.pays
            assert (await client.ask(get(f"/tx/{hash_of(CONFIRMED)}"))).status == 200
        assert server.gathered.pays


class TestSubmissions:
    """That end in the same turn of the event loop."""

    pytestmark = pytest.mark.uvloop

    @pytest.mark.parametrize(("number", "batches"), [(FEW, 0), (FEW + 1, 1)])
    async def test_many_are_answered_together(self, server: RestServer, number: int, batches: int) -> None:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(server.client()) for _ in range(number)]
            answers = await all_admitted(server, clients)
            assert [each.json()["txHash"] for each in answers] == [hash_of(signed(at)) for at in range(number)]
            assert server.gathered.batch == batches
            assert answers_shown() == number

    async def test_one_that_took_long_and_one_that_is_refused_are_answered_alone(
        self, server: RestServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(server.client()) for _ in range(FEW + 1)]
            answers = await all_admitted(server, clients, NonceTooLow("nonce is used"))
            assert [each.status for each in answers] == [200] * FEW + [409]
            assert server.gathered.batch == 1
            page = Scrape(metrics.HTTP.rendered(metrics.PAGE))
            counted = [page.total("cairn_http_requests_total", route="POST /tx", code=code) for code in ("200", "409")]
            assert counted == [FEW, 1]
            monkeypatch.setattr(http_protocol, "SLOW_S", -1.0)
            answers = await all_admitted(server, clients)
            assert all("x-request-id" in each.headers for each in answers)
            assert server.gathered.batch == 1

    async def test_those_of_one_connection_are_written_together_anyway(self, server: RestServer) -> None:
        async with server.client() as client:
            client.write(b"".join(post_tx(signed(at)) for at in range(FEW + 1)))
            await server.submissions(FEW + 1)
            server.core.admit_all()
            server.gathered.expect(FEW + 1)
            answers = [await client.answer() for _ in range(FEW + 1)]
            assert server.gathered.batch == 0
            assert [each.json()["txHash"] for each in answers] == [hash_of(signed(at)) for at in range(FEW + 1)]

    async def test_a_connection_that_ends_is_answered_and_closed(self, server: RestServer) -> None:
        async with server.client() as client:
            client.write(post_tx(signed(0)))
            await server.submissions(1)
            [connection] = server.connections
            connection.finish()
            server.core.admit_all()
            server.gathered.expect(FEW + 1)
            assert (await client.answer()).status == 200
            assert server.gathered.batch == 1
            assert await client.rest() == b""


async def all_admitted(server: RestServer, clients: Sequence[Client], last: NodeError | None = None) -> list[Answer]:
    """Each client submits a transaction, and all are answered in the same turn; the last one is refused, if so told."""
    server.core.submitted.clear()
    for at, client in enumerate(clients):
        client.write(post_tx(signed(at)))
        await server.submissions(at + 1)
    if last is not None:
        server.core.submitted[-1][1].set_exception(last)
    server.core.admit_all()
    server.gathered.expect(len(clients))
    return [await client.answer() for client in clients]


async def gathering(server: RestServer) -> ObservedProtocol:
    """The only connection, with an answer that is not written yet."""
    await server.accepted(1)
    [connection] = server.connections
    server.gathered.pays = True
    connection.data_received(get(f"/tx/{hash_of(CONFIRMED)}"))
    assert is_gathered(server)
    return connection


def is_gathered(server: RestServer) -> bool:
    [connection] = server.connections
    return connection._batch == server.gathered.batch
