"""Our own engine, for a chain with one block maker: takes transactions from the mempool at a steady pace."""

import asyncio
import math
from collections.abc import Callable, Mapping

from cairn.domain.governance import ValidatorUpdate
from cairn.domain.transition import BlockOutcome
from cairn.domain.types import Address, TxHash
from cairn.engine.application import Application
from cairn.engine.pace import Pace, Ticks
from cairn.engine.port import OK
from cairn.engine.upkeep import Pruning
from cairn.mempool.pool import Mempool


class EmbeddedEngine:
    """Makes blocks while `run` runs.

    A block is selected, applied and committed without returning to the event loop, so the mempool cannot replace or
    drop its transactions meanwhile.
    """

    name = "embedded"
    peers = 0

    def __init__(
        self,
        application: Application,
        pool: Mempool,
        on_committed: Callable[[BlockOutcome], None],
        *,
        pace: Pace,
        proposer: Address,
        clock: Callable[[], float],
        pruning: Pruning | None = None,
    ) -> None:
        """`on_committed` must remove the block's transactions from the pool. `clock` gives Unix time."""
        self._application = application
        self._pool = pool
        self._on_committed = on_committed
        self._pace = pace
        self._proposer = proposer
        self._clock = clock
        self._pruning = pruning
        self._automine, self._interval = Ticks(), Ticks()
        self._woken = asyncio.Event()
        self.wake = self._woken.set
        """Set when the pool may have something to include."""
        self._is_stopped = False
        self._interrupted = asyncio.Event()
        """Set by a stop or another pace."""
        pace.on_change = self._interrupt

    async def run(self) -> None:
        """Make blocks until `stop`. Raises what ended it: `StoreUnavailable`, or a bug."""
        loop, pruning = asyncio.get_running_loop(), self._pruning
        try:
            if pruning is not None:
                pruning.start(lambda: loop.call_soon_threadsafe(self._interrupt))
            await self._make_blocks()
        finally:
            if pruning is not None:
                self._pruning = None
                pruning.close()

    async def _make_blocks(self) -> None:
        loop = asyncio.get_running_loop()
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
                self.produce()
                # Let the event loop serve others between two blocks.
                await asyncio.sleep(0)

    def stop(self) -> None:
        """Let `run` return. A block is never left half made."""
        self._is_stopped = True
        self._interrupt()

    def _interrupt(self) -> None:
        self._interrupted.set()
        self._woken.set()

    def condition(self) -> str:
        """Always `ok`: a failure ends `run`."""
        return OK

    def adopt(self, tx_hash: TxHash) -> bool:
        """Nothing to do: there are no other nodes."""
        return False

    def vouch_for(self, update: ValidatorUpdate) -> None:
        """Nothing to do: there are no peers."""

    def produce(self) -> BlockOutcome:
        """Make one block now, from the pool."""
        txs = self._pool.select(self._application.rules.block_gas_limit)
        self._application.finalize(txs, int(self._clock()), self._proposer)
        return self._commit()

    def set_balances(self, balances: Mapping[Address, int], timestamp: int) -> BlockOutcome:
        """Make one block now that sets balances and holds no transactions. On dev chains only."""
        self._application.hold(self._application.build((), timestamp, self._proposer, balances=balances))
        return self._commit()

    def _commit(self) -> BlockOutcome:
        outcome = self._application.commit()
        self._on_committed(outcome)
        if self._pruning is not None:
            self._pruning.after_commit()
        return outcome

    async def _sleep_until(self, due: float, ended: asyncio.Event) -> None:
        """Wait until the event, or until the loop's time is `due`."""
        loop = asyncio.get_running_loop()
        while (delay_s := due - loop.time()) > 0 and not ended.is_set():
            try:
                await asyncio.wait_for(ended.wait(), None if delay_s == math.inf else delay_s)
            except TimeoutError:
                continue
