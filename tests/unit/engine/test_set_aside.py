"""When a block cannot be made, the engine drops the transaction at fault and goes on, or waits and says why.

The chain and its limits are small: three transfers to a block.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from cairn.domain import transition
from cairn.domain.errors import EngineUnavailable, InvalidBlock, StoreUnavailable
from cairn.domain.genesis import Genesis
from cairn.domain.types import MAX_UINT256, TRANSFER_GAS, Tx
from cairn.engine import application
from cairn.engine.application import OK
from cairn.engine.embedded import ClockWatch
from cairn.store.chain import ChainStore
from tests.support.transfers import address, transfer
from tests.support.untold import untold_slowness
from tests.support.virtual_time import virtual_loop
from tests.unit.engine.conftest import GENESIS_TIME
from tests.unit.engine.test_embedded import Rig

pytestmark = pytest.mark.virtual_time

REASON = "cannot be applied"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Unless a node sets up its log, tracebacks show all variables, which takes seconds."""
    with capture_logs():
        yield


def spoil(monkeypatch: pytest.MonkeyPatch, fails: Callable[[Sequence[Tx]], BaseException | None]) -> list[int]:
    """Let blocks fail as `fails` says; returns how many transactions each attempt had."""
    attempts: list[int] = []

    def block_steps(*arguments: Any) -> Any:
        txs = arguments[3]
        attempts.append(len(txs))
        failure = fails(txs)
        if failure is not None:
            raise failure
        return transition.block_steps(*arguments)

    monkeypatch.setattr(application, "block_steps", block_steps)
    return attempts


def roomy(genesis: Genesis, directory: Path) -> ChainStore:
    """A chain whose blocks have room for many, with forty senders."""
    alloc = {address(sender): 10**18 for sender in range(1, 41)}
    return ChainStore.open(
        directory, msgspec.structs.replace(genesis, block_gas_limit=1_000 * TRANSFER_GAS, alloc=alloc)
    )


async def test_a_transfer_that_overflows_a_balance_is_dropped_by_name_and_the_others_are_mined(
    genesis: Genesis, tmp_path: Path
) -> None:
    """No genesis file and no `cairn dev` makes such a chain any more, but a store may hold one."""
    alloc = {address(1): MAX_UINT256, address(2): 10**18, address(3): 10**18}
    chain = ChainStore.open(tmp_path / "overfull", msgspec.structs.replace(genesis, alloc=alloc))

    rig = Rig(chain)
    bad, good = transfer(2, 0, to=1, value=10**17), [transfer(3, 0), transfer(1, 0), transfer(2, 1)]
    async with rig.running():
        with capture_logs() as logs:
            rig.submit(bad, *good)
            await asyncio.sleep(10)
    assert rig.dropped == [(bad.hash, REASON)]
    assert [tx for _, txs in rig.made for tx in txs] == good[:2]
    # It waits for the nonce of the one that was dropped.
    assert rig.pool.queued_count == 1
    (told,) = [line for line in logs if line["log_level"] == "error"]
    assert told["tx"] == "0x" + bad.hash.hex()
    assert "OverflowError" in told["reason"]
    assert rig.engine.condition() == OK
    chain.close()


@pytest.mark.parametrize("failure", [ZeroDivisionError("a defect"), InvalidBlock("a rule"), MemoryError()])
async def test_any_failure_drops_only_the_transactions_at_fault(
    genesis: Genesis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    chain = roomy(genesis, tmp_path / "roomy")
    txs = [transfer(sender, nonce) for nonce in range(5) for sender in range(1, 41)]
    # The last of their senders, so that no other waits for them.
    bad = {tx.hash for tx in txs if tx.nonce == 4 and tx.sender in (address(3), address(20), address(40))}
    attempts = spoil(monkeypatch, lambda txs: failure if any(tx.hash in bad for tx in txs) else None)

    rig = Rig(chain)
    async with rig.running():
        rig.submit(*txs)
        await asyncio.sleep(60)
    assert {tx_hash for tx_hash, _ in rig.dropped} == bad
    assert {reason for _, reason in rig.dropped} == {REASON}
    assert {tx.hash for _, made in rig.made for tx in made} == {tx.hash for tx in txs} - bad
    assert rig.pool.pending_count == 0
    # Each time half of what failed: the work of a block is twice that of a good one at most.
    assert sum(attempts) < 4_000
    chain.close()


async def test_so_many_at_fault_that_the_blocks_between_are_empty_are_all_dropped(
    genesis: Genesis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = roomy(genesis, tmp_path / "roomy")
    spoil(monkeypatch, lambda txs: ZeroDivisionError() if any(tx.value == 7 for tx in txs) else None)

    rig = Rig(chain)
    async with rig.running():
        rig.submit(*(transfer(sender, 0, value=7, gas_price=20) for sender in range(1, 40)), transfer(40, 0))
        await asyncio.sleep(30)
    assert len(rig.dropped) == 39
    assert [tx for _, txs in rig.made for tx in txs] == [transfer(40, 0)]
    chain.close()


async def test_a_block_whose_writing_fails_before_the_disk_drops_the_transaction_too(
    chain: ChainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_versions = chain._add_versions

    def fail(batch: Any, outcome: Any) -> Any:
        if transfer(2, 0) in outcome.block.txs:
            raise ValueError("cannot be encoded")
        return add_versions(batch, outcome)

    monkeypatch.setattr(chain, "_add_versions", fail)
    rig = Rig(chain)
    async with rig.running():
        rig.submit(transfer(1, 0), transfer(2, 0), transfer(3, 0))
        await asyncio.sleep(10)
    assert rig.dropped == [(transfer(2, 0).hash, REASON)]
    assert [tx for _, txs in rig.made for tx in txs] == [transfer(1, 0), transfer(3, 0)]


async def test_a_failure_after_the_block_is_on_disk_ends_the_run(chain: ChainStore) -> None:
    rig = Rig(chain)

    def fail(_: object) -> None:
        raise ZeroDivisionError("a defect")

    rig.engine._application._feed.subscribe(fail)
    rig.submit(transfer(1, 0))
    with pytest.raises(ZeroDivisionError):
        await rig.engine.run()
    assert (chain.visible, rig.dropped) == (1, [])


async def test_a_failure_without_a_transaction_at_fault_is_told_tried_again_later_and_passes(
    chain: ChainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(chain)
    attempts = spoil(monkeypatch, lambda _: ZeroDivisionError("a defect") if virtual_loop().now < 300 else None)
    async with rig.running():
        with capture_logs() as logs:
            rig.submit(transfer(1, 0))
            await asyncio.sleep(299)
        assert rig.engine.condition() == "not even an empty block can be made: ZeroDivisionError('a defect')"
        assert [line["event"] for line in logs] == ["no block can be made"]
        # After 1, 2, 4 ... 60 seconds; each tries the transaction and the empty block.
        assert 6 <= len(attempts) // 2 <= 12
        assert (rig.made, rig.dropped, rig.pool.pending_count) == ([], [], 1)
        await asyncio.sleep(100)
        assert rig.engine.condition() == OK
    assert [tx for _, txs in rig.made for tx in txs] == [transfer(1, 0)]


async def test_a_mempool_that_fails_is_told_and_ends_nothing(
    chain: ChainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise KeyError("lost")

    rig = Rig(chain)
    async with rig.running():
        with monkeypatch.context() as patched:
            patched.setattr(rig.pool, "take", fail)
            rig.submit(transfer(1, 0))
            await asyncio.sleep(10)
            assert rig.engine.condition() == "the mempool cannot be read: KeyError('lost')"
        await asyncio.sleep(10)
    assert len(rig.made) == 1


async def test_a_stop_and_another_pace_end_the_wait_for_a_retry(
    chain: ChainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(chain)
    spoil(monkeypatch, lambda _: ZeroDivisionError())
    async with rig.running():
        rig.submit(transfer(1, 0))
        await asyncio.sleep(100)
        stopped_at = virtual_loop().now
    assert virtual_loop().now == stopped_at


async def test_a_disk_that_fails_while_accounts_are_read_is_no_fault_of_a_transaction(
    chain: ChainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(chain)
    spoil(monkeypatch, lambda _: StoreUnavailable("the disk is gone"))
    rig.submit(transfer(1, 0))
    with pytest.raises(StoreUnavailable, match="the disk is gone"):
        await rig.engine.run()
    assert (rig.dropped, rig.pool.pending_count) == ([], 1)


# The clock.

YEAR_S = 366 * 86_400


def at(year: int) -> float:
    return datetime(year, 1, 1, tzinfo=UTC).timestamp()


async def test_a_clock_decades_ahead_of_the_latest_block_makes_no_block_until_it_is_right(chain: ChainStore) -> None:
    now = [at(2026)]
    rig = Rig(chain, clock=lambda: now[0], clock_watch=ClockWatch())
    # From genesis, whose time may be any.
    rig.submit(transfer(1, 0))
    rig.engine.produce()
    now[0] = at(2100)
    async with rig.running():
        rig.submit(transfer(1, 1))
        await asyncio.sleep(100)
        assert rig.engine.condition() == (
            "the clock says 2100-01-01 00:00:00 UTC, and block 1 is of 2026-01-01 00:00:00 UTC: "
            "no block is made until the clock is right, because the chain's time can never go back"
        )
        with pytest.raises(EngineUnavailable):
            rig.engine.produce()
        now[0] = at(2027)
        await asyncio.sleep(100)
        assert rig.engine.condition() == OK
    assert rig.timestamps == [at(2026), at(2027)]


async def test_years_without_a_block_are_no_reason_to_refuse_the_next_one(chain: ChainStore) -> None:
    now = [GENESIS_TIME + 5.0]
    rig = Rig(chain, clock=lambda: now[0], clock_watch=ClockWatch())
    rig.engine.produce()
    now[0] += 9 * YEAR_S
    rig.engine.produce()
    assert rig.timestamps == [GENESIS_TIME + 5, GENESIS_TIME + 5 + 9 * YEAR_S]


async def test_a_first_block_of_a_machine_that_had_lost_the_time_does_not_stop_the_chain_once_its_clock_is_set(
    chain: ChainStore,
) -> None:
    now = [at(1971)]
    rig = Rig(chain, clock=lambda: now[0], clock_watch=ClockWatch())
    rig.engine.produce()
    now[0] = at(2026)
    rig.engine.produce()
    assert rig.timestamps == [at(1971), at(2026)]


async def test_a_chain_ahead_of_the_clock_is_told_at_the_start_and_once_a_minute(chain: ChainStore) -> None:
    loop = virtual_loop()
    Rig(chain, clock=lambda: at(2030)).engine.produce()
    rig = Rig(chain, clock=lambda: at(2026) + loop.now, clock_watch=ClockWatch(lambda: loop.now))
    with untold_slowness(), capture_logs() as logs:
        async with rig.running():
            assert len(logs) == 1
            for nonce in range(90):
                rig.submit(transfer(1, nonce))
                await asyncio.sleep(1)
    assert len(rig.made) >= 40
    assert set(rig.timestamps) == {at(2030)}
    assert [(line["event"][:36], line["log_level"]) for line in logs] == [
        ("the chain's time is ahead of the clo", "warning")
    ] * 2
    assert logs[0]["chain_time"] == "2030-01-01 00:00:00 UTC"
    assert logs[0]["clock"] == "2026-01-01 00:00:00 UTC"


async def test_a_clock_that_a_developer_moves_is_not_watched(chain: ChainStore) -> None:
    now = [at(2026)]
    rig = Rig(chain, clock=lambda: now[0])
    with untold_slowness(), capture_logs() as logs:
        for year in (2026, 2100, 2050):
            now[0] = at(year)
            rig.engine.produce()
    assert rig.timestamps == [at(2026), at(2100), at(2100)]
    assert logs == []
