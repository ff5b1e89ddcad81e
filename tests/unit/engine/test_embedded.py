"""When the embedded engine makes a block, and what it puts into it. Time is virtual; the store is real."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from cairn.domain.errors import StoreUnavailable
from cairn.domain.steps import Steps
from cairn.domain.transition import BlockOutcome
from cairn.domain.types import DropReason, Tx, TxHash
from cairn.engine.application import Application, Feed
from cairn.engine.embedded import ClockWatch, EmbeddedEngine, Pace
from cairn.engine.signing import BlockSigner
from cairn.mempool.pool import Mempool, PoolLimits
from cairn.store.chain import ChainStore
from cairn.store.signing_key import SigningKeys
from tests.support.transfers import address, transfer
from tests.support.virtual_time import virtual_loop
from tests.unit.engine.conftest import GENESIS_TIME

pytestmark = pytest.mark.virtual_time

PROPOSER = address(50)


class Rig:
    """An engine with what it drives, and a record of what it made and when."""

    def __init__(
        self,
        chain: ChainStore,
        *,
        block_time_s: float = 1.0,
        empty_blocks: bool = False,
        clock: Callable[[], float] | None = None,
        clock_watch: ClockWatch | None = None,
        work_s: float = 0.0,
    ) -> None:
        loop = virtual_loop()
        self.chain = chain
        self.pool = Mempool(chain.genesis.rules, PoolLimits(), chain)
        self.made: list[tuple[float, list[Tx]]] = []
        self.timestamps: list[int] = []
        self.dropped: list[tuple[TxHash, DropReason]] = []
        self.pace = Pace(block_time_s, empty_blocks)
        self.engine = EmbeddedEngine(
            Application(chain, Feed(), BlockSigner(chain, SigningKeys())),
            self.pool,
            self._committed,
            self.dropped.extend,
            pace=self.pace,
            proposer=PROPOSER,
            clock=clock or (lambda: GENESIS_TIME + loop.now),
            clock_watch=clock_watch,
        )
        self._work_s = work_s

    def _committed(self, outcome: BlockOutcome) -> Steps[None]:
        assert self.chain.head_hash == outcome.block.hash, "told before the block was on disk"
        assert (yield from self.pool.confirm_steps(outcome.block.txs)) == []
        self.made.append((round(virtual_loop().now, 6), list(outcome.block.txs)))
        self.timestamps.append(outcome.block.header.timestamp)
        virtual_loop().spend(self._work_s)

    @property
    def times(self) -> list[float]:
        return [time for time, _ in self.made]

    def submit(self, *txs: Tx) -> None:
        for tx in txs:
            self.pool.admit(tx, 0)
        self.engine.wake()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.ensure_future(self.engine.run())
        # The engine takes its first look before the test goes on.
        await asyncio.sleep(0)
        yield
        self.engine.stop()
        await task


def transfers(count: int, first_nonce: int = 0, sender: int = 1) -> list[Tx]:
    return [transfer(sender, nonce) for nonce in range(first_nonce, first_nonce + count)]


async def test_a_block_is_made_at_the_next_tick_when_there_is_something(chain: ChainStore) -> None:
    rig = Rig(chain)
    async with rig.running():
        await asyncio.sleep(0.3)
        rig.submit(transfer(1, 0))
        await asyncio.sleep(0.9)
        rig.submit(transfer(1, 1), transfer(2, 0))
        await asyncio.sleep(5)
    assert rig.made == [(1.0, [transfer(1, 0)]), (2.0, [transfer(1, 1), transfer(2, 0)])]


async def test_an_idle_engine_makes_nothing_and_keeps_its_pace(chain: ChainStore) -> None:
    rig = Rig(chain, block_time_s=2.0)
    async with rig.running():
        await asyncio.sleep(101)
        assert rig.made == []
        rig.submit(transfer(1, 0))
        await asyncio.sleep(10)
    assert rig.times == [102.0]


async def test_the_pace_changes_while_it_runs(chain: ChainStore) -> None:
    rig = Rig(chain, block_time_s=0.0)
    async with rig.running():
        rig.submit(transfer(1, 0))
        await asyncio.sleep(1)
        rig.pace.set_automine(False)
        rig.submit(transfer(1, 1))
        await asyncio.sleep(9)
        assert rig.times == [0.0], "no pace at all: only on demand"
        rig.pace.set_interval(4.0)
        await asyncio.sleep(5)
        assert rig.times == [0.0, 14.0]
        rig.submit(transfer(1, 2))
        rig.pace.set_automine(True)
        await asyncio.sleep(1)
        assert rig.times == [0.0, 14.0, 15.0]
        rig.pace.set_automine(False)
        rig.submit(transfer(1, 3))
        await asyncio.sleep(5)
        assert rig.times == [0.0, 14.0, 15.0, 18.0], "the interval goes on, whatever was done to the other switch"
        rig.pace.set_interval(0)
        rig.submit(transfer(1, 4))
        await asyncio.sleep(50)
    assert len(rig.made) == 4


async def test_an_interval_makes_empty_blocks_beside_those_made_at_once(chain: ChainStore) -> None:
    rig = Rig(chain, block_time_s=0.0)
    async with rig.running():
        rig.pace.set_interval(2.0)
        await asyncio.sleep(3)
        rig.submit(transfer(1, 0))
        await asyncio.sleep(2)
    assert rig.made == [(2.0, []), (3.0, [transfer(1, 0)]), (4.0, [])]


async def test_an_earlier_pace_is_set_as_a_whole(chain: ChainStore) -> None:
    rig = Rig(chain, block_time_s=2.0)
    async with rig.running():
        rig.pace.set_automine(False)
        rig.pace.set_interval(5.0)
        await asyncio.sleep(6)
        rig.pace.set(2.0, None)
        rig.submit(transfer(1, 0))
        await asyncio.sleep(50)
        rig.pace.set(None, 0.0)
        rig.submit(transfer(1, 1))
        await asyncio.sleep(50)
    assert rig.made == [(5.0, []), (8.0, [transfer(1, 0)])], "0 is no interval"


@pytest.mark.parametrize(("empty_blocks", "made_at"), [(False, []), (True, [1.0, 2.0, 3.0])])
async def test_without_automine_transactions_call_for_no_block(
    chain: ChainStore, empty_blocks: bool, made_at: list[float]
) -> None:
    """The pace of the start is automine's, unless it makes empty blocks too: then it is an interval."""
    rig = Rig(chain, empty_blocks=empty_blocks)
    async with rig.running():
        rig.pace.set_automine(False)
        rig.submit(transfer(1, 0))
        await asyncio.sleep(3.5)
    assert rig.times == made_at


async def test_an_interval_comes_on_top_of_the_pace_of_the_start(chain: ChainStore) -> None:
    rig = Rig(chain, block_time_s=2.0)
    async with rig.running():
        rig.pace.set_interval(3.0)
        rig.submit(transfer(1, 0))
        await asyncio.sleep(5.5)
        rig.submit(transfer(1, 1))
        await asyncio.sleep(1)
        rig.pace.set_interval(0)
        await asyncio.sleep(50)
    assert rig.made == [(2.0, [transfer(1, 0)]), (3.0, []), (6.0, [transfer(1, 1)])], "one block where both are due"


async def test_a_mining_switch_with_alone_turns_the_other_off(chain: ChainStore) -> None:
    rig = Rig(chain, block_time_s=0.0)
    async with rig.running():
        rig.pace.set_interval(4.0, alone=True)
        rig.submit(transfer(1, 0))
        await asyncio.sleep(5)
        assert rig.made == [(4.0, [transfer(1, 0)])]
        rig.pace.set_automine(False, alone=True)
        await asyncio.sleep(5)
        assert rig.times == [4.0, 8.0], "automine was off already"
        rig.pace.set_automine(True, alone=True)
        await asyncio.sleep(1)
        rig.submit(transfer(1, 1))
        await asyncio.sleep(9)
    assert rig.times == [4.0, 8.0, 11.0]


async def test_a_wake_without_cause_makes_nothing(chain: ChainStore) -> None:
    rig = Rig(chain)
    async with rig.running():
        for _ in range(5):
            rig.engine.wake()
            await asyncio.sleep(0.7)
        rig.submit(transfer(1, 1))
        await asyncio.sleep(3)
        assert rig.pool.queued_count == 1
    assert rig.made == []


@pytest.mark.parametrize(("block_time_s", "made_at"), [(1.0, 1.0), (0.0, 0.0)])
async def test_transactions_pending_at_the_start_are_mined_without_a_wake(
    chain: ChainStore, block_time_s: float, made_at: float
) -> None:
    rig = Rig(chain, block_time_s=block_time_s)
    rig.pool.admit(transfer(1, 0), 0)
    async with rig.running():
        await asyncio.sleep(2)
    assert rig.made == [(made_at, [transfer(1, 0)])]


async def test_empty_blocks_give_a_steady_tick(chain: ChainStore) -> None:
    rig = Rig(chain, empty_blocks=True, block_time_s=0.5)
    async with rig.running():
        await asyncio.sleep(1.2)
        rig.submit(transfer(1, 0))
        await asyncio.sleep(1)
    assert rig.made == [(0.5, []), (1.0, []), (1.5, [transfer(1, 0)]), (2.0, [])]


async def test_work_on_a_block_does_not_delay_the_next(chain: ChainStore) -> None:
    rig = Rig(chain, empty_blocks=True, work_s=0.3)
    async with rig.running():
        await asyncio.sleep(6.1)
    assert rig.times == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


async def test_ticks_missed_by_long_work_are_skipped(chain: ChainStore) -> None:
    rig = Rig(chain, empty_blocks=True, work_s=1.5)
    async with rig.running():
        await asyncio.sleep(8)
    assert rig.times == [1.0, 3.0, 5.0, 7.0]


async def test_a_pace_that_binary_fractions_cannot_hold_does_not_drift(chain: ChainStore) -> None:
    rig = Rig(chain, empty_blocks=True, block_time_s=0.1)
    async with rig.running():
        await asyncio.sleep(5.05)
    assert rig.times == [round(tick * 0.1, 6) for tick in range(1, 51)]


async def test_the_gas_limit_cuts_blocks(chain: ChainStore) -> None:
    rig = Rig(chain)
    txs = transfers(7)
    async with rig.running():
        rig.submit(*txs)
        await asyncio.sleep(5)
    assert rig.made == [(1.0, txs[:3]), (2.0, txs[3:6]), (3.0, txs[6:])]
    assert chain.head_header.gas_used == 21_000


async def test_without_a_block_time_each_submission_gets_its_block_at_once(chain: ChainStore) -> None:
    rig = Rig(chain, block_time_s=0)
    async with rig.running():
        await asyncio.sleep(0.25)
        rig.submit(transfer(1, 0))
        await asyncio.sleep(0.25)
        rig.submit(transfer(1, 1), transfer(2, 0))
        await asyncio.sleep(5)
    assert rig.made == [(0.25, [transfer(1, 0)]), (0.5, [transfer(1, 1), transfer(2, 0)])]


async def test_without_a_block_time_a_large_submission_gets_blocks_in_a_row(chain: ChainStore) -> None:
    rig = Rig(chain, block_time_s=0)
    txs = transfers(7)
    async with rig.running():
        rig.submit(*txs)
        await asyncio.sleep(1)
    assert rig.made == [(0.0, txs[:3]), (0.0, txs[3:6]), (0.0, txs[6:])]


async def test_without_a_block_time_others_run_between_two_blocks(chain: ChainStore) -> None:
    rig = Rig(chain, block_time_s=0)
    seen: list[int] = []

    async def watch() -> None:
        while len(rig.made) < 3:
            seen.append(len(rig.made))
            await asyncio.sleep(0)

    async with rig.running():
        rig.submit(*transfers(9))
        await watch()
    assert {1, 2} <= set(seen)


async def test_without_a_block_time_there_are_no_empty_blocks(chain: ChainStore) -> None:
    rig = Rig(chain, block_time_s=0, empty_blocks=True)
    async with rig.running():
        rig.engine.wake()
        await asyncio.sleep(5)
    assert rig.made == []


@pytest.mark.parametrize(
    ("clock_s", "expected"),
    [
        ([5.9, 6.0, 7.2], [5, 6, 7]),
        ([5, 3, 4, 6], [5, 5, 5, 6]),
        ([-100, 2], [0, 2]),
    ],
)
async def test_timestamps_are_whole_seconds_and_never_go_back(
    chain: ChainStore, clock_s: Sequence[float], expected: list[int]
) -> None:
    times = iter(clock_s)
    rig = Rig(chain, clock=lambda: GENESIS_TIME + next(times))
    for _ in clock_s:
        rig.engine.produce()
    assert rig.timestamps == [GENESIS_TIME + seconds for seconds in expected]


async def test_fees_go_to_the_proposer(chain: ChainStore) -> None:
    rig = Rig(chain)
    rig.pool.admit(transfer(1, 0, gas_price=15), 0)
    rig.engine.produce()
    assert chain.account(PROPOSER).balance == 15 * 21_000


@pytest.mark.parametrize("block_time_s", [0.0, 1.0])
@pytest.mark.parametrize("empty_blocks", [False, True])
async def test_stop_ends_the_run_at_once(chain: ChainStore, block_time_s: float, empty_blocks: bool) -> None:
    rig = Rig(chain, block_time_s=block_time_s, empty_blocks=empty_blocks)
    async with rig.running():
        await asyncio.sleep(10.5)
        stopped_at = virtual_loop().now
        made = len(rig.made)
    assert virtual_loop().now == stopped_at
    assert len(rig.made) == made


async def test_stop_makes_no_block_before_its_time(chain: ChainStore) -> None:
    rig = Rig(chain)
    async with rig.running():
        rig.submit(transfer(1, 0))
        await asyncio.sleep(0.5)
    assert (rig.made, rig.pool.pending_count, virtual_loop().now) == ([], 1, 0.5)


@pytest.mark.parametrize("block_time_s", [0.0, 1.0])
async def test_an_engine_stopped_before_its_run_makes_nothing(chain: ChainStore, block_time_s: float) -> None:
    rig = Rig(chain, block_time_s=block_time_s)
    rig.submit(transfer(1, 0))
    rig.engine.stop()
    await rig.engine.run()
    assert (rig.made, virtual_loop().now) == ([], 0.0)


@pytest.mark.parametrize("block_time_s", [0.0, 1.0])
async def test_a_disk_that_refuses_ends_the_run_and_leaves_the_pool_alone(
    chain: ChainStore, monkeypatch: pytest.MonkeyPatch, block_time_s: float
) -> None:
    def refuse(*arguments: object) -> None:
        raise StoreUnavailable("the disk is full")

    rig = Rig(chain, block_time_s=block_time_s)
    monkeypatch.setattr(chain, "commit", refuse)
    rig.submit(transfer(1, 0))
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        await rig.engine.run()
    assert (rig.made, rig.pool.pending_count) == ([], 1)
