"""What of the pool CometBFT is to be given, in which order, and when again. It only decides: `broadcast` does it.

A transaction is sent as soon as it can be mined; those that wait for a nonce wait with us. Code 0 is no promise that
CometBFT keeps it, and its mempool is empty after its restart. So every while the pool is walked through, and what
CometBFT's mempool is not known to hold is sent again. What comes in quickly goes out in bundles.

How far each transaction is, its entry in the pool says:

    HERE ──▶ SENT ──▶ RETURNED      CometBFT refused it or threw it out: it goes out alone next time
      ◀────────           │
      the call failed,    ▼
      CometBFT restarted  SENT

It is held by CometBFT when `overlay` says so, and stale when it was sent long ago.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from enum import Enum, auto
from typing import NamedTuple

import structlog

from cairn.domain.types import Tx, TxHash
from cairn.engine.network.bundle import FEWEST, MOST
from cairn.engine.network.overlay import Overlay
from cairn.engine.network.rpc import IN_CACHE, CometBftRefusal, RpcAway
from cairn.mempool.entry import HERE, RETURNED, SENT, WAITING, Entry
from cairn.mempool.pool import Mempool

SCAN_SHARE = 20
"""How many times as long as a scan worked the next one is put off, at least."""
BUSY = 8
"""When a sending carried so many, the next one waits longer: every ticket costs every node a check after each block."""
FULL = "mempool is full"
TOO_LARGE = "Tx too large"

log = structlog.get_logger("cairn.network")


class Timing(NamedTuple):
    scan_interval_s: float = 1.0
    resend_after_s: float = 3.0
    stale_after_s: float = 20.0
    """Others may have refused what has waited so long; CometBFT offers a transaction to each of its peers only once."""
    gather_s: float = 0.05
    """How long after a sending the next one waits: what follows meanwhile goes on the same ticket."""
    gather_busy_s: float = 0.5
    """The same for a busy node."""
    quiet_s: float = 0.1
    """When nothing was listed for so long, a busy node waits no more for what may follow."""
    held_s: float = 1.0
    """How long a busy node waits, at most, for the block that is being decided: what it sends meanwhile cannot be in
    it, and every node would check it once more afterwards."""


USUAL = Timing()


class Ticket(NamedTuple):
    """What goes to CometBFT as one transaction of its own."""

    txs: Sequence[Tx]


Answer = CometBftRefusal | RpcAway | None
"""What came of a ticket: CometBFT's refusal, its absence, or nothing that stands in the way. None after a wait, too."""
Steps = Generator[Ticket | float, Answer, None]
"""Tickets to hand over, and seconds to wait unless the outbox says that the wait is over."""


class _Event(Enum):
    WOKEN = auto()
    DECIDED = auto()


class _Taken(Enum):
    """What became of a ticket."""

    YES = auto()
    NO = auto()
    """CometBFT takes no more now."""
    IN_PARTS = auto()
    """It was too much at once and must be sent again in smaller parts."""


class Outbox:
    def __init__(
        self,
        pool: Mempool,
        overlay: Overlay,
        wait_is_over: Callable[[], None],
        clock: Callable[[], float],
        work_clock: Callable[[], float],
        timing: Timing = USUAL,
    ) -> None:
        """`clock` is monotonic; `work_clock` counts only while this process works."""
        self._pool = pool
        self._overlay = overlay
        self._wait_is_over = wait_is_over
        self._clock = clock
        self._work_clock = work_clock
        self._timing = timing
        self._most = MOST
        """How many go on one ticket."""
        self._next_seq = 0
        """All that came in before it has been looked at."""
        self._waits_for: _Event | None = None
        self._is_woken = False
        self._is_deciding = False
        self._is_busy = False
        self._is_blocked = False
        """CometBFT's mempool was full; it may have room again after a block."""
        self._scan_at = 0.0
        self._send_at = 0.0
        """Not before it, unless CometBFT restarts or makes room."""

    # What happens.

    def wake(self) -> None:
        """Something came in."""
        self._is_woken = True
        self._end_wait_for(_Event.WOKEN)

    def deciding(self) -> None:
        """A block was proposed that will probably be committed."""
        self._is_deciding = True

    def committed(self, txs: Sequence[Tx]) -> None:
        """They have left the pool."""
        self._decided()
        # A block may close a gap in front of what waits here, or make room.
        if self._is_blocked or self._makes_ready(txs):
            self._is_blocked = False
            self.look_at_all()

    def restarted(self) -> None:
        """CometBFT starts with an empty mempool."""
        self._decided()
        for entry in self._pool.listed.entries_since(0):
            entry.delivery = HERE
        self.look_at_all()

    def look_at_all(self) -> None:
        """Walk through the pool at the next opportunity, not only when it is time."""
        self._scan_at = 0.0
        self.wake()

    def is_any_stale(self, txs: Iterable[Tx]) -> bool:
        """Whether one of ours has waited so long that all peers may have missed it."""
        find = self._pool.listed.entries.get
        sent_by = self._clock() - self._timing.stale_after_s
        for tx in txs:
            entry = find(tx.hash)
            if entry is not None and entry.delivery is SENT and entry.sent_at <= sent_by and entry.local:
                return True
        return False

    def _decided(self) -> None:
        self._is_deciding = False
        self._end_wait_for(_Event.DECIDED)

    def _end_wait_for(self, event: _Event) -> None:
        if self._waits_for is event:
            self._wait_is_over()

    def _makes_ready(self, confirmed: Sequence[Tx]) -> bool:
        """Whether one that can be mined after these has still to be sent."""
        for tx in {tx.sender: tx for tx in confirmed}.values():
            entry = next(self._pool.listed.ready_from(tx.sender, tx.nonce + 1), None)
            if entry is not None and entry.local and entry.delivery is not SENT:
                return True
        return False

    # What is to be done.

    def steps(self) -> Steps:
        """Without end; whoever takes them tells what came of each ticket."""
        while True:
            yield from self._until(_Event.WOKEN, self._scan_at, lambda: self._is_woken)
            self._is_woken = False
            yield from self._until_decided()
            if self._clock() >= self._scan_at:
                due = self._scan()
            elif self._is_blocked:
                continue
            else:
                yield from self._until_gathered()
                yield from self._until_decided()
                due = self._new()
            if due:
                yield from self._send(due)

    def _until(self, event: _Event, at: float, is_over: Callable[[], bool]) -> Steps:
        self._waits_for = event
        while not is_over() and (left_s := at - self._clock()) > 0:
            yield left_s
        self._waits_for = None

    def _until_decided(self) -> Steps:
        if self._is_busy:
            held_until = self._clock() + self._timing.held_s
            yield from self._until(_Event.DECIDED, held_until, lambda: not self._is_deciding)

    def _until_gathered(self) -> Steps:
        quiet_s = self._timing.quiet_s
        while (left_s := self._send_at - self._clock()) > 0:
            before = self._pool.next_seq
            yield min(left_s, quiet_s)
            if left_s > quiet_s and self._pool.next_seq == before:
                return

    # What to send.

    def _scan(self) -> list[Entry]:
        # Time at work: a process that was paused in the middle would not look again for minutes.
        begun_at = self._work_clock()
        due = self._overdue()
        # A large pool takes long to look through: that must stay a small share of the time.
        worked_s = self._work_clock() - begun_at
        self._scan_at = self._clock() + max(self._timing.scan_interval_s, SCAN_SHARE * worked_s)
        return due

    def _overdue(self) -> list[Entry]:
        """All that can be mined and that CometBFT's mempool seems not to hold."""
        now = self._clock()
        sent_before = now - self._timing.resend_after_s
        self._next_seq = self._pool.next_seq
        due = []
        for entry in self._pool.listed.mining_order():
            if entry.delivery is SENT:
                if entry.sent_at < sent_before and not self._is_held(entry):
                    due.append(entry)
            elif entry.local:
                due.append(entry)
            else:
                # Another node sends it; ours loses it only in a restart, and then the others soon send it again.
                entry.send(now)
        return due

    def _new(self) -> list[Entry]:
        """What came in since the last look and can be mined, with what it made ready of earlier ones."""
        new = self._pool.listed.entries_since(self._next_seq)
        if new:
            self._next_seq = new[0].seq + 1
        due: dict[TxHash, Entry] = {}
        # By nonce over all senders is by nonce for each.
        for entry in sorted(new, key=lambda entry: entry.tx.nonce):
            if not entry.local or entry.lead == WAITING or entry.delivery is SENT:
                continue
            due[entry.tx.hash] = entry
            for later in self._pool.listed.ready_from(entry.tx.sender, entry.tx.nonce + 1):
                if later.delivery is SENT or later.tx.hash in due or not later.local:
                    break
                due[later.tx.hash] = later
        return list(due.values())

    def _is_held(self, entry: Entry) -> bool:
        """Whether CometBFT's mempool is known to have it."""
        # After a block CometBFT asks for all that it still holds: until then nothing else is lost.
        return self._overlay.holds(entry.tx) or (entry.delivery is not RETURNED and self._overlay.held_before(entry.tx))

    # Sending.

    def _send(self, due: Iterable[Entry]) -> Steps:
        """Send all that is due, in order, as far as CometBFT takes it; the rest is found by the next scan."""
        wanted = self._still_wanted(due)
        at = 0
        while at < len(wanted):
            end = self._end_of_ticket(wanted, at)
            # What left the pool while others were sent need not go out any more.
            taken = yield from self._hand_over([entry for entry in wanted[at:end] if self._is_here(entry)])
            if taken is _Taken.NO:
                return
            if taken is _Taken.YES:
                at = end
        self._is_busy = len(wanted) >= BUSY
        self._send_at = self._clock() + (self._timing.gather_busy_s if self._is_busy else self._timing.gather_s)

    def _still_wanted(self, due: Iterable[Entry]) -> list[Entry]:
        """Without what left the pool, and what another node's CometBFT gave to ours."""
        now = self._clock()
        wanted = []
        for entry in due:
            if self._is_held(entry):
                entry.send(now)
            elif self._is_here(entry):
                wanted.append(entry)
        return wanted

    def _is_here(self, entry: Entry) -> bool:
        return self._pool.listed.entries.get(entry.tx.hash) is entry

    def _end_of_ticket(self, entries: Sequence[Entry], at: int) -> int:
        """Where the ticket from `at` on ends: one that came back goes alone, since it may have spoiled its bundle."""
        most = min(at + self._most, len(entries))
        for end in range(at, most):
            if entries[end].delivery is RETURNED:
                return max(end, at + 1)
        return most

    def _hand_over(self, entries: list[Entry]) -> Generator[Ticket, Answer, _Taken]:
        if not entries:
            return _Taken.YES
        unsent = RETURNED if entries[0].delivery is RETURNED else HERE
        now = self._clock()
        for entry in entries:
            entry.send(now)
        answer = yield Ticket([entry.tx for entry in entries])
        if answer is None or (isinstance(answer, CometBftRefusal) and IN_CACHE in answer.data):
            return _Taken.YES
        for entry in entries:
            if entry.delivery is SENT:
                entry.delivery = unsent
        return self._judge(answer, len(entries))

    def _judge(self, answer: CometBftRefusal | RpcAway, count: int) -> _Taken:
        if isinstance(answer, RpcAway):
            log.debug("cannot broadcast", reason=str(answer))
            return _Taken.NO
        if TOO_LARGE in answer.data and count >= FEWEST:
            self._most = max(1, count // 2)
            log.warning("CometBFT takes only small transactions: raise mempool.max_tx_bytes", together=self._most)
            return _Taken.IN_PARTS
        if FULL in answer.data:
            self._is_blocked = True
            return _Taken.NO
        log.warning("CometBFT does not take a transaction", reason=str(answer))
        # One alone must not keep others back.
        return _Taken.YES if TOO_LARGE in answer.data else _Taken.NO
