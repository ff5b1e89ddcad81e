"""Decides which transactions of the pool go to CometBFT, in which order, and when again. `Broadcaster` sends them.

A transaction is sent as soon as it can be mined; queued ones stay here. CometBFT may lose a transaction that it
accepted (code 0), and its mempool is empty after a restart. So the pool is scanned regularly, and what CometBFT's
mempool is not known to hold is sent again. Under load, transactions are sent in bundles. What is sent in one call, a
transaction or a bundle, is a batch.

The entry in the pool has the state of each transaction:

    HERE ──▶ SENT ──▶ RETURNED      CometBFT refused or removed it: it is sent alone next time
      ◀────────           │
      the call failed,    ▼
      CometBFT restarted  SENT

`overlay` knows whether CometBFT holds it. It is stale when it was sent long ago.
"""

import asyncio
import contextlib
from collections.abc import Callable, Generator, Iterable, Sequence
from enum import Enum, auto
from typing import NamedTuple

import structlog

from cairn.domain.transactions import encode_tx
from cairn.domain.types import Tx, TxHash
from cairn.engine.network.bundle import FEWEST, MOST, MOST_BYTES, TRANSFER_BYTES, Bundle, encode_batch
from cairn.engine.network.overlay import Overlay
from cairn.engine.network.parsed_txs import ParsedTxs
from cairn.engine.network.rpc import IN_CACHE, CometBftRefusal, Rpc, RpcAway
from cairn.mempool.order import HERE, QUEUED, RETURNED, SENT, Entry
from cairn.mempool.pool import Mempool

SCAN_SHARE = 20
"""The pause after a scan is at least this many times as long as the scan."""
BUSY = 8
"""After sending this many, the next sending waits longer, since each batch costs every node a recheck per block."""
MOST_JUST_IN_TIME = 64
"""After sending more than this, nothing is held back until shortly before the next block: every node has to check it
all before that block is proposed."""
LATE_FACTOR, IN_TIME_FACTOR = 1.5, 0.99
"""By how much the time ahead of a proposal grows when it was too short, and shrinks when it was not."""
MOST_AHEAD = 0.75
"""It is at most this part of the pause between blocks: only what was held back shows whether it is long enough."""
LONGEST_PAUSE_S = 2.0
"""A network that pauses for longer is slow on purpose. Nothing waits that long here, whatever CometBFT's file says."""
FULL = "mempool is full"
TOO_LARGE = "Tx too large"

log = structlog.get_logger("cairn.network")


class Timing(NamedTuple):
    scan_interval_s: float = 1.0
    resend_after_s: float = 3.0
    stale_after_s: float = 20.0
    """Peers may have refused what has waited this long, and CometBFT offers a transaction to each peer only once."""
    gather_s: float = 0.1
    """Pause after a sending. What arrives meanwhile is sent in one batch."""
    ahead_s: float = 0.12
    """How long before the next block can be proposed its transactions are sent, at first. The proposer must have them
    by then, so this grows when a block comes without them, and shrinks a little with each block that has them."""
    least_ahead_s: float = 0.08
    gather_busy_s: float = 0.5
    """The pause on a busy node."""
    quiet_s: float = 0.1
    """If nothing has arrived for this long, a busy node no longer waits for more."""
    held_s: float = 1.0
    """How long a node waits, at most, for the block that is being decided: what it sends meanwhile cannot be in that
    block, and every node would check it again after it."""


USUAL = Timing()


Batch = list[Tx]
"""What is sent to CometBFT as one transaction: a transfer, or a bundle of some."""
Answer = CometBftRefusal | RpcAway | None
"""The result of a batch: CometBFT's refusal, its absence, or None if it worked. Also None after a wait."""
Steps = Generator[Batch | float, Answer, None]
"""Batches to send, and seconds to wait, unless the outbox ends the wait."""


class _Event(Enum):
    WOKEN = auto()
    DECIDED = auto()


class _Result(Enum):
    """What CometBFT did with a batch."""

    TAKEN = auto()
    REFUSED = auto()
    """It accepts no more now."""
    TOO_LARGE = auto()
    """It must be sent again in smaller parts."""


class Outbox:
    def __init__(
        self,
        pool: Mempool,
        overlay: Overlay,
        wait_is_over: Callable[[], None],
        clock: Callable[[], float],
        work_clock: Callable[[], float],
        timing: Timing = USUAL,
        block_pause_s: float = 0.0,
    ) -> None:
        """`clock` is monotonic; `work_clock` counts only while this process works.

        No block is proposed earlier than `block_pause_s` after the one before it.
        """
        self._pool = pool
        self._overlay = overlay
        self._wait_is_over = wait_is_over
        self._clock = clock
        self._work_clock = work_clock
        self._timing = timing
        self._block_pause_s = min(block_pause_s, LONGEST_PAUSE_S)
        self._ahead_s = timing.ahead_s
        self._most = MOST
        """How many transactions a batch has."""
        self._next_seq = 0
        """All that arrived before it has been scanned."""
        self._waits_for: _Event | None = None
        self._is_woken = False
        self._is_deciding = False
        self._is_busy = False
        self._are_many = False
        self._is_blocked = False
        """CometBFT's mempool was full; it may have room again after a block."""
        self._scan_at = 0.0
        """The next scan is not before this time, unless CometBFT restarts or makes room."""
        self._send_at = 0.0
        """New arrivals are gathered until this time."""
        self._calm_until = 0.0
        """What is sent before this time is in no earlier block than what is sent at it."""
        self._was_calm = False
        """What is sent next was held back until that time."""
        self._just_in_time: Tx | None = None
        """The first transaction that was, for the next block."""

    # What happens.

    def wake(self) -> None:
        """A transaction was accepted here."""
        self._is_woken = True
        self._end_wait_for(_Event.WOKEN)

    def deciding(self) -> None:
        """A block was proposed that will probably be committed."""
        self._is_deciding = True

    def committed(self, txs: Sequence[Tx]) -> None:
        """These were removed from the pool."""
        self._learn_ahead()
        self._calm_until = self._clock() + self._block_pause_s - self._ahead_s
        self._decided()
        # A block may fill the gap before a queued transaction, or make room in CometBFT's mempool.
        if self._is_blocked or self._makes_pending(txs):
            self._is_blocked = False
            self.look_at_all()

    def restarted(self) -> None:
        """CometBFT has restarted with an empty mempool."""
        self._decided()
        for entry in self._pool.order.entries_since(0):
            entry.delivery = HERE
        self.look_at_all()

    def look_at_all(self) -> None:
        """Scan the pool as soon as possible."""
        self._scan_at = 0.0
        self.wake()

    def is_any_stale(self, txs: Iterable[Tx]) -> bool:
        """Whether one of ours was sent so long ago that all peers may have missed it."""
        find = self._pool.order.entries.get
        sent_by = self._clock() - self._timing.stale_after_s
        for tx in txs:
            entry = find(tx.hash)
            if entry is not None and entry.delivery is SENT and entry.sent_at <= sent_by and entry.local:
                return True
        return False

    def _learn_ahead(self) -> None:
        """See whether what was sent for this block is in it."""
        sent, self._just_in_time = self._just_in_time, None
        if sent is None:
            return
        if sent.hash in self._pool.order.entries:
            self._ahead_s = min(MOST_AHEAD * self._block_pause_s, LATE_FACTOR * self._ahead_s)
        else:
            self._ahead_s = max(self._timing.least_ahead_s, IN_TIME_FACTOR * self._ahead_s)

    def _decided(self) -> None:
        self._is_deciding = False
        self._end_wait_for(_Event.DECIDED)

    def _end_wait_for(self, event: _Event) -> None:
        if self._waits_for is event:
            self._wait_is_over()

    def _makes_pending(self, confirmed: Sequence[Tx]) -> bool:
        """Whether another one that can be mined is still to be sent after these."""
        for tx in {tx.sender: tx for tx in confirmed}.values():
            entry = next(self._pool.order.pending_from(tx.sender, tx.nonce + 1), None)
            if entry is not None and entry.local and entry.delivery is not SENT:
                return True
        return False

    # What is to be done.

    def steps(self) -> Steps:
        """Endless; the caller sends back the result of each batch."""
        while True:
            yield from self._until(_Event.WOKEN, self._scan_at, lambda: self._is_woken)
            self._is_woken = self._was_calm = False
            yield from self._until_useful()
            if self._clock() >= self._scan_at:
                due = self._scan()
            elif self._is_blocked:
                continue
            else:
                yield from self._until_gathered()
                yield from self._until_useful()
                due = self._new()
            if due:
                yield from self._send(due)

    def _until(self, event: _Event | None, at: float, is_over: Callable[[], bool]) -> Steps:
        self._waits_for = event
        while not is_over() and (left_s := at - self._clock()) > 0:
            yield left_s
        self._waits_for = None

    def _until_useful(self) -> Steps:
        """Until no block is being decided, and the next one can be proposed soon: what is sent earlier is in no earlier
        block."""
        held_until = self._clock() + self._timing.held_s
        yield from self._until(_Event.DECIDED, held_until, lambda: not self._is_deciding)
        if not self._is_busy:
            # That block takes too long: nobody waits for it again. Under load, each sending would make it take longer.
            self._is_deciding = False
        if self._clock() < self._calm_until and not self._are_many:
            self._was_calm = True
            # One block's pause, even if others come meanwhile: a node that catches up gets many.
            yield from self._until(None, self._calm_until, lambda: False)

    def _until_gathered(self) -> Steps:
        quiet_s = self._timing.quiet_s
        while (left_s := self._send_at - self._clock()) > 0:
            # Not by the arrivals in the pool: on a network, those of other nodes never end.
            self._is_woken = False
            yield min(left_s, quiet_s)
            if left_s > quiet_s and not self._is_woken:
                return

    # What to send.

    def _scan(self) -> list[Entry]:
        # Processor time: otherwise, after a pause of the process in the middle, the next scan would be minutes away.
        begun_at = self._work_clock()
        due = self._overdue()
        # Scanning a large pool takes long: it must stay a small part of the time.
        worked_s = self._work_clock() - begun_at
        self._scan_at = self._clock() + max(self._timing.scan_interval_s, SCAN_SHARE * worked_s)
        return due

    def _overdue(self) -> list[Entry]:
        """Everything that can be mined and that CometBFT's mempool is not known to hold."""
        now = self._clock()
        sent_before = now - self._timing.resend_after_s
        self._next_seq = self._pool.next_seq
        due = []
        for entry in self._pool.order.mining_order():
            if entry.delivery is SENT:
                if entry.sent_at < sent_before and not self._is_held(entry):
                    due.append(entry)
            elif entry.local:
                due.append(entry)
            else:
                # Another node sends it. Our CometBFT loses it only in a restart, and then the others send it again.
                entry.send(now)
        return due

    def _new(self) -> list[Entry]:
        """What has arrived since the last scan and can be mined, and the queued ones that became pending by it."""
        new = self._pool.order.entries_since(self._next_seq)
        if new:
            self._next_seq = new[0].seq + 1
        due: dict[TxHash, Entry] = {}
        # Sorted by nonce over all senders, and therefore for each sender.
        for entry in sorted(new, key=lambda entry: entry.tx.nonce):
            if not entry.local or entry.lead == QUEUED or entry.delivery is SENT:
                continue
            due[entry.tx.hash] = entry
            for later in self._pool.order.pending_from(entry.tx.sender, entry.tx.nonce + 1):
                if later.delivery is SENT or later.tx.hash in due or not later.local:
                    break
                due[later.tx.hash] = later
        return list(due.values())

    def _is_held(self, entry: Entry) -> bool:
        """Whether CometBFT's mempool is known to have it."""
        # After a block CometBFT rechecks all that it still holds; until then nothing counts as lost.
        return self._overlay.holds(entry.tx) or (entry.delivery is not RETURNED and self._overlay.held_before(entry.tx))

    # Sending.

    def _send(self, due: Iterable[Entry]) -> Steps:
        """Send all that is due, in order, until CometBFT accepts no more. The next scan finds the rest."""
        wanted = self._still_wanted(due)
        if self._was_calm and wanted:
            self._just_in_time = wanted[0].tx
            # What comes later would be late for the next block.
            self._is_deciding = True
        at = 0
        while at < len(wanted):
            end = self._end_of_batch(wanted, at)
            # Skip what was removed from the pool while others were sent.
            result = yield from self._hand_over([entry for entry in wanted[at:end] if self._is_here(entry)])
            if result is _Result.REFUSED:
                return
            if result is _Result.TAKEN:
                at = end
        self._is_busy = len(wanted) >= BUSY
        self._are_many = len(wanted) > MOST_JUST_IN_TIME
        self._send_at = self._clock() + (self._timing.gather_busy_s if self._is_busy else self._timing.gather_s)

    def _still_wanted(self, due: Iterable[Entry]) -> list[Entry]:
        """Without what was removed from the pool, and what our CometBFT got from another node."""
        now = self._clock()
        wanted = []
        for entry in due:
            if self._is_held(entry):
                entry.send(now)
            elif self._is_here(entry):
                wanted.append(entry)
        return wanted

    def _is_here(self, entry: Entry) -> bool:
        return self._pool.order.entries.get(entry.tx.hash) is entry

    def _end_of_batch(self, entries: Sequence[Entry], at: int) -> int:
        """Where the batch that begins at `at` ends. A returned transaction travels alone: it may spoil a bundle."""
        most = min(at + self._most, len(entries))
        room_bytes = MOST_BYTES
        for end in range(at, most):
            room_bytes -= TRANSFER_BYTES + len(entries[end].tx.data)
            if entries[end].delivery is RETURNED or room_bytes < 0:
                return max(end, at + 1)
        return most

    def _hand_over(self, entries: list[Entry]) -> Generator[Batch, Answer, _Result]:
        if not entries:
            return _Result.TAKEN
        unsent = RETURNED if entries[0].delivery is RETURNED else HERE
        now = self._clock()
        for entry in entries:
            entry.send(now)
        answer = yield [entry.tx for entry in entries]
        if answer is None or (isinstance(answer, CometBftRefusal) and IN_CACHE in answer.data):
            return _Result.TAKEN
        for entry in entries:
            if entry.delivery is SENT:
                entry.delivery = unsent
        return self._judge(answer, len(entries))

    def _judge(self, answer: CometBftRefusal | RpcAway, count: int) -> _Result:
        if isinstance(answer, RpcAway):
            log.debug("cannot broadcast", reason=str(answer))
            return _Result.REFUSED
        if TOO_LARGE in answer.data and count >= FEWEST:
            self._most = max(1, count // 2)
            log.warning("CometBFT takes only small transactions: raise mempool.max_tx_bytes", together=self._most)
            return _Result.TOO_LARGE
        if FULL in answer.data:
            self._is_blocked = True
            return _Result.REFUSED
        log.warning("CometBFT does not take a transaction", reason=str(answer))
        # A single one must not delay others.
        return _Result.TAKEN if TOO_LARGE in answer.data else _Result.REFUSED


class Broadcaster:
    def __init__(
        self, outbox: Outbox, wait_is_over: asyncio.Event, parsed_txs: ParsedTxs, rpc: Rpc, chain_id: int
    ) -> None:
        """The outbox sets `wait_is_over`."""
        self._outbox = outbox
        self._wait_is_over = wait_is_over
        self._parsed_txs = parsed_txs
        self._rpc = rpc
        self._chain_id = chain_id
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        self._wait_is_over.set()

    async def run(self) -> None:
        steps = self._outbox.steps()
        step = next(steps)
        while not self._stopped:
            answer: Answer = None
            if isinstance(step, list):
                answer = await self._hand_over(step)
            else:
                await self._wait(step)
            step = steps.send(answer)

    async def _wait(self, seconds: float) -> None:
        self._wait_is_over.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wait_is_over.wait()

    async def _hand_over(self, txs: Batch) -> Answer:
        raws = [encode_tx(tx, self._chain_id) for tx in txs]
        # So that our own CheckTx need not recover the sender.
        for tx, raw in zip(txs, raws, strict=True):
            self._parsed_txs.remember(raw, tx)
        batch_raw = encode_batch(raws)
        if len(raws) >= FEWEST:
            self._parsed_txs.remember_bundle(batch_raw, Bundle(tuple(raws), tuple(txs)))
        try:
            return await self._rpc.broadcast(batch_raw)
        except RpcAway as away:
            return away
