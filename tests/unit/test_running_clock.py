import asyncio

import pytest

from cairn.running_clock import PARTS, Countdown, RunningClock
from tests.support.virtual_time import virtual_loop

pytestmark = pytest.mark.virtual_time


def start(limit_s: float) -> tuple[Countdown, list[float]]:
    """A countdown, and when it ran out."""
    ends: list[float] = []
    return Countdown(virtual_loop(), limit_s, lambda: ends.append(virtual_loop().time())), ends


async def test_a_countdown_expires_once_after_its_limit() -> None:
    _, ends = start(8)
    await asyncio.sleep(7.9)
    assert ends == []
    await asyncio.sleep(100)
    assert ends == [8]


async def test_a_cancelled_countdown_never_expires() -> None:
    countdown, ends = start(8)
    await asyncio.sleep(4.5)
    countdown.cancel()
    await asyncio.sleep(100)
    assert ends == []


async def test_a_countdown_does_not_count_a_pause_of_the_process() -> None:
    for before_s in (0.5, 4.5, 7.9):
        began = virtual_loop().time()
        _, ends = start(8)
        await asyncio.sleep(before_s)
        virtual_loop().spend(1_000)
        await asyncio.sleep(0.4)
        assert ends == []
        await asyncio.sleep(100)
        assert 1_008 <= ends[0] - began <= 1_010


async def test_a_countdown_expires_though_every_look_is_late() -> None:
    _, ends = start(8)
    late_s = 3
    for _ in range(4 * PARTS):
        virtual_loop().spend(late_s)
        await asyncio.sleep(0)
    assert len(ends) == 1


async def test_a_late_look_counts_as_half_an_interval() -> None:
    clock = RunningClock(100.0, interval_s=2.0)
    assert clock.look(104.0) == 4.0
    assert clock.look(3_704.0) == clock.now == 5.0
    assert clock.look(3_705.0) == 6.0
