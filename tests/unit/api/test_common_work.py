"""Work for several requests at once is done once, and nobody waits for somebody else's turn."""

import asyncio
from collections.abc import Iterator

import pytest

from cairn import time_shares
from cairn.api import common_work
from cairn.api.common_work import CommonWork
from cairn.domain.errors import BlockNotFound


def numbered(begun: list[int]) -> Iterator[bytes]:
    begun.append(1)
    for number in range(20):
        yield b"%d" % number


def test_all_who_ask_meanwhile_get_the_same_work_and_it_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_shares, "SLICE_S", 0.0)
    begun: list[int] = []

    async def main() -> list[list[bytes]]:
        work = CommonWork()
        asked = [asyncio.create_task(work.do(b"key", lambda: numbered(begun))) for _ in range(5)]
        await asyncio.sleep(0)
        # One that leaves takes nothing along.
        asked[0].cancel()
        return await asyncio.gather(*asked[1:])

    assert asyncio.run(main()) == [[b"%d" % number for number in range(20)]] * 4
    assert begun == [1]


@pytest.mark.parametrize("failure", [BlockNotFound("pruned"), RuntimeError("pruned")])
def test_work_that_fails_fails_for_all_and_is_begun_anew_for_the_next(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    monkeypatch.setattr(time_shares, "SLICE_S", 0.0)

    def pruned() -> Iterator[bytes]:
        yield b"1"
        yield b"2"
        raise failure

    async def main() -> None:
        work = CommonWork()
        asked = [asyncio.create_task(work.do(b"key", pruned)) for _ in range(3)]
        for each in asked:
            # None gets what was there before as if it were all.
            with pytest.raises(type(failure), match="pruned"):
                await each
        assert await work.do(b"key", lambda: iter([b"all"])) == [b"all"]

    asyncio.run(main())


def test_work_that_nobody_waits_for_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_shares, "SLICE_S", 0.0)
    monkeypatch.setattr(common_work, "MOST_BEGUN", 3)

    async def main() -> None:
        work = CommonWork()
        for key in range(10):
            asked = asyncio.create_task(work.do(b"%d" % key, lambda: numbered([])))
            await asyncio.sleep(0)
            asked.cancel()
        assert len(work._begun) <= 3

    asyncio.run(main())
