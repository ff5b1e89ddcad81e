"""Work that several requests share, and pages of the mempool."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn import time_shares
from cairn.api import chain_reads
from cairn.api.chain_reads import CommonWork, list_pending
from cairn.domain.errors import BlockNotFound
from tests.support.core_fixtures import opened_core, signed


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
async def test_work_that_fails_fails_for_all_and_is_begun_anew_for_the_next(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    monkeypatch.setattr(time_shares, "SLICE_S", 0.0)

    def pruned() -> Iterator[bytes]:
        yield b"1"
        yield b"2"
        raise failure

    work = CommonWork()
    asked = [asyncio.create_task(work.do(b"key", pruned)) for _ in range(3)]
    for each in asked:
        # None gets what was there before as if it were all.
        with pytest.raises(type(failure), match="pruned"):
            await each
    assert await work.do(b"key", lambda: iter([b"all"])) == [b"all"]


async def test_work_that_nobody_waits_for_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_shares, "SLICE_S", 0.0)
    monkeypatch.setattr(chain_reads, "MOST_BEGUN", 3)
    work = CommonWork()
    for key in range(10):
        asked = asyncio.create_task(work.do(b"%d" % key, lambda: numbered([])))
        await asyncio.sleep(0)
        asked.cancel()
    assert len(work._begun) <= 3


@pytest.mark.parametrize("at_once", [1, 3, 4, 100])
async def test_a_page_of_the_mempool_in_parts_is_as_in_one_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(chain_reads, "ASKED_AT_ONCE", at_once)
    async with opened_core(tmp_path) as core:
        await asyncio.gather(*(core.submit(signed(nonce)) for nonce in range(10)))
        for limit in (1, 4, 9, 10, 50):
            assert await list_pending(core, limit, None, None) == await core.list_pending(limit, None, None)
