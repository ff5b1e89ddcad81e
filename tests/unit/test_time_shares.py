"""Shares of the loop's time, by a clock that only the work itself moves."""

import asyncio
import gc
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from cairn import time_shares
from cairn.time_shares import ROUND_S, SLICE_S, QueueName, TimeShares, give_way, in_slices, one_slice
from tests.support.ticking_clock import TickingClock


class Clients:
    """Clients whose work takes as long as they say."""

    def __init__(self) -> None:
        self.clock = TickingClock()
        self.shares = TimeShares(self.clock)
        self.used_s: defaultdict[str, float] = defaultdict(float)
        self.finished: list[str] = []

    async def work(self, name: str, steps: int, step_s: float = SLICE_S) -> None:
        for _ in range(steps):
            self.spend(name, step_s)
            await give_way()
        self.finished.append(name)

    def spend(self, name: str, time_s: float) -> None:
        self.clock.now += time_s
        self.used_s[name] += time_s

    def begin(self, name: str, steps: int, step_s: float = SLICE_S, queue: QueueName = "reads") -> "asyncio.Task[None]":
        return asyncio.create_task(self.shares.run(name, self.work(name, steps, step_s), queue))


@pytest.fixture
async def clients() -> Clients:
    return Clients()


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


async def test_a_client_with_a_hundred_requests_gets_no_more_time_than_one_with_a_single_one(clients: Clients) -> None:
    greedy = [clients.begin("greedy", 50) for _ in range(100)]
    await turns(20)
    clients.used_s.clear()
    await clients.begin("modest", 50)
    assert clients.used_s["modest"] == pytest.approx(50 * SLICE_S)
    assert clients.used_s["greedy"] <= 50 * SLICE_S + 3 * ROUND_S
    for each in greedy:
        each.cancel()
    await asyncio.wait(greedy)


async def test_time_is_shared_and_not_the_number_of_steps(clients: Clients) -> None:
    heavy = [clients.begin("heavy", 100, 5 * SLICE_S) for _ in range(5)]
    light = [clients.begin("light", 1_000, SLICE_S / 10) for _ in range(5)]
    await until(lambda: sum(clients.used_s.values()) > 0.5)
    assert clients.used_s["light"] == pytest.approx(clients.used_s["heavy"], rel=0.1)
    for each in (*heavy, *light):
        each.cancel()
    await asyncio.wait((*heavy, *light))


@pytest.mark.parametrize("begins_at_once", [False, True])
async def test_a_client_is_not_charged_for_a_pause_of_the_machine_in_its_step(
    clients: Clients, begins_at_once: bool
) -> None:
    def begin_busy() -> list[asyncio.Task[None]]:
        return [clients.begin("busy", 10_000) for _ in range(10)]

    async def pause() -> float:
        clients.clock.now += 2.0
        busy = begin_busy() if begins_at_once else []
        before = clients.used_s["busy"]
        await give_way()
        for each in busy:
            each.cancel()
        return clients.used_s["busy"] - before

    busy = [] if begins_at_once else begin_busy()
    await until(lambda: begins_at_once or clients.used_s["busy"] > 0.1)
    assert await clients.shares.run("paused", pause()) <= 10 * SLICE_S
    for each in busy:
        each.cancel()


async def test_whoever_comes_new_waits_for_one_turn_only_and_owes_nothing(clients: Clients) -> None:
    clients.begin("old", 10_000)
    await until(lambda: clients.used_s["old"] > 1)
    before = clients.used_s["old"]
    await clients.begin("new", 1)
    # Its task begins, does its step and ends, with a round before each.
    assert clients.used_s["old"] - before <= 4 * ROUND_S


async def test_nobody_saves_up_time_by_asking_for_nothing(clients: Clients) -> None:
    await clients.begin("rested", 1)
    busy = clients.begin("busy", 1_000)
    await until(lambda: clients.used_s["busy"] > 0.5)
    before = dict(clients.used_s)
    await clients.begin("rested", 100)
    assert clients.used_s["busy"] - before["busy"] >= 0.9 * 100 * SLICE_S
    await busy


async def test_what_nobody_else_wants_goes_to_whoever_wants_it(clients: Clients) -> None:
    began = clients.clock.now
    await asyncio.gather(*(clients.begin("alone", 100) for _ in range(5)))
    # The clock moved by the work alone: nothing waited for somebody who was not there.
    assert clients.clock.now - began == pytest.approx(500 * SLICE_S)


async def test_nobody_starves_among_a_thousand_clients(clients: Clients) -> None:
    tasks = [clients.begin(f"client {number}", 5) for number in range(1_000)]
    await asyncio.gather(*tasks)
    assert all(used_s == pytest.approx(5 * SLICE_S) for used_s in clients.used_s.values())
    assert len(clients.finished) == 1_000


async def test_the_loop_is_given_back_after_each_round(clients: Clients) -> None:
    tasks = [clients.begin(f"client {number}", 50) for number in range(100)]
    longest, before = 0.0, clients.clock.now
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        longest, before = max(longest, clients.clock.now - before), clients.clock.now
    # What may begin at once, then a round.
    assert longest <= 2 * (ROUND_S + SLICE_S)


async def test_submissions_do_not_wait_for_reads(clients: Clients) -> None:
    reads = [clients.begin(f"reader {number}", 20) for number in range(200)]
    await turns(5)
    began = clients.clock.now
    await clients.begin("payer", 1, queue="submissions")
    # Its task begins, does its step and ends, with a round of reads before each.
    assert clients.clock.now - began <= 3 * ROUND_S + SLICE_S
    await asyncio.gather(*reads)


async def test_work_that_begins_at_once_is_charged_and_bounded(clients: Clients) -> None:
    served = 0
    while (began := clients.shares.begin("greedy", "submissions")) is not None:
        clients.spend("greedy", SLICE_S / 4)
        clients.shares.end("greedy", "submissions", began)
        served += 1
        assert served < 1_000
    assert ROUND_S <= served * SLICE_S / 4 <= 4 * ROUND_S
    # Not by the passing of time: others must have had the loop.
    clients.clock.now += 2 * ROUND_S
    assert clients.shares.begin("greedy", "submissions") is None
    await turns(1)
    assert clients.shares.begin("greedy", "submissions") is not None


async def test_a_step_that_lost_the_processor_lets_the_next_begin_at_once_after_a_look_at_the_sockets(
    clients: Clients,
) -> None:
    began = clients.shares.begin("one", "reads")
    assert began is not None
    clients.spend("one", 1.0)
    clients.shares.end("one", "reads", began)
    assert clients.shares.begin("one", "reads") is None
    await turns(1)
    assert clients.shares.begin("one", "reads") is not None


async def test_between_two_looks_at_the_sockets_a_greedy_client_gets_a_round_of_each_kind_at_most(
    clients: Clients,
) -> None:
    step_s, looked_at = SLICE_S, [clients.clock.now]

    async def ask(queue: QueueName) -> None:
        while len(looked_at) < 50:
            await clients.shares.run("greedy", answer(), queue)
            # Its next request comes with a look at the sockets.
            await turns(1)

    async def answer() -> None:
        clients.spend("greedy", step_s)

    queues: tuple[QueueName, ...] = ("submissions", "reads")
    asking = [asyncio.create_task(ask(queue)) for queue in queues for _ in range(100)]
    while len(looked_at) < 50:
        await turns(1)
        looked_at.append(clients.clock.now)
    await asyncio.wait(asking)
    longest_s = max(after - before for before, after in pairwise(looked_at))
    assert ROUND_S < longest_s <= 2 * (ROUND_S + step_s)


async def test_nothing_begins_at_once_while_another_client_waits(clients: Clients) -> None:
    order: list[str] = []
    clients.shares.call("first", lambda: order.append("first"))
    assert clients.shares.begin("second", "reads") is None
    assert clients.shares.begin("first", "reads") is not None
    assert clients.shares.begin("second", "submissions") is not None
    await turns(2)
    assert order == ["first"]


async def test_the_requests_of_one_client_keep_their_order(clients: Clients) -> None:
    order: list[int] = []

    async def submit(number: int) -> None:
        order.append(number)
        clients.spend("payer", SLICE_S)

    await asyncio.gather(*(clients.shares.run("payer", submit(number), "submissions") for number in range(50)))
    assert order == list(range(50))


async def test_work_for_a_client_that_has_gone_is_not_done(clients: Clients) -> None:
    is_gone = False
    busy = clients.begin("other", 100)
    task = asyncio.create_task(
        clients.shares.run("gone", clients.work("gone", 100), "reads", lambda: is_gone),
    )
    await until(lambda: clients.used_s["gone"] > 10 * SLICE_S)
    is_gone, used_s = True, clients.used_s["gone"]
    await asyncio.wait([task])
    assert task.cancelled()
    assert clients.used_s["gone"] == used_s
    await busy
    assert clients.shares.waiting == 0


async def test_work_that_ends_with_an_error_is_freed_without_the_garbage_collector(clients: Clients) -> None:
    class Body:
        pass

    left = []

    async def hold_and_wait() -> None:
        body = Body()
        left.append(weakref.ref(body))
        while True:
            await give_way()

    gc.disable()
    try:
        is_gone = False
        gone = asyncio.create_task(clients.shares.run("gone", hold_and_wait(), "reads", lambda: is_gone))
        await turns(3)
        is_gone = True
        await asyncio.wait([gone])
        assert gone.cancelled()
        del gone
        assert [each() for each in left] == [None], "the exception and the frame keep each other"
    finally:
        gc.enable()


async def test_an_error_that_work_awaits_is_freed_without_the_garbage_collector(clients: Clients) -> None:
    answers: list[asyncio.Future[None]] = [asyncio.Future()]

    async def ask() -> None:
        await answers.pop()

    answer = answers[0]
    left = weakref.ref(answer)
    gc.disable()
    try:
        asking = asyncio.create_task(clients.shares.run("asks", ask()))
        await until(lambda: not answers)
        answer.set_exception(ValueError("refused"))
        del answer
        await asyncio.wait([asking])
        assert str(asking.exception()) == "refused"
        del asking
        assert left() is None, "the answer, its exception and the frame keep each other"
    finally:
        gc.enable()


async def test_a_cancelled_task_cleans_up_in_its_turn(clients: Clients) -> None:
    cleaned: list[str] = []

    async def work() -> None:
        try:
            await clients.work("cancelled", 100)
        finally:
            cleaned.append("cancelled")

    busy = [clients.begin("other", 100) for _ in range(3)]
    task = asyncio.create_task(clients.shares.run("cancelled", work()))
    await turns(5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == ["cancelled"]
    await asyncio.gather(*busy)
    assert clients.shares.waiting == 0


async def test_a_task_that_waits_for_something_else_can_be_cancelled_and_timed_out(clients: Clients) -> None:
    async def wait() -> str:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            await give_way()
            return "timed out"
        raise AssertionError

    assert await clients.shares.run("waiting", wait()) == "timed out"
    task = asyncio.create_task(clients.shares.run("waiting", asyncio.Event().wait()))
    await turns(3)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_results_and_errors_are_those_of_the_work(clients: Clients) -> None:
    async def fail() -> None:
        await give_way()
        raise ValueError("no")

    async def answer() -> int:
        await asyncio.sleep(0)
        return 42

    assert await clients.shares.run("client", answer()) == 42
    with pytest.raises(ValueError, match="no"):
        await clients.shares.run("client", fail())


async def test_a_job_that_fails_stops_no_other(clients: Clients) -> None:
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    done: list[str] = []

    def fail() -> None:
        raise ValueError("no")

    clients.shares.call("a", fail)
    clients.shares.call("a", lambda: done.append("a"))
    clients.shares.call("b", lambda: done.append("b"))
    await turns(3)
    assert sorted(done) == ["a", "b"]
    assert [str(failure["exception"]) for failure in failures] == ["no"]


async def test_only_so_many_clients_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_shares, "MAX_ACCOUNTS", 50)
    clients = Clients()
    for number in range(500):
        await clients.begin(f"client {number}", 2)
        assert clients.shares.known_clients <= 50
    assert clients.shares.waiting == 0


def test_the_work_on_each_item_counts_and_ends_the_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = TickingClock()
    monkeypatch.setattr("cairn.time_shares.time.perf_counter", clock)

    async def main() -> list[object]:
        seen: list[object] = []

        async def other() -> None:
            for _ in range(3):
                seen.append("other")
                await asyncio.sleep(0)

        waiting = asyncio.create_task(other())
        async for item in in_slices(range(6)):
            seen.append(item)
            clock.now += 0.6 * SLICE_S
        await waiting
        return seen

    assert asyncio.run(main()) == [0, 1, "other", 2, 3, "other", 4, 5, "other"]


@pytest.mark.parametrize(("first_s", "each_s", "taken"), [(0, 0.4, 4), (9, 0.4, 4), (9, 9, 2), (0, 0, 6)])
def test_a_slice_begins_with_the_first_item_however_long_that_took_and_has_one_more_at_least(
    monkeypatch: pytest.MonkeyPatch, first_s: float, each_s: float, taken: int
) -> None:
    clock = TickingClock()
    monkeypatch.setattr("cairn.time_shares.time.perf_counter", clock)

    def items() -> Iterator[int]:
        for number in range(6):
            clock.now += SLICE_S * (each_s if number else first_s)
            yield number

    assert list(one_slice(items())) == list(range(taken))


async def test_work_of_another_queue_within_a_turn_is_charged_there_alone(clients: Clients) -> None:
    shares, clock = clients.shares, clients.clock
    began = shares.begin_turn("one", "intake")
    assert began is not None
    clock.now += 0.0001
    read_began = shares.begin("one", "reads")
    assert read_began is not None
    clock.now += 0.0002
    assert shares.end("one", "reads", read_began) == pytest.approx(0.0002)
    shares.end_turn("one", "intake", began)
    assert shares._queues["intake"]._used_s["one"] == pytest.approx(0.0001)
    assert shares._queues["reads"]._used_s["one"] == pytest.approx(0.0002)


async def test_a_turn_within_a_turn_of_its_queue_does_not_end_it_and_is_charged_for_once(clients: Clients) -> None:
    shares, clock = clients.shares, clients.clock
    outer = shares.begin_turn("one", "intake")
    inner = shares.begin_turn("one", "intake")
    assert outer is not None
    assert inner is not None
    clock.now += 2 * time_shares.INTAKE_ROUND_S
    shares.end_turn("one", "intake", inner)
    assert shares.is_slice_over
    shares.end_turn("one", "intake", outer)
    assert shares._turn is None
    assert shares._queues["intake"]._used_s["one"] == pytest.approx(2 * time_shares.INTAKE_ROUND_S)


async def test_once_a_round_of_parsing_is_used_up_all_wait_for_the_next(clients: Clients) -> None:
    shares, served = clients.shares, list[str]()
    began = shares.begin_turn("one", "intake")
    assert began is not None
    clients.clock.now += 2 * time_shares.INTAKE_ROUND_S
    assert shares.is_slice_over
    shares.end_turn("one", "intake", began)
    assert shares.begin_turn("one", "intake") is None
    assert shares.begin_turn("two", "intake") is None
    for name in ("one", "two"):
        shares.call(name, lambda name=name: served.append(name), "intake")  # type: ignore[misc]
    await until(lambda: len(served) == 2)
    assert served == ["two", "one"], "who has used less is first"
