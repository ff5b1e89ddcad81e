"""The controls of a dev chain: make blocks, move time, set balances, snapshot and revert, and the faucet."""

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from cairn.core.admission import Admissions
from cairn.core.calls import Method
from cairn.core.gateway import (
    FAUCET_DEFAULT,
    FAUCET_MOST,
    MOST_BLOCKS_AT_ONCE,
    Admission,
    DevCalls,
    KeyedRequest,
    MiningMode,
    not_dev_chain,
)
from cairn.domain.errors import Fatal, InsufficientFunds, InvalidField, Reverting, StoreUnavailable
from cairn.domain.types import LATEST_TIME, TRANSFER_GAS, Address, Draft
from cairn.engine.embedded import EmbeddedEngine, Pace
from cairn.mempool.order import QUEUED
from cairn.mempool.pool import Mempool
from cairn.store.chain import ChainStore
from cairn.store.dev_snapshots import DevDirectory
from cairn.store.inspection import inspect_snapshot
from cairn.store.journal import KEPT_DROPS, JournalEntry

HIGHEST_BALANCE = 2**128 - 1
"""However often it is set, the sum of all balances stays below 2^256, so every balance fits into 32 bytes: a dev chain
starts with half of that at most."""

_A = TypeVar("_A")


class DevClock:
    """The chain's clock: the machine's, moved ahead as the developer asks. Unix time in seconds."""

    def __init__(self, data_dir: Path) -> None:
        self.kept = DevDirectory(data_dir)
        self._next: int | None = None

    def __call__(self) -> float:
        """The time for a block that is made now. A time that was set counts once, and the clock continues from it."""
        chosen, self._next = self._next, None
        if chosen is None:
            return self.now
        self.kept.set_offset(chosen - int(time.time()))
        return float(chosen)

    @property
    def now(self) -> float:
        """The current time; a time that was set for the next block is not used up."""
        return time.time() + self.kept.state.offset_s if self._next is None else float(self._next)

    def increase(self, seconds: int) -> int:
        """Returns how far ahead it is in all. Raises `InvalidField`."""
        offset_s = self.kept.state.offset_s + seconds
        if seconds < 0 or time.time() + offset_s > LATEST_TIME:
            raise InvalidField("seconds", "time goes forward, and not beyond the year 9999")
        if seconds:
            self.kept.set_offset(offset_s)
        return offset_s

    def set_next(self, timestamp: int, earliest: int) -> None:
        """Set the time of the next block. Raises `InvalidField`."""
        if not earliest <= timestamp <= LATEST_TIME:
            raise InvalidField("timestamp", f"{timestamp} is not from {earliest}, the newest block's, to the year 9999")
        self._next = timestamp


class Reverts(NamedTuple):
    """How often a dev chain was reverted."""

    done: int = 0
    to_height: int = 0
    """The latest height after the last revert, including one that is decided."""
    is_decided: bool = False
    """Another one is decided, and not done yet."""


class DevControls(DevCalls):
    """No method awaits between a check and its effect."""

    def __init__(
        self,
        chain: ChainStore,
        pool: Mempool,
        engine: EmbeddedEngine,
        clock: DevClock,
        pace: Pace,
        keys: Mapping[Address, bytes],
        admissions: Admissions,
    ) -> None:
        self._chain = chain
        self._pool = pool
        self._engine = engine
        self._kept = clock.kept
        self._clock = clock
        self._pace = pace
        self._keys = keys
        self._admissions = admissions

    @property
    def reverts(self) -> Reverts:
        kept = self._kept.state
        if kept.reverting is None:
            return Reverts(kept.reverts, kept.reverted_to)
        return Reverts(kept.reverts, kept.snapshots[kept.reverting].height, is_decided=True)

    async def mine(self, blocks: int = 1, interval_s: int = 0, timestamp: int | None = None) -> int:
        self._admissions.check_alive()
        if not 1 <= blocks <= MOST_BLOCKS_AT_ONCE:
            raise InvalidField("blocks", f"{blocks} is not from 1 to {MOST_BLOCKS_AT_ONCE}")
        if timestamp is not None:
            self._set_next(timestamp)
        for number in range(blocks):
            if number:
                # Let the event loop serve others between two blocks.
                await asyncio.sleep(0)
                self._admissions.check_alive()
                self._clock.increase(interval_s)
            self._engine.produce()
        return self._chain.head_header.height

    async def snapshot(self) -> int:
        self._admissions.check_alive()
        self._engine.finish_block()
        # The oldest first: arrival decides between equal prices.
        pending = reversed(self._pool.order.entries_since(0))
        entries = (
            JournalEntry(entry.received_at, entry.tx, entry.queued_since if entry.lead == QUEUED else None)
            for entry in pending
        )
        # Whoever was told of a drop by then is told so after a revert, too; an opening knows no more than these.
        drops = list(self._pool.drops.items())[-KEPT_DROPS:]
        return self._kept.take_snapshot(
            self._chain.checkpoint, self._chain.head_header.height, entries, drops, self._pool.up_s
        )

    async def revert(self, snapshot: int) -> bool:
        """Decide the revert and end this core. The process then opens the chain again, which is the snapshot.

        Raises `InvalidField` for a snapshot whose files are damaged: the chain goes on.
        """
        self._admissions.check_alive()
        self._check_snapshot(snapshot)
        decided = self._kept.decide_revert(snapshot)
        if decided:
            # At once: no further block of the old chain may be announced.
            self._engine.stop()
            self._admissions.fail(Reverting(f"the chain goes back to snapshot {snapshot}: try again"))
        return decided

    def _check_snapshot(self, number: int) -> None:
        if number in self._kept.state.snapshots:
            try:
                inspect_snapshot(self._chain.directory, number, self._chain.genesis)
            except (Fatal, StoreUnavailable) as damage:
                raise InvalidField("snapshot", f"snapshot {number} cannot be used any more: {damage.detail}") from None

    async def set_balance(self, address: Address, balance: int) -> int:
        self._admissions.check_alive()
        if not 0 <= balance <= HIGHEST_BALANCE:
            raise InvalidField("balance", f"{balance} is not from 0 to 2^128-1")
        outcome = self._engine.set_balances({address: balance}, int(self._clock.now))
        return outcome.block.header.height

    async def note_refusal(self, code: str, reason: str) -> None:
        self._admissions.tell_refusal(code, reason)

    async def increase_time(self, seconds: int) -> int:
        self._admissions.check_alive()
        return self._clock.increase(seconds)

    async def set_next_timestamp(self, timestamp: int) -> None:
        self._admissions.check_alive()
        self._set_next(timestamp)

    def _set_next(self, timestamp: int) -> None:
        self._engine.finish_block()
        self._clock.set_next(timestamp, earliest=self._chain.head_header.timestamp)

    async def set_automine(self, on: bool, alone: bool) -> None:
        self._admissions.check_alive()
        self._pace.set_automine(on, alone=alone)

    async def set_mining_interval(self, seconds: float, alone: bool) -> None:
        self._admissions.check_alive()
        self._pace.set_interval(seconds, alone=alone)

    async def mining_mode(self) -> MiningMode:
        self._admissions.check_alive()
        return MiningMode(self._pace.automine_s, self._pace.interval_s)

    async def set_mining_mode(self, mode: MiningMode) -> None:
        self._admissions.check_alive()
        self._pace.set(mode.automine, mode.interval)

    async def faucet(self, address: Address, amount: int | None, keyed: KeyedRequest | None = None) -> Admission:
        self._admissions.check_alive()
        return await self._admissions.submit_once(partial(self._faucet_draft, address, amount), keyed)

    def _faucet_draft(self, address: Address, amount: int | None) -> Draft:
        """A transfer from the dev account with the highest balance. Raises `InvalidField`."""
        value = FAUCET_DEFAULT if amount is None else amount
        if not 1 <= value <= FAUCET_MOST:
            raise InvalidField("amount", f"{value} is not from 1 to {FAUCET_MOST} wei")
        gas_price = self._chain.genesis.rules.gas_price
        # Not from oneself to oneself, which would give nothing.
        giver = max((key for key in self._keys if key != address), key=self._free_balance, default=None)
        if giver is None:
            raise InvalidField("address", "is the only account that the node could pay from")
        free = self._free_balance(giver)
        if free < value + TRANSFER_GAS * gas_price:
            raise InsufficientFunds(f"the richest of the node's accounts has {free} left")
        return Draft(giver, address, value, TRANSFER_GAS, gas_price, None)

    def _free_balance(self, address: Address) -> int:
        return self._chain.account(address).balance - self._pool.reserved(address)


class NoDevControls(DevCalls):
    """Refuses every control, on chains that are not dev chains."""

    reverts = Reverts()

    async def perform(self, method: Method[_A], request: msgspec.Struct) -> _A:
        raise not_dev_chain()
