"""The worker's view of the chain: in step with the core's notices, on a real store."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from cairn.api.chain_view import ChainView
from cairn.core.gateway import DevCalls
from cairn.core.service import Core
from cairn.domain.errors import BlockNotFound, Corrupt, Fatal, Reverting, ShuttingDown, Starting, StoreUnavailable
from cairn.domain.merkle import grow_tree, tree_nodes
from cairn.domain.transactions import decode_record
from cairn.domain.types import DropReason, Phase, TxHash
from cairn.store.follower import FollowerStore
from cairn.store.history import Search
from cairn.store.keys import split_hashes
from tests.support.core_fixtures import ACCOUNTS, make_block, opened_core, signed

pytestmark = pytest.mark.virtual_time


class Recorder:
    def __init__(self) -> None:
        self.told: list[object] = []

    def on_commit(self, height: int) -> None:
        self.told.append(height)

    def on_dropped(self, tx_hash: TxHash, reason: DropReason) -> None:
        self.told.append((tx_hash, reason))

    def on_phase(self, phase: Phase, reason: str) -> None:
        self.told.append(phase)

    def on_reverted(self, height: int) -> None:
        self.told.append(("reverted", height))


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    async with opened_core(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
def view(tmp_path: Path) -> Iterator[ChainView]:
    (tmp_path / "scratch").mkdir()
    view = ChainView(tmp_path / "scratch")
    yield view
    view.close()


def connect(core: Core, view: ChainView) -> None:
    view.on_info(core.info())
    view.on_commit(core.head)
    view.on_phase("ready", "")


def test_before_the_first_notice_nothing_can_be_read() -> None:
    view = ChainView(Path("unused"), chain_id=7)
    assert (view.chain_id, view.height) == (7, -1)
    with pytest.raises(Starting):
        view.get_info()
    with pytest.raises(Starting):
        view.find_confirmed(TxHash(bytes(32)))


def test_why_unavailable_follows_the_phase() -> None:
    view = ChainView(Path("unused"))
    for phase, error in (("starting", Starting), ("unavailable", StoreUnavailable), ("draining", ShuttingDown)):
        view.on_phase(phase, "told")  # type: ignore[arg-type]  # a Literal, spelled out above
        assert isinstance(view.why_unavailable(), error)
        assert view.why_unavailable().detail == "told"


async def test_reads_follow_the_notices(core: Core, view: ChainView) -> None:
    connect(core, view)
    assert (view.chain_id, view.height) == (1337, 0)
    tx = signed(0)
    await core.submit(tx)
    make_block(core)
    assert view.find_confirmed(tx.hash) is None, "not before the notice"
    view.on_commit(1)
    assert view.find_location(tx.hash) == (1, 0)
    found = view.find_confirmed(tx.hash)
    assert found is not None
    assert found == view.find_confirmed(tx.hash) == view.confirmed_at(1, 0)
    assert list(split_hashes(view.tx_hashes(1))) == [tx.hash]
    assert view.find_height(view.block_hash(1)) == 1
    assert view.account(ACCOUNTS[0]).nonce == 1
    assert [step.location for step in view.search_history(Search(ACCOUNTS[0]), None)] == [(1, 0)]


async def test_listeners_hear_after_the_view(core: Core, view: ChainView) -> None:
    recorder = Recorder()
    view.subscribe(recorder)
    connect(core, view)
    await core.submit(signed(0))
    make_block(core)
    view.on_commit(1)
    view.on_dropped(signed(1).hash, "expired")
    assert recorder.told == [0, "ready", 1, (signed(1).hash, "expired")]


async def test_reach_waits_for_a_height_and_gives_up_in_time(core: Core, view: ChainView) -> None:
    connect(core, view)
    await view.reach(0)
    reaching = asyncio.ensure_future(view.reach(1))
    await core.submit(signed(0))
    make_block(core)
    await asyncio.sleep(0)
    assert not reaching.done()
    view.on_commit(1)
    await reaching
    with pytest.raises(StoreUnavailable, match="block 9"):
        await view.reach(9, timeout_s=0.01)


@pytest.mark.parametrize("phase", ["ready", "unavailable", "draining"])
async def test_the_newest_block_on_disk_is_shown_before_its_notice(core: Core, view: ChainView, phase: Phase) -> None:
    recorder = Recorder()
    connect(core, view)
    view.on_phase(phase, "told")
    view.subscribe(recorder)
    assert await view.reach_head() == 0
    make_block(core)
    assert await view.reach_head() == view.height == 1
    view.on_commit(1)
    assert recorder.told == [1]


async def test_the_head_is_waited_for_while_the_files_are_behind(
    core: Core, view: ChainView, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(core, view)
    make_block(core)
    with monkeypatch.context() as patched:
        patched.setattr(FollowerStore, "catch_up", lambda self: 0)
        reaching = asyncio.ensure_future(view.reach_head())
        await asyncio.sleep(0)
        assert not reaching.done()
    assert await reaching == 1


def empty_watermark(directory: Path) -> None:
    [watermark] = directory.rglob("watermark")
    os.truncate(watermark, 0)


async def test_damage_is_for_the_next_core_to_judge_while_there_is_none(
    core: Core, view: ChainView, tmp_path: Path
) -> None:
    connect(core, view)
    empty_watermark(tmp_path)
    with pytest.raises(Corrupt):
        await view.reach_head()
    view.on_phase("unavailable", "told")
    assert await view.reach_head() == 0


async def test_the_head_is_of_no_chain_that_is_not_open(
    core: Core, view: ChainView, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(directory: Path, scratch_dir: Path) -> FollowerStore:
        raise StoreUnavailable("not there yet")

    with pytest.raises(Starting):
        await view.reach_head()
    with monkeypatch.context() as patched:
        patched.setattr(FollowerStore, "open", away)
        connect(core, view)
        reaching = asyncio.ensure_future(view.reach_head())
        await asyncio.sleep(0)
        assert not reaching.done(), "the core is ready, so the store is about to be open"
    assert await reaching == 0


async def test_a_notice_that_comes_before_the_files_is_tried_again(core: Core, view: ChainView) -> None:
    connect(core, view)
    view.on_commit(1)
    assert view.height == 0
    await core.submit(signed(0))
    make_block(core)
    await view.reach(1)
    assert view.height == 1


async def test_a_store_that_cannot_be_opened_yet_is_tried_again(
    core: Core, view: ChainView, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(directory: Path, scratch_dir: Path) -> FollowerStore:
        raise StoreUnavailable("not there yet")

    monkeypatch.setattr(FollowerStore, "open", away)
    connect(core, view)
    view.on_commit(0)
    assert view.height == -1
    with pytest.raises(Starting):
        view.find_location(signed(0).hash)
    monkeypatch.undo()
    await view.reach(0)


async def test_a_damaged_store_is_told_to_who_runs_the_worker(
    core: Core, view: ChainView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[Fatal] = []
    damaged = ChainView(tmp_path / "scratch", on_fatal=failures.append)

    def broken(directory: Path, scratch_dir: Path) -> FollowerStore:
        raise Corrupt("block 0: checksum")

    monkeypatch.setattr(FollowerStore, "open", broken)
    connect(core, damaged)
    assert {failure.detail for failure in failures} == {"block 0: checksum"}
    damaged.close()


async def test_deleted_files_are_let_go_while_there_is_no_core_but_not_for_another_directory(
    core: Core, view: ChainView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(core, view)
    looks, catch_up = list[int](), FollowerStore.catch_up

    def look(store: FollowerStore) -> int:
        looks.append(catch_up(store))
        return looks[-1]

    monkeypatch.setattr(FollowerStore, "catch_up", look)
    view.on_phase("unavailable", "the disk is full")
    assert looks == [0]
    data, away = tmp_path / "data", tmp_path / "away"
    data.rename(away)
    view.on_phase("unavailable", "the data directory is gone")
    shutil.copytree(away, data)
    view.on_phase("unavailable", "an older chain is there")
    assert looks == [0]
    shutil.rmtree(data)
    away.rename(data)


async def test_the_core_coming_back_opens_the_store_anew(core: Core, view: ChainView) -> None:
    connect(core, view)
    tx = signed(0)
    await core.submit(tx)
    make_block(core)
    view.on_commit(1)
    view.on_phase("unavailable", "the core process is gone")
    assert view.find_confirmed(tx.hash) is not None, "what is confirmed can still be read"
    connect(core, view)
    assert view.height == 1
    assert view.find_location(tx.hash) == (1, 0)


async def test_a_watched_transaction_wakes_its_waiters(core: Core, view: ChainView) -> None:
    connect(core, view)
    confirmed, dropped, neither = signed(0), signed(1), signed(2)
    await core.submit(confirmed)
    with (
        view.watching(confirmed.hash) as first,
        view.watching(confirmed.hash) as second,
        view.watching(dropped.hash) as third,
        view.watching(neither.hash) as fourth,
    ):
        make_block(core)
        view.on_commit(1)
        view.on_dropped(dropped.hash, "evicted")
        assert [first.done(), second.done(), third.done(), fourth.done()] == [True, True, True, False]
        view.on_phase("draining", "stopping")
        assert fourth.done()
    with view.watching(neither.hash) as late:
        assert late.done()
    assert not view._waiting


async def test_a_notice_before_the_store_is_open_waits(core: Core, view: ChainView) -> None:
    view.on_commit(0)
    assert view.height == -1
    view.on_info(core.info())
    assert view.height == 0


async def test_parts_that_are_missing_are_damage(core: Core, view: ChainView, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(core, view)
    await core.submit(signed(0))
    make_block(core)
    view.on_commit(1)
    monkeypatch.setattr(FollowerStore, "find_record", lambda self, height, position: None)
    with pytest.raises(Corrupt, match="transaction 0 of block 1"):
        view.find_confirmed(signed(0).hash)
    block_hash = view.block_hash(1)
    monkeypatch.setattr(FollowerStore, "find_header", lambda self, height: None)
    with pytest.raises(Corrupt, match="block 1"):
        view.find_block(block_hash)


async def test_a_block_that_is_asked_for_again_is_not_read_again(
    core: Core, view: ChainView, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(core, view)
    make_block(core)
    view.on_commit(1)
    block_hash = view.block_hash(1)
    first = view.find_block(block_hash)
    for read in ("find_height", "find_header", "tx_hashes"):
        monkeypatch.setattr(FollowerStore, read, None)
    assert view.find_block(block_hash) is first is not None


async def test_marks_of_blocks_do_not_pile_up(core: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cairn.api.chain_reads.CACHED_MARKS", 2)
    (tmp_path / "scratch").mkdir()
    view = ChainView(tmp_path / "scratch")
    connect(core, view)
    for nonce in range(4):
        await core.submit(signed(nonce))
        make_block(core)
        view.on_commit(nonce + 1)
    assert len({view.block_hash(height) for height in range(5)}) == 5
    assert view._mark.cache_info().currsize == 2
    view.close()


async def test_a_revert_leaves_nothing_of_what_was_read(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    view = ChainView(tmp_path / "scratch")
    recorder = Recorder()
    view.subscribe(recorder)
    async with opened_core(tmp_path / "data") as core:
        connect(core, view)
        snapshot = await core.snapshot()
        await core.submit(signed(0))
        make_block(core)
        view.on_commit(1)
        block_hash = view.block_hash(1)
        assert view.find_confirmed(signed(0).hash)
        assert view.find_height(block_hash) == 1
        reaching = asyncio.ensure_future(view.reach(2))
        await asyncio.sleep(0)
        await core.revert(snapshot)
    assert view.find_confirmed(signed(0).hash), "until it is told, it shows the old chain"
    async with opened_core(tmp_path / "data") as core:
        recorder.told.clear()
        with view.watching(signed(9).hash) as ended:
            connect(core, view)
            assert ended.done(), "whoever waits must look again"
        assert recorder.told == [("reverted", 0), 0, "ready"]
        assert (view.height, view.reverts) == (0, 1)
        assert view.find_confirmed(signed(0).hash) is None
        assert view.find_height(block_hash) is None
        for read in (view.get_header, view.tx_hashes, view.block_hash, view.tx_records):
            with pytest.raises(BlockNotFound, match="no block 1 any more"):
                read(1)
        with pytest.raises(BlockNotFound):
            view.confirmed_at(1, 0)
        with pytest.raises(StoreUnavailable, match="reverted meanwhile"):
            await reaching
        await core.mine()
        view.on_commit(1)
        assert view.block_hash(1) != block_hash
    view.close()


async def test_records_are_read_as_they_are_taken_and_not_from_a_pruned_block(core: Core, view: ChainView) -> None:
    for first in (0, 40):
        await asyncio.gather(*[core.submit(signed(nonce)) for nonce in range(first, first + 40)])
        make_block(core)
    connect(core, view)
    kept, pruned = view.tx_records(2), view.tx_records(1)
    assert [decode_record(next(records)) for records in (pruned, kept)] == [signed(0), signed(40)]
    core._chain.prune(2, lambda: None)
    make_block(core)
    view.on_commit(3)
    assert view.base == 2
    assert [decode_record(record) for record in kept] == [signed(nonce) for nonce in range(41, 80)]
    with pytest.raises(BlockNotFound, match="is not kept"):
        list(pruned)


async def test_records_of_a_reverted_block_are_not_mixed_with_those_of_another(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    view = ChainView(tmp_path / "scratch")
    async with opened_core(tmp_path / "data") as core:
        snapshot = await core.snapshot()
        await asyncio.gather(*[core.submit(signed(nonce)) for nonce in range(40)])
        make_block(core)
        connect(core, view)
        records = view.tx_records(1)
        assert decode_record(next(records)) == signed(0)
        await core.revert(snapshot)
    async with opened_core(tmp_path / "data") as core:
        await asyncio.gather(*[core.submit(signed(nonce, value=7)) for nonce in range(40)])
        make_block(core)
        connect(core, view)
        assert view.height == 1
        with pytest.raises(Reverting, match="reverted meanwhile"):
            list(records)
    view.close()


async def test_while_a_revert_moves_the_files_nothing_is_read(core: Core, view: ChainView) -> None:
    connect(core, view)
    before = core.info()
    snapshot = await core.snapshot()
    await core.mine()
    view.on_commit(1)
    await core.revert(snapshot)
    under_way = core.info()
    assert (under_way.store_path, under_way.reverts, under_way.reverted_to) == ("", before.reverts + 1, 0)
    view.on_phase("unavailable", "the chain goes back")
    view.on_info(under_way)
    view.on_commit(1)
    assert view.height == -1
    with pytest.raises(Reverting, match="the chain goes back"):
        view.account(ACCOUNTS[0])


async def test_a_late_notice_of_the_old_chain_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    view = ChainView(tmp_path / "scratch")
    async with opened_core(tmp_path / "data") as core:
        snapshot = await core.snapshot()
        await core.mine(3)
        await core.revert(snapshot)
        view.on_info(core.info())
        view.on_commit(3)
    async with opened_core(tmp_path / "data") as core:
        connect(core, view)
        assert view.height == 0
        assert view._retry is None, "it looks for block 3 again and again"
    view.close()


async def test_files_in_motion_are_no_damage(core: Core, view: ChainView, monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[Fatal] = []

    def damaged(*_: object) -> int:
        raise Corrupt("a file is missing")

    view._on_fatal = failures.append
    connect(core, view)
    make_block(core)
    view.on_phase("unavailable", "the core process is gone")
    with monkeypatch.context() as patched:
        patched.setattr(FollowerStore, "catch_up", damaged)
        view.on_commit(1)
        assert failures == []
        # A core that is there is asked for the truth: what is damaged then is damaged.
        view.on_phase("ready", "")
        view._advance()
        assert [failure.detail for failure in failures] == ["a file is missing"]


async def test_the_tree_of_a_block_is_built_once(core: Core, view: ChainView, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []

    def counted(hashes: Sequence[bytes]) -> Iterator[bytes]:
        built.append(len(hashes))
        return grow_tree(hashes)

    monkeypatch.setattr("cairn.api.chain_reads.grow_tree", counted)
    for first in (0, 3):
        await asyncio.gather(*[core.submit(signed(nonce)) for nonce in range(first, first + 3)])
        make_block(core)
    connect(core, view)
    for height in (1, 2, 1, 2):
        hashes = list(split_hashes(view.tx_hashes(height)))
        assert await view.tx_tree(height) == tree_nodes(hashes)
    assert built == [3, 3]


async def test_the_supply_of_a_dev_chain_has_what_its_blocks_minted_even_on_a_node_without_its_keys(
    core: Core, view: ChainView
) -> None:
    controls: DevCalls = core
    first = sum(core._chain.genesis.alloc.values())
    await controls.set_balance(ACCOUNTS[0], core._chain.genesis.alloc[ACCOUNTS[0]] + 5)
    connect(core, view)
    assert view.supply() == first + 5
    # `cairn run` serves it, too, and signs for nobody.
    view.on_info(msgspec.structs.replace(core.info(), signs_for=[]))
    assert view.supply() == first + 5


async def test_the_supply_is_known_without_old_blocks_unless_they_may_have_minted(core: Core, view: ChainView) -> None:
    for _ in range(3):
        make_block(core)
    core._chain.prune(2, lambda: None)
    connect(core, view)
    assert (view.base, view.supply()) == (2, None)
    view.on_info(msgspec.structs.replace(core.info(), can_set_balances=False))
    assert view.supply() == sum(core._chain.genesis.alloc.values())
