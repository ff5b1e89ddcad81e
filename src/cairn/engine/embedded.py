"""Our own engine, for a chain with one block maker: takes transactions from the mempool at a steady pace."""

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import structlog

from cairn.board import Part
from cairn.domain.certificates import Certificate
from cairn.domain.errors import EngineUnavailable, InvalidBlock, NodeError, NotFound
from cairn.domain.governance import Update
from cairn.domain.steps import Steps, finish
from cairn.domain.transition import BlockOutcome
from cairn.domain.types import LATEST_TIME, Address, BlockHeader, DropReason, Tx, TxHash
from cairn.engine.application import NO_VALIDATORS, OK, Application
from cairn.engine.upkeep import Upkeep
from cairn.mempool.pool import Mempool
from cairn.store.chain import ChainStore
from cairn.time_shares import in_slices

log = structlog.get_logger("cairn.engine")


class Pace:
    """Two switches, as in hardhat: automine makes a block for transactions, and an interval makes blocks in any case. A
    pending transaction is in whichever block comes first.

    It outlives an engine: a dev chain keeps its pace after a revert.
    """

    def __init__(self, block_time_s: float, empty_blocks: bool) -> None:
        """Without empty blocks, the block time is the interval at which transactions get a block; 0 means at once."""
        is_interval = empty_blocks and block_time_s > 0
        self.automine_s: float | None = None if is_interval else block_time_s
        """The interval at which transactions get a block; 0 means at once, None never."""
        self.interval_s: float | None = block_time_s if is_interval else None
        """The interval of blocks that are made in any case, empty or not; None means never."""
        self.on_change: Callable[[], None] = lambda: None
        """Set by the engine that runs."""

    def set_automine(self, on: bool, *, alone: bool = False) -> None:
        """With `alone`, as in anvil, switching one on switches the other off."""
        self.automine_s = 0.0 if on else None
        if on and alone:
            self.interval_s = None
        self.on_change()

    def set_interval(self, seconds: float, *, alone: bool = False) -> None:
        """0 means none; with `alone` that ends all mining."""
        self.interval_s = seconds or None
        if alone:
            self.automine_s = None
        self.on_change()

    def set(self, automine_s: float | None, interval_s: float | None) -> None:
        """Both at once, as they were at some time."""
        self.automine_s, self.interval_s = automine_s, interval_s or None
        self.on_change()


class Ticks:
    """Multiples of a period, counted from when it was set, so that a slow block delays no later one."""

    def __init__(self) -> None:
        self._period_s: float | None = None
        self._start = 0.0
        self._next = self._used = 0

    def due(self, period_s: float | None, now: float) -> float:
        """The next time; infinity without a period, now if the period is 0."""
        if period_s != self._period_s:
            self._period_s, self._start, self._next, self._used = period_s, now, 0, 0
        if not period_s:
            return math.inf if period_s is None else now
        # Never the same one twice: a timer may fire slightly early.
        self._next = max(self._used, int((now - self._start) / period_s)) + 1
        return self._start + self._next * period_s

    def use(self) -> None:
        """The time that `due` returned last has passed."""
        self._used = self._next


FAR_AHEAD_S = 10 * 366 * 86_400
"""No chain that is in use waits ten years for a transaction; clocks that lost their battery do err by decades."""
EARLIEST_RIGHT = 1_735_689_600
"""The year 2025. A block from before it was made by a machine that did not know the time, as many do not after a start.
Once such a clock is set, it is the latest block that is decades behind."""
BEHIND_S = 60
"""How far behind the chain a clock is before that is worth a warning."""
WARN_EVERY_S = 60.0


class ClockWatch:
    """Looks at the machine's clock before a block is made: a chain's time never goes back.

    A clock that is behind the chain, because it was ahead once, does no harm: blocks get the time of the one before,
    and the operator is told. One that is years ahead of the latest block would put the chain's time there for good, so
    no block is made until it is right.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._warned_at: float | None = None

    def check(self, latest: BlockHeader, now: float) -> None:
        """`now` is Unix time. Raises `EngineUnavailable` when a block of that time would spoil the chain's."""
        # The time of genesis may be any, so nothing follows from its distance.
        is_known = latest.height > 0 and latest.timestamp >= EARLIEST_RIGHT
        if is_known and now > latest.timestamp + FAR_AHEAD_S:
            raise EngineUnavailable(
                f"the clock says {_utc(now)}, and block {latest.height} is of {_utc(latest.timestamp)}: "
                f"no block is made until the clock is right, because the chain's time can never go back"
            )
        if latest.timestamp > now + BEHIND_S and self._is_time_to_warn():
            log.warning(
                "the chain's time is ahead of the clock: until the clock is there, blocks get the latest block's time",
                height=latest.height,
                chain_time=_utc(latest.timestamp),
                clock=_utc(now),
            )

    def _is_time_to_warn(self) -> bool:
        now = self._monotonic()
        if self._warned_at is not None and now < self._warned_at + WARN_EVERY_S:
            return False
        self._warned_at = now
        return True


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(min(seconds, LATEST_TIME), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


class Pruning(Upkeep):
    """Removes all but the latest `retain_blocks` blocks of a chain that one node makes."""

    name = "pruning"

    def __init__(self, chain: ChainStore, retain_blocks: int) -> None:
        super().__init__(chain)
        self._retain_blocks = retain_blocks
        self._is_unfinished = True
        """At a start: the removal may have been cut off, and the setting may be new."""

    def start(self, on_failed: Callable[[], object]) -> None:
        """`on_failed` is called in the thread when `check` is going to raise."""
        self._on_failed = on_failed
        self._wake()

    def after_commit(self) -> None:
        if self._is_due():
            self._wake()

    def _oldest_kept(self) -> int:
        return max(self._chain.base, self._chain.visible - self._retain_blocks + 1)

    def _is_due(self) -> bool:
        return self._is_unfinished or self._oldest_kept() > self._chain.base

    def _do(self) -> None:
        self._chain.prune(self._oldest_kept(), self._pause)
        self._is_unfinished = False


MOST_AT_ONCE = 64
"""Transactions of a block that is made before they are answered: their answers wait for it."""
MOST_SET_ASIDE = 16
"""Transactions that may be set aside for one block; with more of them, the block is empty."""
FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 60.0


class _NotApplied(Exception):
    """A block could not be made, and nothing of it is on disk."""


SMALL_BLOCK = 64
"""A block of fewer transactions is made in one go: that takes little more than a millisecond."""


class EmbeddedEngine:
    """Makes blocks while `run` runs.

    A large block is made in slices, between which the event loop serves others. Nothing of it is to be seen before it
    is written, which is one step, and the mempool keeps its transactions until then. Until it is written it can be
    given up, which a stop does.
    """

    name = "embedded"
    peers = 0
    part_at_fault: Part = "engine"

    def __init__(
        self,
        application: Application,
        pool: Mempool,
        on_committed: Callable[[BlockOutcome], Steps[None]],
        on_dropped: Callable[[Sequence[tuple[TxHash, DropReason]]], None],
        *,
        pace: Pace,
        proposer: Address,
        clock: Callable[[], float],
        clock_watch: ClockWatch | None = None,
        pruning: Pruning | None = None,
    ) -> None:
        """`on_committed` must remove the block's transactions from the pool; `on_dropped` is called with what was
        dropped. `clock` gives Unix time; without a watch, it may give any.
        """
        self._application = application
        self._pool = pool
        self._on_committed = on_committed
        self._on_dropped = on_dropped
        self._pace = pace
        self._proposer = proposer
        self._clock = clock
        self._clock_watch = clock_watch
        self._condition = OK
        self._pruning = pruning
        self._automine, self._interval = Ticks(), Ticks()
        self._woken = asyncio.Event()
        """Set when the pool has something to include."""
        self._is_running = False
        self._is_stopped = False
        self._making: Steps[BlockOutcome] | None = None
        """What is left to do for the block that is being made in slices."""
        self._interrupted = asyncio.Event()
        """Set by a stop or another pace."""
        pace.on_change = self._interrupt

    async def run(self) -> None:
        """Make blocks until `stop`. Raises what ended it: `StoreUnavailable`, or a bug."""
        loop, pruning = asyncio.get_running_loop(), self._pruning
        try:
            if pruning is not None:
                pruning.start(lambda: loop.call_soon_threadsafe(self._interrupt))
            self._is_running = True
            await self._make_blocks()
        finally:
            self._is_running = False
            if pruning is not None:
                self._pruning = None
                pruning.close()

    async def _make_blocks(self) -> None:
        loop, retry_s = asyncio.get_running_loop(), FIRST_RETRY_S
        try:
            self._look_at_clock()
        except EngineUnavailable as failure:
            # Not a condition yet: there is nothing to put into a block.
            log.error("no block can be made", reason=failure.detail)
        while not self._is_stopped:
            if self._pruning is not None:
                self._pruning.check()
            self._interrupted.clear()
            self._woken.clear()
            has_txs = bool(self._pool.pending_count)
            for_txs = self._automine.due(self._pace.automine_s, loop.time())
            in_any_case = self._interval.due(self._pace.interval_s, loop.time())
            due = min(for_txs, in_any_case) if has_txs else in_any_case
            # New transactions matter only if there were none and automine is on.
            is_idle = not has_txs and for_txs < math.inf
            await self._sleep_until(due, self._woken if is_idle else self._interrupted)
            if loop.time() < due or self._interrupted.is_set():
                continue
            for ticks, told in ((self._automine, for_txs), (self._interval, in_any_case)):
                if told <= due:
                    ticks.use()
            if due == in_any_case or self._pool.pending_count:
                try:
                    await self._make_block()
                except EngineUnavailable:
                    # Told by `produce`. It may pass by itself, as a wrong clock does.
                    await self._sleep_until(loop.time() + retry_s, self._interrupted)
                    retry_s = min(2 * retry_s, LONGEST_RETRY_S)
                else:
                    retry_s = FIRST_RETRY_S
                    # Let the event loop serve others between two blocks.
                    await asyncio.sleep(0)

    def wake(self) -> None:
        if self._pool.pending_count:
            self._woken.set()

    def make_block_at_once(self) -> None:
        is_free = self._is_running and not self._is_stopped and self._making is None
        is_at_once = self._pace.automine_s == 0 and is_free
        # After a failure `run` waits before it tries again.
        if is_at_once and self._condition == OK and 0 < self._pool.pending_count <= MOST_AT_ONCE:
            # It is told, and `run` tries again.
            with suppress(EngineUnavailable):
                self.produce()

    async def _make_block(self) -> None:
        """As `produce`, in slices if it is large."""
        if self._pool.pending_count < SMALL_BLOCK:
            self.produce()
            return
        self._making = self._block()
        try:
            async for _ in in_slices(self._unless_stopped(self._making)):
                pass
        finally:
            self._making = None

    def _unless_stopped(self, making: Steps[BlockOutcome]) -> Iterator[None]:
        """The steps, looking for a stop before each: one that came since the last may not be followed by the write."""
        head = self._application.head
        for _ in making:
            yield
            if self._is_stopped and self._application.head is head:
                # Nothing of it is on disk.
                making.close()

    def finish_block(self) -> None:
        """Complete the block that is being made, if there is one, without giving way. Raises what `produce` raises."""
        if self._making is not None:
            finish(self._making)

    def stop(self) -> None:
        """Let `run` return. A block that is not written yet is given up, one that is written is completed."""
        self._is_stopped = True
        self._interrupt()

    def _interrupt(self) -> None:
        self._interrupted.set()
        self._woken.set()

    def condition(self) -> str:
        """`ok`, or why the last block could not be made. A failure of the store ends `run`."""
        return self._condition

    def adopt(self, tx_hash: TxHash) -> bool:
        """Nothing to do: there are no other nodes."""
        return False

    async def submit_update(self, update: Update) -> None:
        """A chain with validators needs the other engine."""
        raise NotFound(NO_VALIDATORS)

    async def certificate(self, height: int | None) -> Certificate:
        return self._application.certificate(height)

    def produce(self) -> BlockOutcome:
        """Make one block now, from the pool, after the one that is being made. Raises `EngineUnavailable`."""
        self.finish_block()
        return finish(self._block())

    def _block(self) -> Steps[BlockOutcome]:
        """Make one block from the pool. Raises `EngineUnavailable` when none can be made."""
        try:
            self._look_at_clock()
            outcome = yield from self._write_some(int(self._clock()))
            self._condition = OK
            yield from self._committed(outcome)
            return outcome
        except EngineUnavailable as failure:
            if self._condition != failure.detail:
                log.error("no block can be made", reason=failure.detail, exc_info=failure.__cause__)
            self._condition = failure.detail
            raise
        finally:
            self._pool.give_back()

    def _look_at_clock(self) -> None:
        """Refuse to make a block while the clock cannot be right. Raises `EngineUnavailable`."""
        if self._clock_watch is not None:
            self._clock_watch.check(self._application.head, self._clock())

    def _write_some(self, timestamp: int) -> Steps[BlockOutcome]:
        """Write a block of the pool's transactions, without those that the chain cannot apply."""
        for _ in range(MOST_SET_ASIDE):
            txs = yield from self._take()
            outcome = yield from self._write_first(txs, timestamp)
            if outcome is not None:
                return outcome
        return (yield from self._write_empty(timestamp))

    def _take(self) -> Steps[Sequence[Tx]]:
        try:
            return (yield from self._pool.take(self._application.rules.block_gas_limit))
        except NodeError:
            raise
        except Exception as failure:
            raise EngineUnavailable(f"the mempool cannot be read: {failure!r}") from failure

    def _write_first(self, txs: Sequence[Tx], timestamp: int) -> Steps[BlockOutcome | None]:
        """Write a block of as many of `txs` as can be applied, from the first on; halved until it can be made.

        None if it is the first that cannot be applied; it is dropped then. Each was valid when it was accepted, so
        there is a defect here, or in a balance. It must not stop the others, now or after a restart.
        """
        while txs:
            try:
                return (yield from self._write(txs, timestamp))
            except _NotApplied as failure:
                if len(txs) > 1:
                    txs = txs[: len(txs) // 2]
                    continue
                self._set_aside(txs[0], failure, timestamp)
                return None
        return (yield from self._write_empty(timestamp))

    def _set_aside(self, tx: Tx, failure: _NotApplied, timestamp: int) -> None:
        try:
            self._application.build((), timestamp, self._proposer)
        except NodeError:
            raise
        except Exception as cause:
            # The transaction is not at fault.
            raise _no_block(cause) from cause
        tx_hash, reason = "0x" + tx.hash.hex(), repr(failure.__cause__)
        log.error("dropped a transaction that cannot be applied", tx=tx_hash, reason=reason, exc_info=failure.__cause__)
        self._on_dropped(self._pool.remove(tx.hash, "cannot be applied"))

    def _write_empty(self, timestamp: int) -> Steps[BlockOutcome]:
        try:
            return (yield from self._write((), timestamp))
        except _NotApplied as failure:
            raise _no_block(failure.__cause__) from failure.__cause__

    def _write(self, txs: Sequence[Tx], timestamp: int) -> Steps[BlockOutcome]:
        """Make a block and commit it.

        Raises `_NotApplied` if the block cannot be made of these transactions, and what the store raises.
        """
        before = self._application.head
        try:
            return (yield from self._application.write(txs, timestamp, self._proposer))
        except Exception as failure:
            is_of_store = isinstance(failure, NodeError) and not isinstance(failure, InvalidBlock)
            if is_of_store or self._application.head is not before:
                raise
            raise _NotApplied from failure

    def set_balances(self, balances: Mapping[Address, int], timestamp: int) -> BlockOutcome:
        """Make one block now that sets balances and holds no transactions. On dev chains only."""
        self.finish_block()
        self._application.finalize((), timestamp, self._proposer, balances)
        outcome = self._application.commit()
        finish(self._committed(outcome))
        return outcome

    def _committed(self, outcome: BlockOutcome) -> Steps[None]:
        yield from self._on_committed(outcome)
        if self._pruning is not None:
            self._pruning.after_commit()

    async def _sleep_until(self, due: float, ended: asyncio.Event) -> None:
        """Wait until the event, or until the loop's time is `due`."""
        loop = asyncio.get_running_loop()
        while (delay_s := due - loop.time()) > 0 and not ended.is_set():
            try:
                await asyncio.wait_for(ended.wait(), None if delay_s == math.inf else delay_s)
            except TimeoutError:
                continue


def _no_block(cause: BaseException | None) -> EngineUnavailable:
    return EngineUnavailable(f"not even an empty block can be made: {cause!r}")
