"""Blocks that come with the core's notices: shown before the worker's store shows them, and as the store would."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cairn.api.chain_view import LAG_S, RETRY_S, ChainView
from cairn.api.recent_blocks import MOST_BLOCKS
from cairn.core.service import Core
from cairn.domain.errors import Starting, StoreUnavailable
from cairn.domain.types import SealedBlock
from cairn.store.follower import FollowerStore
from cairn.store.history import Search
from tests.support.core_fixtures import ACCOUNTS, make_block, opened_core, produce, signed

pytestmark = pytest.mark.virtual_time


class Bench:
    """A core, and a view that gets every block with its notice."""

    def __init__(self, core: Core, view: ChainView, monkeypatch: pytest.MonkeyPatch) -> None:
        self.core = core
        self.view = view
        self.catch_ups = 0
        self.fails = False
        real = FollowerStore.catch_up

        def catch_up(store: FollowerStore) -> int:
            self.catch_ups += 1
            if self.fails:
                raise StoreUnavailable("not now")
            return real(store)

        monkeypatch.setattr(FollowerStore, "catch_up", catch_up)

    async def block(self, *nonces: int) -> SealedBlock:
        for nonce in nonces:
            await self.core.submit(signed(nonce))
        return produce(self.core).block


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    (tmp_path / "scratch").mkdir()
    view = ChainView(tmp_path / "scratch")
    async with opened_core(tmp_path / "data") as core:
        view.on_info(core.info())
        view.on_commit(core.head)
        view.on_phase("ready", "")
        core.feed.subscribe_blocks(view.on_commit)
        yield Bench(core, view, monkeypatch)
        view.close()


async def test_a_sent_block_is_read_without_a_catch_up_and_as_the_store_has_it(bench: Bench) -> None:
    view, tx = bench.view, signed(1)
    block = await bench.block(0, 1)
    assert (view.height, view.base, bench.catch_ups) == (1, 0, 0)

    def read() -> list[object]:
        return [
            view.get_header(1),
            view.tx_hashes(1),
            view.find_height(block.hash),
            view.find_location(tx.hash),
            view.tx_at(1, 1),
            view.confirmed_at(1, 1),
            view.find_location(signed(2).hash),
        ]

    sent = read()
    confirmed, shown = view.find_confirmed(tx.hash), view.find_block(block.hash)
    assert bench.catch_ups == 0
    await asyncio.sleep(LAG_S)
    assert bench.catch_ups == 1
    assert read() == sent
    view._forget_answers()
    assert (view.find_confirmed(tx.hash), view.find_block(block.hash)) == (confirmed, shown)


async def test_whoever_reads_more_of_a_sent_block_gets_it_from_the_store(bench: Bench) -> None:
    view = bench.view
    await bench.block(0)
    assert (view.account(ACCOUNTS[0]).nonce, bench.catch_ups) == (1, 1)
    await bench.block(1)
    assert (view.account_at(ACCOUNTS[0], 1).nonce, bench.catch_ups) == (1, 1), "an older one is there already"
    assert (view.account_at(ACCOUNTS[0], 2).nonce, bench.catch_ups) == (2, 2)
    await bench.block(2)
    assert [step.location for step in view.search_history(Search(ACCOUNTS[0]), None)] == [(3, 0), (2, 0), (1, 0)]
    await bench.block(3)
    assert len(list(view.tx_records(4))) == 1
    await bench.block(4)
    assert (await view.changes_tree(5))[1] >= 2, "the sender and the recipient"


async def test_an_account_is_shown_as_of_the_height_that_is_shown(bench: Bench) -> None:
    """The store may be a block ahead of the notices, which must not show in between."""
    view, told = bench.view, bench.core.feed._listeners
    await bench.block(0)
    silent, told[:] = list(told), []
    block = await bench.block(1)
    assert (view.account(ACCOUNTS[0]).nonce, view.height) == (1, 1)
    assert view._opened().visible == 2
    told[:] = silent
    view.on_commit(2, block)
    assert (view.account(ACCOUNTS[0]).nonce, view.height) == (2, 2)
    await bench.block(2)
    assert view.height == 3


async def test_many_blocks_cost_few_catch_ups_and_take_bounded_memory(bench: Bench) -> None:
    for _ in range(2 * MOST_BLOCKS):
        make_block(bench.core)
    assert (bench.view.height, bench.catch_ups) == (2 * MOST_BLOCKS, 1)
    assert len(bench.view._recent._blocks) < MOST_BLOCKS
    for height in range(1, 2 * MOST_BLOCKS + 1):
        assert bench.view.get_header(height)[1].height == height


async def test_a_block_whose_predecessor_is_not_shown_is_read_from_the_store(bench: Bench) -> None:
    view = bench.view
    core, told = bench.core, bench.core.feed._listeners
    silent, told[:] = list(told), []
    make_block(core)
    told[:] = silent
    make_block(core)
    assert (view.height, bench.catch_ups) == (2, 1)
    assert view.get_header(1)[1].height == 1


async def test_a_store_that_cannot_be_read_is_tried_again_and_sent_blocks_stay_readable(bench: Bench) -> None:
    view = bench.view
    bench.fails = True
    await bench.block(0)
    await asyncio.sleep(LAG_S)
    assert bench.catch_ups == 1
    assert view.find_confirmed(signed(0).hash) is not None
    with pytest.raises(StoreUnavailable):
        view.account(ACCOUNTS[0])
    bench.fails = False
    await asyncio.sleep(RETRY_S)
    assert not view._recent
    assert view.account(ACCOUNTS[0]).nonce == 1


async def test_a_revert_forgets_the_sent_blocks(bench: Bench) -> None:
    view, core = bench.view, bench.core
    snapshot = await core.snapshot()
    await bench.block(0)
    assert view.find_location(signed(0).hash) == (1, 0)
    assert await core.revert(snapshot)
    view.on_info(core.info())
    assert not view._recent
    with pytest.raises(Starting):
        view.find_location(signed(0).hash)


async def test_who_waits_for_a_transaction_is_woken_by_the_block_that_was_sent(bench: Bench) -> None:
    with bench.view.watching(signed(0).hash) as ended:
        await bench.block(0)
        assert ended.done()
    assert bench.catch_ups == 0
