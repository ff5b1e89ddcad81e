"""Our own engine, for a chain with one block maker: takes transactions from the mempool at a steady pace."""

import asyncio
from collections.abc import Callable, Mapping

from cairn.domain.governance import ValidatorUpdate
from cairn.domain.transition import BlockOutcome
from cairn.domain.types import Address, TxHash
from cairn.engine.application import Application
from cairn.engine.pace import Pace
from cairn.engine.port import OK
from cairn.mempool.pool import Mempool


class EmbeddedEngine:
    """Makes blocks while `run` runs.

    A block is selected, applied and committed without a pause for anything else, so the mempool cannot replace or
    drop what a block in the making holds.
    """

    name = "embedded"

    def __init__(
        self,
        application: Application,
        pool: Mempool,
        on_committed: Callable[[BlockOutcome], None],
        *,
        pace: Pace,
        empty_blocks: bool,
        proposer: Address,
        clock: Callable[[], float],
    ) -> None:
        """`on_committed` must take the block's transactions out of the pool. `clock` gives Unix time."""
        self._application = application
        self._pool = pool
        self._on_committed = on_committed
        self._pace = pace
        self._empty_blocks = empty_blocks
        self._proposer = proposer
        self._clock = clock
        self._woken = asyncio.Event()
        self.wake = self._woken.set
        """Tells that the pool may have something to include."""
        self._is_stopped = False
        self._interrupted = asyncio.Event()
        """By a stop or another pace."""
        pace.on_change = self._interrupt

    async def run(self) -> None:
        """Make blocks until `stop`. Raises what ended it: `StoreUnavailable`, or a fault of our own."""
        while not self._is_stopped:
            self._interrupted.clear()
            block_time_s = self._pace.block_time_s
            if block_time_s is None:
                await self._interrupted.wait()
            elif block_time_s > 0:
                await self._run_paced(block_time_s)
            else:
                await self._run_at_once()

    def stop(self) -> None:
        """Let `run` return. A block is never left half made."""
        self._is_stopped = True
        self._interrupt()

    def _interrupt(self) -> None:
        self._interrupted.set()
        self._woken.set()

    def condition(self) -> str:
        """Always well: a failure ends `run`."""
        return OK

    def adopt(self, tx_hash: TxHash) -> bool:
        """Nobody else hands anything in."""
        return False

    def vouch_for(self, update: ValidatorUpdate) -> None:
        """No peer competes with it."""

    def produce(self) -> BlockOutcome:
        """Make one block, now, of what the pool offers."""
        txs = self._pool.select(self._application.rules.block_gas_limit)
        self._application.finalize(txs, int(self._clock()), self._proposer)
        return self._commit()

    def set_balances(self, balances: Mapping[Address, int], timestamp: int) -> BlockOutcome:
        """Make one block, now, that sets balances and holds nothing else. Only a dev chain may have it."""
        self._application.hold(self._application.build((), timestamp, self._proposer, balances=balances))
        return self._commit()

    def _commit(self) -> BlockOutcome:
        outcome = self._application.commit()
        self._on_committed(outcome)
        return outcome

    async def _run_at_once(self) -> None:
        while not self._interrupted.is_set():
            if self._pool.pending_count:
                self.produce()
                # Answers go out, and submissions come in, between two blocks.
                await asyncio.sleep(0)
            else:
                await self._wait_for_wake()

    async def _run_paced(self, block_time_s: float) -> None:
        """Make a block at multiples of the block time since the start: time spent making one delays no later one."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        tick = 0
        while not self._interrupted.is_set():
            # The next multiple, but never the same one twice: a timer may fire a hair before its time.
            tick = max(tick + 1, int((loop.time() - start) / block_time_s) + 1)
            await self._sleep_until(start + tick * block_time_s)
            if self._interrupted.is_set():
                return
            if self._empty_blocks or self._pool.pending_count:
                self.produce()
            else:
                # No ticking while idle.
                await self._wait_for_wake()

    async def _wait_for_wake(self) -> None:
        self._woken.clear()
        await self._woken.wait()

    async def _sleep_until(self, due: float) -> None:
        """Until the loop's time is `due`, or a stop or another pace."""
        loop = asyncio.get_running_loop()
        while (delay_s := due - loop.time()) > 0 and not self._interrupted.is_set():
            try:
                await asyncio.wait_for(self._interrupted.wait(), delay_s)
            except TimeoutError:
                continue
