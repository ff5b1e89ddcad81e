"""Few large answers at a time, and none for a client that has left."""

import asyncio

import pytest

from cairn.api.rpc.caller import Caller, current_caller
from cairn.api.rpc.errors import RpcError
from cairn.api.rpc.large_answers import LARGE_AT_ONCE, LargeAnswers
from tests.support.callers import UNLIMITED, local_caller
from tests.support.virtual_time import run_virtual


def test_only_so_many_have_a_place() -> None:
    async def run() -> None:
        answers, most, now = LargeAnswers(), 0, 0
        current_caller.set(local_caller())

        async def make() -> None:
            nonlocal most, now
            async with answers.place():
                now += 1
                most = max(most, now)
                await asyncio.sleep(1)
                now -= 1

        await asyncio.gather(*(make() for _ in range(7)))
        assert (most, now) == (LARGE_AT_ONCE, 0)

    run_virtual(run())


def test_who_has_left_keeps_nobody_waiting() -> None:
    async def gone() -> bool:
        return True

    async def run() -> None:
        answers = LargeAnswers()
        current_caller.set(Caller("", UNLIMITED, gone))
        for _ in range(3):
            with pytest.raises(RpcError, match="disconnected"):
                async with answers.place():
                    pytest.fail("it was made for nobody")

    run_virtual(run())
