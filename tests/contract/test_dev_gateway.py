"""What the developer of a dev chain may do: over the link, and where it ends no core, in process too."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cairn.core.gateway import (
    FAUCET_DEFAULT,
    FAUCET_MOST,
    MOST_BLOCKS_AT_ONCE,
    Admission,
    ConfirmedTx,
    CoreGateway,
    DevCalls,
    DroppedTx,
    MiningMode,
    PendingTx,
)
from cairn.core.link import LinkClient
from cairn.domain.errors import InsufficientFunds, InvalidField, NotADevChain, StoreUnavailable
from cairn.domain.genesis import COIN, DEV_KEYS, dev_genesis
from cairn.domain.types import Address
from cairn.store.chain import ChainStore
from tests.support.audit import audit
from tests.support.core_fixtures import ACCOUNTS, open_core, opened_core, signed
from tests.support.damaged_homes import remove
from tests.support.linked_core import Heard, linked
from tests.support.pace import PATIENCE_S

STRANGER = Address(b"\x42" * 20)
YEAR_10000 = 253_402_300_800


@asynccontextmanager
async def dev_core(directory: Path, **changes: object) -> AsyncIterator[tuple[LinkClient, Heard]]:
    async with asyncio.timeout(PATIENCE_S), linked(directory, **changes) as (client, heard, _core):
        yield client, heard


def header_times(directory: Path) -> list[int]:
    """The time of every block, after a whole check of the chain."""
    chain = ChainStore.open(directory / "data", dev_genesis())
    audit(chain)
    found = [chain.find_header(height) for height in range(chain.visible + 1)]
    chain.close()
    return [header.timestamp for entry in found if entry is not None for header in entry[1:]]


def balances_in(directory: Path, *addresses: Address) -> list[int]:
    chain = ChainStore.open(directory / "data", dev_genesis())
    found = [chain.account(address).balance for address in addresses]
    chain.close()
    return found


async def test_blocks_are_made_when_asked_for(tmp_path: Path) -> None:
    async with dev_core(tmp_path) as (core, heard):
        await core.submit(signed(0))
        assert await core.mine() == 1
        assert await core.find_tx(signed(0).hash) == ConfirmedTx(1)
        assert await core.mine(3) == 4
        assert [notice[1] for notice in heard.notices if notice[0] == "commit"] == [0, 1, 2, 3, 4]
        for blocks in (0, MOST_BLOCKS_AT_ONCE + 1):
            with pytest.raises(InvalidField, match="blocks"):
                await core.mine(blocks)


def passed_since(began: int) -> int:
    """Whole seconds, and one more for the parts of a second at both ends."""
    return int(time.time()) - began + 1


async def test_time_goes_ahead_and_never_back(tmp_path: Path) -> None:
    began = int(time.time())
    async with dev_core(tmp_path) as (core, _):
        assert await core.increase_time(100) == 100
        assert await core.increase_time(50) == 150
        await core.mine()
        await core.mine(3, interval_s=1_000)
        await core.mine(timestamp=began + 10_000)
        await core.set_next_timestamp(began + 20_000)
        await core.mine(2)
        with pytest.raises(InvalidField, match="timestamp"):
            await core.set_next_timestamp(began + 5)
        with pytest.raises(InvalidField, match="timestamp"):
            await core.mine(timestamp=YEAR_10000)
        for seconds in (-1, YEAR_10000):
            with pytest.raises(InvalidField, match="seconds"):
                await core.increase_time(seconds)
    times = header_times(tmp_path)
    slow = passed_since(began)
    assert times == sorted(times)
    assert began + 150 <= times[1] <= began + 150 + slow
    assert times[2] - times[1] <= slow
    assert 1_000 <= times[3] - times[2] <= 1_000 + slow
    assert 1_000 <= times[4] - times[3] <= 1_000 + slow
    assert times[5:7] == [began + 10_000, began + 20_000]
    assert times[7] - times[6] <= slow, "the clock goes on from a time that was set"
    async with dev_core(tmp_path) as (core, _):
        await core.mine()
    newest = header_times(tmp_path)[8]
    assert newest - times[7] <= passed_since(began), "the chain's time must not stand still"


async def test_a_balance_is_set_by_a_block_of_its_own(tmp_path: Path) -> None:
    async with dev_core(tmp_path) as (core, _):
        await core.submit(signed(0))
        assert await core.set_balance(STRANGER, 5 * COIN) == 1
        assert isinstance(await core.find_tx(signed(0).hash), PendingTx)
        assert await core.mine() == 2
        for balance in (-1, 2**128):
            with pytest.raises(InvalidField, match="balance"):
                await core.set_balance(STRANGER, balance)
    assert len(header_times(tmp_path)) == 3
    assert balances_in(tmp_path, STRANGER) == [5 * COIN]


async def test_a_pending_transfer_is_dropped_when_a_lowered_balance_cannot_pay_it(tmp_path: Path) -> None:
    async with dev_core(tmp_path) as (core, heard):
        await asyncio.gather(core.submit(signed(0)), core.submit(signed(1)))
        await core.set_balance(ACCOUNTS[0], 21_000 * 10**9 + 1)
        await heard.until("dropped", signed(1).hash, "evicted")
        assert await core.find_tx(signed(1).hash) == DroppedTx("evicted")
        assert isinstance(await core.find_tx(signed(0).hash), PendingTx)
        await core.mine()
        assert await core.find_tx(signed(0).hash) == ConfirmedTx(2)


async def test_a_snapshot_brings_back_chain_mempool_and_clock(tmp_path: Path) -> None:
    async with dev_core(tmp_path) as (core, heard):
        await core.mine()
        await core.submit(signed(0))
        await core.increase_time(60)
        snapshot = await core.snapshot()
        await core.mine()
        await core.submit(signed(1))
        await core.mine()
        await core.submit(signed(2))
        await core.set_balance(STRANGER, 1)
        await core.increase_time(1_000)
        later = await core.snapshot()
        assert later == snapshot + 1
        heard.notices.clear()
        assert await core.revert(snapshot) is True
        assert [notice for notice in heard.notices if notice[0] != "dropped"] == [
            ("phase", "unavailable"), ("info", 1337), ("info", 1337), ("commit", 1), ("phase", "ready")
        ]  # fmt: skip
        status = await core.status()
        assert (status.phase, status.head, status.pending) == ("ready", 1, 1)
        assert isinstance(await core.find_tx(signed(0).hash), PendingTx)
        assert await core.find_tx(signed(1).hash) is None
        assert await core.increase_time(0) == 60
        assert not await core.revert(snapshot), "it is used up"
        assert not await core.revert(later), "and so are those after it"
        assert await core.snapshot() == later + 1, "a number means one snapshot for ever"
        assert await core.mine() == 2
        assert await core.find_tx(signed(0).hash) == ConfirmedTx(2)
    assert balances_in(tmp_path, STRANGER) == [0]
    assert len(header_times(tmp_path)) == 3


async def test_a_mining_mode_that_was_told_can_be_set_again(tmp_path: Path) -> None:
    async with dev_core(tmp_path, block_time_s=3_600.0) as (core, _):
        first = await core.mining_mode()
        assert first == MiningMode(automine=3_600.0, interval=None)
        snapshot = await core.snapshot()
        await core.set_automine(False, False)
        await core.set_mining_interval(1_800.0, False)
        changed = MiningMode(automine=None, interval=1_800.0)
        assert await core.mining_mode() == changed
        assert await core.revert(snapshot)
        assert await core.mining_mode() == changed, "not part of a snapshot"
        await core.set_mining_mode(first)
        assert await core.mining_mode() == first


async def test_snapshots_outlive_the_node(tmp_path: Path) -> None:
    async with dev_core(tmp_path) as (core, _):
        assert await core.snapshot() == 1
        await core.mine(2)
    async with dev_core(tmp_path) as (core, _):
        assert (await core.status()).head == 2
        assert await core.revert(1)
        assert (await core.status()).head == 0


async def test_calls_during_a_revert_are_refused_and_the_chain_goes_on_after_it(tmp_path: Path) -> None:
    async with dev_core(tmp_path) as (core, _):
        snapshot = await core.snapshot()
        await core.mine()
        answers = await asyncio.gather(
            core.revert(snapshot), core.revert(snapshot), core.mine(5), core.faucet(STRANGER, 1), return_exceptions=True
        )
        assert answers[0] is True
        assert all(isinstance(answer, StoreUnavailable) for answer in answers[1:]), answers
        status = await core.status()
        assert (status.head, status.pending) == (0, 0)
        await core.submit(signed(0))
        assert (await core.status()).pending == 1


async def test_a_chain_that_cannot_be_opened_again_says_so_and_reverts_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with dev_core(tmp_path) as (core, heard):
        snapshot = await core.snapshot()
        await core.mine()

        def refuse(*_: object) -> None:
            raise StoreUnavailable("the disk is away")

        monkeypatch.setattr(ChainStore, "open", refuse)
        with pytest.raises(StoreUnavailable, match="the disk is away"):
            await core.revert(snapshot)
        monkeypatch.undo()
        heard.notices.clear()
        await heard.until("phase", "ready")
        assert (await core.status()).head == 0


async def test_the_faucet_gives_from_the_richest_account(tmp_path: Path) -> None:
    async with dev_core(tmp_path) as (core, _):
        await core.set_balance(ACCOUNTS[4], 10_001 * COIN)
        await core.faucet(STRANGER, None)
        first = (await core.list_pending(10, None, None)).items[0].tx
        assert (first.sender, first.to, first.value, first.nonce) == (ACCOUNTS[4], STRANGER, FAUCET_DEFAULT, 0)
        second = await core.faucet(STRANGER, FAUCET_MOST)
        assert isinstance(second, Admission)
        standing = await core.find_tx(second.tx_hash)
        assert isinstance(standing, PendingTx)
        assert standing.tx.sender != ACCOUNTS[4], "what is pending is spent"
        given = await core.find_tx((await core.faucet(ACCOUNTS[4], 1)).tx_hash)
        assert isinstance(given, PendingTx)
        assert given.tx.sender != ACCOUNTS[4], "not from oneself to oneself"
        for amount in (0, -1, FAUCET_MOST + 1):
            with pytest.raises(InvalidField, match="amount"):
                await core.faucet(STRANGER, amount)


async def test_a_faucet_that_is_empty_says_so(tmp_path: Path) -> None:
    async with dev_core(tmp_path) as (core, _):
        for address in ACCOUNTS:
            await core.set_balance(address, COIN)
        with pytest.raises(InsufficientFunds, match="the richest"):
            await core.faucet(STRANGER, None)


async def test_a_node_with_one_account_cannot_pay_into_it(tmp_path: Path) -> None:
    core = open_core(tmp_path / "data", keys=dict([DEV_KEYS[0]]))
    core.start()
    try:
        with pytest.raises(InvalidField, match="the only account"):
            await core.faucet(DEV_KEYS[0][0], 1)
    finally:
        await core.stop()


# On any other chain.

CALLS: list[Callable[[DevCalls], Awaitable[object]]] = [
    lambda core: core.mine(),
    lambda core: core.mine(0),
    lambda core: core.snapshot(),
    lambda core: core.revert(1),
    lambda core: core.set_balance(STRANGER, 1),
    lambda core: core.increase_time(1),
    lambda core: core.set_next_timestamp(YEAR_10000 - 1),
    lambda core: core.set_automine(True, False),
    lambda core: core.set_mining_interval(1.0, False),
    lambda core: core.mining_mode(),
    lambda core: core.set_mining_mode(MiningMode(0.0, None)),
    lambda core: core.faucet(STRANGER, 1),
]


@asynccontextmanager
async def core_without_keys(directory: Path) -> AsyncIterator[CoreGateway]:
    core = open_core(directory / "data", keys={})
    core.start()
    try:
        yield core
    finally:
        await core.stop()


async def test_dev_controls_are_refused_on_another_chain(tmp_path: Path) -> None:
    async with core_without_keys(tmp_path) as core:
        for call in CALLS:
            with pytest.raises(NotADevChain, match="not a dev chain"):
                await call(core)
    assert not (tmp_path / "data" / "dev").exists()


async def test_a_core_refuses_calls_after_a_revert_has_begun(tmp_path: Path) -> None:
    async with opened_core(tmp_path / "data") as core:
        snapshot = await core.snapshot()
        await core.mine()
        assert await core.revert(snapshot)
        for call in CALLS:
            with pytest.raises((StoreUnavailable, InvalidField)):
                await call(core)
        with pytest.raises(StoreUnavailable):
            await core.failed
    reopened = open_core(tmp_path / "data")
    assert (reopened.head, reopened.info().reverts, reopened.info().reverted_to) == (0, 1, 0)
    reopened.close()


@pytest.mark.parametrize("name", ["chain/CURRENT", "watermark", "chain"])
async def test_a_revert_to_a_snapshot_that_is_damaged_is_refused_and_the_chain_goes_on(
    tmp_path: Path, name: str
) -> None:
    async with dev_core(tmp_path) as (core, _):
        damaged = await core.snapshot()
        whole = await core.snapshot()
        await core.mine()
        remove(tmp_path / "data" / "dev" / str(damaged) / name, random.Random())
        with pytest.raises(InvalidField, match=f"snapshot {damaged} cannot be used any more: .*{name}"):
            await core.revert(damaged)
        assert await core.mine() == 2
        assert await core.revert(whole)
