"""Hands the transactions that this node answers for to CometBFT, until they are confirmed or dropped.

A transaction is sent as soon as it can be mined; those that wait for a nonce wait with us. Code 0 is no promise that
CometBFT keeps it, and its mempool is empty after its restart. So every while the pool is walked through, and what
CometBFT's mempool is not known to hold is sent again. What comes in quickly goes out in bundles.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, auto
from time import thread_time

import structlog

from cairn.domain.codec import encode_tx
from cairn.domain.transition import BlockOutcome
from cairn.domain.types import Tx, TxHash
from cairn.engine.network.bundle import FEWEST, MOST, Bundle, encode_ticket
from cairn.engine.network.overlay import Overlay
from cairn.engine.network.rpc import IN_CACHE, Rpc, RpcAway, RpcError
from cairn.engine.network.senders import Senders
from cairn.mempool.entry import WAITING, Entry
from cairn.mempool.pool import Mempool

SCAN_INTERVAL_S = 1.0
SCAN_SHARE = 20
"""How many times as long as a scan worked the next one is put off, at least."""
RESEND_AFTER_S = 3.0
STALE_AFTER_S = 20.0
"""Others may have refused what has waited so long; CometBFT offers a transaction to each of its peers only once."""
GATHER_S = 0.05
"""How long after a sending the next one waits: what follows meanwhile goes on the same ticket."""
BUSY = 8
"""When a ticket carried so many, the next one waits longer: every ticket costs every node a check after each block."""
GATHER_BUSY_S = 0.5
QUIET_S = 0.1
"""When nothing was listed for so long, a busy node waits no more for what may follow."""
HELD_S = 1.0
"""How long a busy node waits, at most, for the block that is being decided: what it sends meanwhile cannot be in it,
and every node would check it once more afterwards."""
FULL = "mempool is full"
TOO_LARGE = "Tx too large"

log = structlog.get_logger("cairn.network")


class Taken(Enum):
    """What became of a ticket."""

    YES = auto()
    NO = auto()
    """CometBFT takes no more now."""
    IN_PARTS = auto()
    """It was too much at once and must be sent again in smaller parts."""


class Broadcaster:
    def __init__(self, pool: Mempool, overlay: Overlay, senders: Senders, rpc: Rpc, chain_id: int) -> None:
        self._pool = pool
        self._overlay = overlay
        self._senders = senders
        self._rpc = rpc
        self._chain_id = chain_id
        self._most = MOST
        """How many go on one ticket."""
        self._woken = asyncio.Event()
        self._stopped = False
        self._next_seq = 0
        """All that came in before it has been looked at."""
        self._sent: dict[TxHash, float] = {}
        """When each was handed over last."""
        self._returned: set[TxHash] = set()
        """Those that came back and have not been sent again."""
        self._due: dict[TxHash, Tx] = {}
        """To be sent, each sender's by nonce."""
        self._send_at = 0.0
        """Not before it, unless CometBFT restarts or makes room."""
        self._is_busy = False
        self._decided = asyncio.Event()
        self._decided.set()
        """Cleared while a block is being decided."""
        self._scan_at = 0.0
        self._blocked = False
        """CometBFT's mempool was full; it may have room again after a block."""

    def wake(self) -> None:
        self._woken.set()

    def stop(self) -> None:
        self._stopped = True
        self._woken.set()
        self._decided.set()

    def deciding(self) -> None:
        """A block was proposed that will probably be committed."""
        self._decided.clear()

    def committed(self, outcome: BlockOutcome) -> None:
        self._decided.set()
        for tx in outcome.block.txs:
            self._sent.pop(tx.hash, None)
            self._returned.discard(tx.hash)
        # A block may close a gap in front of what waits here, or make room.
        if self._blocked:
            self._blocked = False
            self._scan_at = 0.0
            self._woken.set()
        self._follow({tx.sender: tx for tx in outcome.block.txs}.values())

    def _follow(self, confirmed: Iterable[Tx]) -> None:
        for tx in confirmed:
            entry = next(self._pool.ready_from(tx.sender, tx.nonce + 1), None)
            if entry is not None and entry.local and entry.tx.hash not in self._sent:
                self._scan_at = 0.0
                self._woken.set()
                return

    def returned(self, tx: Tx) -> None:
        """CometBFT's mempool refused it or threw it out."""
        if self._sent.pop(tx.hash, None) is not None:
            self._returned.add(tx.hash)

    def is_stale(self, tx: Tx) -> bool:
        """Whether one of ours has waited so long that all peers may have missed it."""
        sent_at = self._sent.get(tx.hash)
        if sent_at is None or asyncio.get_running_loop().time() - sent_at < STALE_AFTER_S:
            return False
        entry = self._pool.find(tx.hash)
        return entry is not None and entry.local

    def restarted(self) -> None:
        """CometBFT starts with an empty mempool."""
        self._decided.set()
        self._sent.clear()
        self._returned.clear()
        self._scan_at = 0.0
        self._woken.set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopped:
            wait_s = max(0.0, self._scan_at - loop.time())
            if not self._woken.is_set() and wait_s:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._woken.wait()
            self._woken.clear()
            await self._until_decided()
            if (now := loop.time()) >= self._scan_at:
                # Its own time: a process that was paused in the middle would not look again for minutes.
                begun_at = thread_time()
                self._gather(self._overdue(now))
                # A large pool takes long to look through: that must stay a small share of the time.
                self._scan_at = loop.time() + max(SCAN_INTERVAL_S, SCAN_SHARE * (thread_time() - begun_at))
            elif not self._blocked:
                await self._until_gathered()
                await self._until_decided()
                self._gather(self._new())
            if self._due:
                await self._send_due()

    async def _until_gathered(self) -> None:
        loop = asyncio.get_running_loop()
        while (left_s := self._send_at - loop.time()) > 0:
            before = self._pool.next_seq
            await asyncio.sleep(min(left_s, QUIET_S))
            if left_s > QUIET_S and self._pool.next_seq == before:
                return

    async def _until_decided(self) -> None:
        if self._is_busy:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HELD_S):
                    await self._decided.wait()

    # What to send.

    def _gather(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._due[entry.tx.hash] = entry.tx

    def _new(self) -> Iterator[Entry]:
        """What came in since the last look and can be mined, with what it made ready of earlier ones."""
        new = self._pool.entries_since(self._next_seq)
        if new:
            self._next_seq = new[0].seq + 1
        # By nonce over all senders is by nonce for each.
        for entry in sorted(new, key=lambda entry: entry.tx.nonce):
            if not entry.local or entry.lead == WAITING or entry.tx.hash in self._sent:
                continue
            yield entry
            yield from self._made_ready(entry)

    def _made_ready(self, entry: Entry) -> Iterator[Entry]:
        for later in self._pool.ready_from(entry.tx.sender, entry.tx.nonce + 1):
            if later.tx.hash in self._sent or later.tx.hash in self._due or not later.local:
                return
            yield later

    def _overdue(self, now: float) -> Iterator[Entry]:
        """All that can be mined and that CometBFT's mempool seems not to hold."""
        pool = self._pool
        self._next_seq = pool.next_seq
        self._sent = sent = {tx_hash: at for tx_hash, at in self._sent.items() if pool.find(tx_hash) is not None}
        self._returned = {tx_hash for tx_hash in self._returned if pool.find(tx_hash) is not None}
        for entry in pool.mining_order():
            sent_at = sent.get(entry.tx.hash)
            if sent_at is None and not entry.local:
                # Another node sends it; ours loses it only in a restart, and then the others soon send it again.
                sent[entry.tx.hash] = now
            elif sent_at is None or (now - sent_at > RESEND_AFTER_S and not self._overlay.holds(entry.tx)):
                yield entry

    # Sending.

    async def _send_due(self) -> None:
        """Send all that is due, in order, as far as CometBFT takes it; the rest is found by the next scan."""
        due, self._due = self._still_wanted(self._due.values()), {}
        at = 0
        while at < len(due) and not self._stopped:
            # What left the pool while others were sent need not go out any more.
            together = [tx for tx in self._next_ticket(due, at) if self._pool.find(tx.hash) is not None]
            try:
                taken = await self._send(together) if together else Taken.YES
            except RpcAway as away:
                self._forget(together)
                log.debug("cannot broadcast", reason=str(away))
                return
            if taken is Taken.NO:
                return
            if taken is Taken.YES:
                at += len(self._next_ticket(due, at))
        self._returned.difference_update(tx.hash for tx in due)
        self._is_busy = len(due) >= BUSY
        self._send_at = asyncio.get_running_loop().time() + (GATHER_BUSY_S if self._is_busy else GATHER_S)

    def _next_ticket(self, due: Sequence[Tx], at: int) -> Sequence[Tx]:
        """What goes out together, from `at` on: one that came back goes alone, since it may have spoiled its bundle."""
        for end in range(at, min(at + self._most, len(due))):
            if due[end].hash in self._returned:
                return due[at : max(end, at + 1)]
        return due[at : at + self._most]

    def _still_wanted(self, txs: Iterable[Tx]) -> list[Tx]:
        """Without what left the pool, and what another node's CometBFT gave to ours."""
        now = asyncio.get_running_loop().time()
        wanted = []
        for tx in txs:
            if self._overlay.holds(tx):
                self._sent[tx.hash] = now
            elif self._pool.find(tx.hash) is not None:
                wanted.append(tx)
        return wanted

    async def _send(self, txs: list[Tx]) -> "Taken":
        now = asyncio.get_running_loop().time()
        raws = [encode_tx(tx, self._chain_id) for tx in txs]
        # Our own CheckTx then has nothing to recover.
        for tx, raw in zip(txs, raws, strict=True):
            self._senders.remember(raw, tx)
            self._sent[tx.hash] = now
        ticket = encode_ticket(raws)
        if len(raws) >= FEWEST:
            self._senders.remember_bundle(ticket, Bundle(tuple(raws), tuple(txs)))
        error = await self._rpc.broadcast(ticket)
        if error is None or IN_CACHE in error.data:
            return Taken.YES
        self._forget(txs)
        return self._judge(error, len(txs))

    def _judge(self, error: RpcError, count: int) -> "Taken":
        if TOO_LARGE in error.data and count >= FEWEST:
            self._most = max(1, count // 2)
            log.warning("CometBFT takes only small transactions: raise mempool.max_tx_bytes", together=self._most)
            return Taken.IN_PARTS
        if FULL in error.data:
            self._blocked = True
            return Taken.NO
        log.warning("CometBFT does not take a transaction", reason=str(error))
        # One alone must not keep others back.
        return Taken.YES if TOO_LARGE in error.data else Taken.NO

    def _forget(self, txs: Iterable[Tx]) -> None:
        for tx in txs:
            self._sent.pop(tx.hash, None)
