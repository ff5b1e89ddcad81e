"""Filters and arrivals: each thing once, nothing for nobody, and bounds on what is remembered."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from cairn.core import filters as filters_module
from cairn.core.admission import ARRIVALS_INTERVAL_S, Arrivals
from cairn.core.filters import IDLE_S, LIFETIME_S, Filters
from cairn.core.gateway import FilterChanges, FilterKind
from cairn.domain.errors import StoreUnavailable
from cairn.domain.types import Tx
from cairn.mempool.pool import Mempool, PoolLimits
from tests.support.core_fixtures import Told, make_block, opened_core, signed
from tests.support.linked_core import linked
from tests.support.transfers import RULES, Accounts, address, transfer


class Bench:
    def __init__(self) -> None:
        state = Accounts()
        state.put(address(1), 10**18, 0)
        self.pool = Mempool(RULES, PoolLimits(), state)
        self.arrivals = Arrivals(self.pool, asyncio.get_running_loop())
        self.head = 5
        self.now = 0.0
        self.filters = Filters(lambda: self.head, self.arrivals, lambda: self.now)

    def admit(self, nonce: int) -> Tx:
        tx = transfer(1, nonce)
        self.pool.admit(tx, 1)
        return tx

    async def create(self, kind: FilterKind, client: str = "one") -> str:
        name = await self.filters.create_filter(kind, client)
        assert name is not None
        return name

    async def changes(self, name: str, shown: int | None = None) -> FilterChanges:
        changes = await self.filters.find_changes(name, self.head if shown is None else shown)
        assert changes is not None
        return changes


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    yield bench
    bench.arrivals.close()


async def test_a_block_filter_gives_each_new_block_once(bench: Bench) -> None:
    name = await bench.create("blocks")
    looks = []
    for bench.head in (5, 7, 7, 8):
        changes = await bench.changes(name)
        looks.append(list(range(changes.first_height, changes.last_height + 1)))
    assert looks == [[], [6, 7], [], [8]]


async def test_a_block_that_the_worker_cannot_read_yet_is_given_at_the_next_poll(bench: Bench) -> None:
    name = await bench.create("blocks")
    looks = []
    for bench.head, shown in ((7, 6), (8, 5), (8, 9), (9, 9)):
        changes = await bench.changes(name, shown)
        looks.append(list(range(changes.first_height, changes.last_height + 1)))
    assert looks == [[6], [], [7, 8], [9]]


async def test_a_transaction_filter_gives_each_new_transaction_once(bench: Bench) -> None:
    bench.admit(0)
    first = await bench.create("transactions")
    second_tx = bench.admit(1)
    second = await bench.create("transactions")
    third_tx = bench.admit(2)
    assert (await bench.changes(first)).tx_hashes == [second_tx.hash, third_tx.hash]
    assert (await bench.changes(first)).tx_hashes == []
    assert third_tx.hash in (await bench.changes(second)).tx_hashes


async def test_a_filter_that_is_polled_too_late_gives_only_the_newest_transactions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(filters_module, "REMEMBERED_TXS", 3)
    bench = Bench()
    name = await bench.create("transactions")
    hashes = [bench.admit(nonce).hash for nonce in range(5)]
    assert (await bench.changes(name)).tx_hashes == hashes[-3:]
    bench.arrivals.close()


async def test_a_log_filter_is_always_empty(bench: Bench) -> None:
    name = await bench.create("logs")
    bench.admit(0)
    assert await bench.changes(name) == FilterChanges("logs")


async def test_an_unused_filter_is_removed_after_its_lifetime(bench: Bench) -> None:
    asked, forgotten = await bench.create("blocks"), await bench.create("blocks")
    bench.now = LIFETIME_S - 1
    await bench.changes(asked)
    bench.now = LIFETIME_S + 1
    assert await bench.filters.find_changes(forgotten, 0) is None
    await bench.changes(asked)
    assert await bench.filters.remove_filter(asked)
    assert not await bench.filters.remove_filter(asked)


async def test_only_an_idle_filter_is_replaced_when_there_are_too_many(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters_module, "MAX_FILTERS", 4)
    used, idle = await bench.create("blocks"), await bench.create("logs")
    assert await bench.filters.create_filter("blocks", "one") is None
    await bench.changes(idle)
    bench.now = IDLE_S + 1
    await bench.changes(used)
    await bench.create("transactions")
    assert await bench.filters.find_changes(idle, 0) is None
    assert await bench.filters.create_filter("blocks", "one") is None
    await bench.changes(used)


async def test_one_client_gets_at_most_half_of_all_filters(bench: Bench) -> None:
    greedy = 0
    while await bench.filters.create_filter("blocks", "greedy"):
        greedy += 1
    assert greedy == filters_module.MAX_FILTERS // 2
    others = [await bench.filters.create_filter("blocks", f"client {number}") for number in range(100)]
    assert all(others), "there is room for others"


async def test_a_new_filter_replaces_one_of_a_client_that_holds_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters_module, "MAX_FILTERS", 4)
    single = await bench.create("blocks", "single")
    many = [await bench.create("blocks", "many") for _ in range(2)]
    await bench.create("blocks", "third")
    bench.now = IDLE_S + 1
    await bench.create("blocks", "many")
    assert await bench.filters.find_changes(many[0], 0) is None, "its own oldest"
    assert await bench.filters.find_changes(single, 0) is not None
    assert await bench.filters.find_changes(many[1], 0) is not None


@pytest.mark.virtual_time
async def test_arrivals_are_told_in_order_and_only_while_somebody_listens(bench: Bench) -> None:
    heard: list[Tx] = []

    def listener(txs: Sequence[Tx]) -> None:
        heard.extend(txs)

    bench.admit(0)
    bench.arrivals.tell()
    bench.arrivals.listen(listener)
    bench.arrivals.listen(listener)
    expected = [bench.admit(1), bench.admit(2)]
    bench.arrivals.tell()
    bench.arrivals.tell()
    assert heard == expected
    # Those that nobody submits here are told a moment later, without being asked for.
    expected.append(bench.admit(3))
    await asyncio.sleep(ARRIVALS_INTERVAL_S)
    assert heard == expected
    bench.arrivals.forget(listener)
    bench.admit(4)
    bench.arrivals.tell()
    assert heard == expected


async def test_a_new_listener_is_not_told_of_earlier_arrivals(bench: Bench) -> None:
    heard: list[list[Tx]] = [[], []]
    bench.arrivals.listen(heard[0].extend)
    before = bench.admit(0)
    bench.arrivals.listen(heard[1].extend)
    after = bench.admit(1)
    bench.arrivals.tell()
    assert heard == [[before, after], [after]]
    bench.arrivals.close()


async def test_a_transaction_mined_at_once_is_announced_as_an_arrival(tmp_path: Path) -> None:
    told = Told()
    async with opened_core(tmp_path, listener=told) as core:
        core.watch_arrivals(True)
        submitted = core.submit(signed(0))
        make_block(core)
        await submitted
        core.watch_arrivals(False)
        await core.submit(signed(1))
    assert [tx.hash for tx in told.arrived] == [signed(0).hash]


async def test_arrivals_cross_the_link_while_a_worker_watches(tmp_path: Path) -> None:
    async with linked(tmp_path) as (client, heard, _):
        await client.submit(signed(0))
        client.watch_arrivals(True)
        await client.submit(signed(1))
        await heard.until("arrived", signed(1).hash)
        client.watch_arrivals(False)
        await client.submit(signed(2))
        await client.status()
        arrived = [notice[1] for notice in heard.notices if notice[0] == "arrived"]
        assert arrived == [signed(1).hash]
        name = await client.create_filter("transactions", "somebody")
        assert name is not None
        await client.submit(signed(3))
        changes = await client.find_changes(name, 0)
        assert changes is not None
        assert changes.tx_hashes == [signed(3).hash]
        assert await client.remove_filter(name)
        assert await client.find_changes(name, 0) is None


@pytest.mark.parametrize("loss", ["the store", "the link"])
@pytest.mark.virtual_time
async def test_arrivals_are_announced_again_after_the_core_or_the_link_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    def refuse(file: int) -> None:
        raise OSError(5, "Input/output error")

    async with linked(tmp_path) as (client, heard, _):
        client.watch_arrivals(True)
        await client.status()
        if loss == "the store":
            monkeypatch.setattr(os, "fdatasync", refuse)
            with pytest.raises(StoreUnavailable):
                await client.submit(signed(0))
            monkeypatch.undo()
        else:
            assert client._connection is not None
            client._connection.close()
        await heard.until("phase", "unavailable")
        heard.notices.clear()
        await heard.until("phase", "ready")
        await client.submit(signed(1))
        # Announced before this is answered, if at all.
        await client.status()
        assert ("arrived", signed(1).hash) in heard.notices
