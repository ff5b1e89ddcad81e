"""The limits of a client: each call is counted, and answers of megabytes need a place."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from cairn.api.rpc.caller import (
    LARGE_AT_ONCE,
    MOST_OF_A_CLIENT,
    CallBatch,
    Caller,
    LargeAnswers,
    current_batch,
    current_caller,
)
from cairn.api.rpc.values import RpcError
from cairn.api.server.access import RateLimiter
from cairn.config import Settings
from cairn.time_shares import never
from tests.support.callers import UNLIMITED

pytestmark = pytest.mark.virtual_time

FAR, NEAR = "192.0.2.1", "127.0.0.1"


def limiter() -> RateLimiter:
    return RateLimiter(replace(Settings(), rate_limit_per_s=1.0, rate_limit_burst=3), lambda: 0.0)


def test_each_call_counts_but_the_first_of_a_request() -> None:
    shared = limiter()
    caller = Caller(FAR, shared, already_counted=1)
    assert [caller.may_call() for _ in range(5)] == [True, True, True, True, False]
    assert not shared.has_left(FAR)


def test_every_message_of_a_socket_counts() -> None:
    caller = Caller(FAR, limiter())
    assert [caller.may_call() for _ in range(4)] == [True, True, True, False]


def test_a_call_can_count_as_several() -> None:
    caller = Caller(FAR, limiter(), already_counted=1)
    assert caller.may_call()
    assert [caller.may_do(2), caller.may_do(2), caller.may_do(1), caller.may_call()] == [True, False, True, False]


def test_loopback_is_never_limited() -> None:
    caller = Caller(NEAR, limiter())
    assert all(caller.may_call() for _ in range(100))
    assert caller.may_do(1_000)


class Makers:
    """Clients that make large answers, a second each."""

    def __init__(self) -> None:
        self.answers = LargeAnswers(kept_by_batches=True)
        self.now: list[str] = []
        self.most = 0
        self.done: list[str] = []

    async def make(self, client: str, has_left: Callable[[], bool] = never) -> None:
        current_caller.set(Caller(client, UNLIMITED, has_left))
        async with self.answers.place():
            self.now.append(client)
            self.most = max(self.most, len(self.now))
            await asyncio.sleep(1)
            self.now.remove(client)
        self.done.append(client)

    def begin(self, client: str) -> "asyncio.Task[None]":
        return asyncio.create_task(self.make(client))


async def test_only_so_many_have_a_place_and_one_client_not_all_of_them() -> None:
    makers = Makers()
    greedy = [makers.begin("192.0.2.1") for _ in range(9)]
    await asyncio.sleep(0.5)
    assert len(makers.now) == MOST_OF_A_CLIENT < LARGE_AT_ONCE
    others = [makers.begin(f"192.0.2.{number}") for number in range(2, 5)]
    await asyncio.gather(*greedy, *others)
    assert (makers.most, makers.now) == (LARGE_AT_ONCE, [])


async def test_clients_take_turns_however_many_each_waits_for() -> None:
    makers = Makers()
    greedy = [makers.begin("192.0.2.1") for _ in range(20)]
    await asyncio.sleep(0.5)
    others = [makers.begin(f"192.0.2.{number}") for number in range(2, 6)]
    await asyncio.gather(*others)
    # Each waited for one place, and not for the twenty that had come before.
    assert makers.done.count("192.0.2.1") <= 6
    await asyncio.gather(*greedy)


async def test_a_client_that_has_left_gets_no_place() -> None:
    makers = Makers()
    for _ in range(3):
        with pytest.raises(RpcError, match="disconnected"):
            await makers.make("192.0.2.1", lambda: True)
    assert makers.most == 0


@pytest.mark.parametrize("waited_s", [0.5, 1.0])
async def test_a_cancelled_call_gives_its_place_back(waited_s: float) -> None:
    makers = Makers()
    tasks = [makers.begin("192.0.2.1") for _ in range(MOST_OF_A_CLIENT + 2)]
    await asyncio.sleep(waited_s)
    # One that waits, or has just been given its place.
    tasks[MOST_OF_A_CLIENT].cancel()
    await asyncio.wait(tasks)
    assert tasks[MOST_OF_A_CLIENT].cancelled()
    await asyncio.gather(*(makers.begin("192.0.2.1") for _ in range(5)))
    assert len(makers.done) == MOST_OF_A_CLIENT + 1 + 5


async def test_a_batch_keeps_its_place_until_it_ends_and_makes_one_after_the_other() -> None:
    makers = Makers()
    batch = CallBatch(most_bytes=10, waits_for_block=False)
    current_batch.set(batch)
    await asyncio.gather(*(makers.begin("192.0.2.1") for _ in range(3)))
    assert makers.most == 1
    current_batch.set(None)
    others = [makers.begin(f"192.0.2.{number}") for number in (1, 2, 3)]
    await asyncio.sleep(0.5)
    assert len(makers.now) == LARGE_AT_ONCE - 1
    batch.end()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(makers.now) == LARGE_AT_ONCE
    await asyncio.gather(*others)


async def test_a_batch_that_is_too_large_gets_no_further_large_answer() -> None:
    makers = Makers()
    batch = CallBatch(most_bytes=10, waits_for_block=False)
    current_batch.set(batch)
    await makers.make("192.0.2.1")
    batch.size_bytes = 11
    with pytest.raises(RpcError, match="response too large"):
        await makers.make("192.0.2.1")


async def test_a_batch_that_waits_for_a_block_gets_no_large_answer() -> None:
    makers = Makers()
    current_batch.set(CallBatch(most_bytes=10, waits_for_block=True))
    with pytest.raises(RpcError, match="waits for a block"):
        await makers.make("192.0.2.1")
    assert makers.most == 0
