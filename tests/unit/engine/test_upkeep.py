"""Pruning on a node that makes its blocks alone: in a thread, at the start, after blocks, and when it fails."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cairn.core.service import Core
from cairn.domain.errors import Corrupt, StoreUnavailable
from cairn.engine import upkeep
from cairn.store.chain import ChainStore
from tests.support.audit import audit
from tests.support.core_fixtures import ACCOUNTS, open_core, opened_core, produce, settings, signed
from tests.support.pace import PATIENCE_S

KEEP_TWO = settings(retain_blocks=2)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


async def pay(core: Core, blocks: int) -> None:
    for _ in range(blocks):
        await core.submit(signed(core._chain.account(ACCOUNTS[0]).nonce))
        produce(core)


async def test_blocks_beyond_those_to_retain_are_removed_as_others_come(tmp_path: Path) -> None:
    async with opened_core(tmp_path, KEEP_TWO) as core:
        chain = core._chain
        await pay(core, 5)
        await until(lambda: chain.base == 4)
        assert [height for height in range(6) if chain.find_header(height)] == [4, 5]
        await pay(core, 1)
        await until(lambda: chain.base == 5)
    with_all_removed = open_core(tmp_path)
    assert audit(with_all_removed._chain) == 5
    with_all_removed.close()


async def test_a_new_setting_takes_effect_at_the_start_without_a_new_block(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        await pay(core, 5)
        assert core._chain.base == 0
    async with opened_core(tmp_path, KEEP_TWO) as core:
        await until(lambda: core._chain.base == 4)


async def test_more_to_retain_than_there_is_removes_nothing(tmp_path: Path) -> None:
    async with opened_core(tmp_path, settings(retain_blocks=6)) as core:
        await pay(core, 5)
    core = open_core(tmp_path)
    assert (core._chain.base, audit(core._chain)) == (0, 0)
    core.close()


async def test_a_removal_that_was_cut_off_is_completed_at_the_start(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        await pay(core, 5)
        core._chain._raise_base(4)
    async with opened_core(tmp_path, KEEP_TWO) as core:
        await until(lambda: core._chain._database.get("headers", (3).to_bytes(8, "big")) is None)


@pytest.mark.parametrize("failure", [Corrupt("a block is damaged"), StoreUnavailable("the disk is gone")])
async def test_a_disk_that_fails_the_removal_ends_the_core_though_it_is_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(ChainStore, "prune", fail)
    async with opened_core(tmp_path, KEEP_TWO) as core:
        with pytest.raises(type(failure), match=str(failure)):
            await asyncio.wait_for(asyncio.shield(core.failed), PATIENCE_S)


async def test_an_unexpected_failure_of_pruning_is_retried_and_the_chain_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "RETRY_S", 0.05)
    monkeypatch.setattr(upkeep, "LOOK_S", 0.01)
    prune, tried = ChainStore.prune, 0

    def fail_first(chain: ChainStore, base: int, pause: Callable[[], None]) -> None:
        nonlocal tried
        tried += 1
        if tried < 3:
            raise ZeroDivisionError("a defect")
        prune(chain, base, pause)

    monkeypatch.setattr(ChainStore, "prune", fail_first)
    async with opened_core(tmp_path, KEEP_TWO) as core:
        await pay(core, 5)
        await until(lambda: core._chain.base == 4)
        assert not core.failed.done()
    assert tried >= 3


def test_a_stop_does_not_wait_for_the_end_of_a_long_retry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = threading.Event()

    def fail(*_: object) -> None:
        tried.set()
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(ChainStore, "prune", fail)
    monkeypatch.setattr(upkeep, "RETRY_S", 1e6)

    async def scenario() -> None:
        async with opened_core(tmp_path, KEEP_TWO):
            await asyncio.to_thread(tried.wait, PATIENCE_S)

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))


async def test_workers_are_told_again_when_files_were_replaced(tmp_path: Path) -> None:
    async with opened_core(tmp_path, KEEP_TWO) as core:
        told: list[int] = []
        await pay(core, 3)
        core.feed.subscribe(told.append)
        core._keep_house()
        assert told == []
        core._chain._compaction.merges += 1
        core._keep_house()
        core._keep_house()
        assert told == [3]


async def test_workers_are_told_of_replaced_files_before_a_full_disk_ends_the_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(chain: ChainStore) -> None:
        raise StoreUnavailable("the disk is full")

    async with opened_core(tmp_path, KEEP_TWO) as core:
        told: list[int] = []
        await pay(core, 3)
        core.feed.subscribe(told.append)
        core._chain._compaction.merges += 1
        monkeypatch.setattr(ChainStore, "check_room", fail)
        core._keep_house()
        assert core.failed.done()
        assert told == [3]
        monkeypatch.undo()


async def test_a_dev_chain_that_is_pruned_goes_back_to_a_snapshot_with_all_that_it_had(tmp_path: Path) -> None:
    core = open_core(tmp_path, KEEP_TWO)
    core.start()
    await pay(core, 3)
    await until(lambda: core._chain.base == 2)
    snapshot = await core.snapshot()
    await pay(core, 4)
    await until(lambda: core._chain.base == 6)
    assert await core.revert(snapshot)
    with pytest.raises(StoreUnavailable):
        await core.failed
    await core.stop()
    async with opened_core(tmp_path, KEEP_TWO) as again:
        chain = again._chain
        assert (chain.base, chain.visible) == (2, 3)
        assert audit(chain) == 2
        await pay(again, 1)
        await until(lambda: chain.base == 3)
