"""Admission: admit in memory, answer after the next sync. Everything that arrives meanwhile shares that sync."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from cairn import metrics
from cairn.core.gateway import Admission, ChainObserver, KeyedRequest, MempoolListener, Reply, SubmissionCalls
from cairn.core.idempotency_keys import IdempotencyKeys, KeyedPayment
from cairn.domain.crypto import sign_digest
from cairn.domain.errors import (
    IdempotencyKeyReused,
    InvalidField,
    MempoolFull,
    NodeError,
    NonceTooLow,
    Rejected,
    ReplacementUnderpriced,
    StoreUnavailable,
)
from cairn.domain.steps import Steps, in_groups
from cairn.domain.transactions import encode_record, sign_draft
from cairn.domain.transition import BlockOutcome
from cairn.domain.types import Address, Draft, DropReason, Tx, TxHash
from cairn.engine.application import Engine
from cairn.mempool.pool import Admitted, InTheMaking, Mempool
from cairn.store.chain import ChainStore
from cairn.store.journal import Journal

Drops = Sequence[tuple[TxHash, DropReason]]
OnCommitted = Callable[[BlockOutcome], Steps[None]]
"""Called with a block that is on disk; its first step must be taken at once."""
OnDropped = Callable[[Drops], None]
EngineBuilder = Callable[[OnCommitted, OnDropped], Engine]
Submission = tuple[Tx, bytes, Reply]
"""What `enqueue` is called with."""

UPTIME_INTERVAL_S = 60
"""While a transaction is queued, the node's uptime is written to disk at this interval."""
BUSY_BATCH = 8
"""After a sync of this many submissions, the next sync waits a moment, because more are on their way."""
GATHER_S = 0.001
"""How long it waits: a sync costs about as much for many submissions as for one."""
HELD_BACK_AT_ONCE = 16
"""Submissions that waited for a block are taken in steps: one client may have sent thousands meanwhile."""

ARRIVALS_INTERVAL_S = 0.1
"""How often transactions that came from peers are announced."""

ArrivalListener = Callable[[Sequence[Tx]], None]


class Arrivals:
    """Announces new pending transactions to listeners. Without a listener it costs nothing.

    It remembers how many arrivals were announced; the next announcement has those after them.
    """

    def __init__(self, pool: Mempool, loop: asyncio.AbstractEventLoop) -> None:
        self._pool = pool
        self._loop = loop
        self._next_seq = 0
        self.listeners: list[ArrivalListener] = []
        self._timer: asyncio.TimerHandle | None = None

    def listen(self, listener: ArrivalListener) -> None:
        """Begin to announce to `listener`, if it does not listen yet."""
        if listener in self.listeners:
            return
        self.tell()
        self.listeners.append(listener)
        if self._timer is None:
            self._next_seq = self._pool.next_seq
            self._tick()

    def forget(self, listener: ArrivalListener) -> None:
        if listener in self.listeners:
            self.listeners.remove(listener)
            if not self.listeners:
                self.close()

    def tell(self) -> None:
        """Announce everything that has arrived since the last time."""
        if not self.listeners:
            return
        entries = self._pool.order.entries_since(self._next_seq)
        self._next_seq = self._pool.next_seq
        if entries:
            txs = [entry.tx for entry in reversed(entries)]
            for listener in self.listeners:
                listener(txs)

    def close(self) -> None:
        self.listeners.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self.tell()
        self._timer = self._loop.call_later(ARRIVALS_INTERVAL_S, self._tick)


class Admissions(SubmissionCalls):
    """Adds to and removes from the mempool, and keeps journal and engine consistent with it."""

    def __init__(
        self,
        chain: ChainStore,
        pool: Mempool,
        journal: Journal,
        arrivals: Arrivals,
        keys: Mapping[Address, bytes],
        listener: MempoolListener,
        build_engine: EngineBuilder,
        idempotency_keys: IdempotencyKeys,
        observer: ChainObserver | None = None,
    ) -> None:
        """`keys` are those of the accounts that the node signs for; `idempotency_keys` outlive this core."""
        self._chain = chain
        self._pool = pool
        self._journal = journal
        self._arrivals = arrivals
        self._keys = keys
        self._idempotency_keys = idempotency_keys
        self._listener = listener
        self._observer = observer
        self._loop = asyncio.get_running_loop()
        self._opened_at = self._loop.time() - pool.up_s
        self._waiting: list[tuple[Reply, Admission]] = []
        self._held_back: list[Submission] = []
        """Those that wait for the end of a block that is being made."""
        self._released: deque[Submission] = deque()
        """Those that have waited for it, and come next."""
        self._drops: list[tuple[TxHash, DropReason]] = []
        self._flushed = asyncio.Event()
        self._due_flush: asyncio.Handle | None = None
        self._received_at = 0
        """Unix time in whole seconds, when the first of those came that share the next sync."""
        self._last_batch = 0
        self._counted_seq = pool.next_seq
        self.failed: asyncio.Future[None] = self._loop.create_future()
        """Raises what ended this core: `StoreUnavailable` (open it again) or anything else (stop the node)."""
        idempotency_keys.match_store(self._find_admitted)
        pool.on_given_back = self._take_held_back
        self.engine = build_engine(self._committed, self._dropped)

    def enqueue(self, tx: Tx, record: bytes, reply: Reply) -> None:
        """Admit `tx`. `reply` is called with the admission once it is on disk, or with the refusal."""
        if self._due_flush is None:
            self._look_at_clocks()
        received_at, up_s = self._received_at, self._pool.up_s
        try:
            admitted = self._pool.admit(tx, received_at)
        except NonceTooLow as refused:
            self._reply_used(tx, refused, reply)
            return
        except InTheMaking:
            # For a tenth of a second at most. It is then as if it had come a moment later.
            self._held_back.append((tx, record, reply))
            return
        except (Rejected, MempoolFull) as refused:
            if not isinstance(refused, ReplacementUnderpriced) or not self._pool.unheld.is_local(tx.hash):
                self.tell_refusal(refused.code, refused.detail, tx)
                reply(refused)
                return
            # It was accepted, and is pending: another node may hold it, whatever took its place here.
            admitted = Admitted(added=False, queued=False)
        except NodeError as failure:
            # The state could not be read: the transaction is not at fault.
            reply(failure)
            self.fail(failure)
            return
        if admitted.added or self.engine.adopt(tx.hash):
            self._journal.append_add(received_at, tx, record, up_s if admitted.queued else None)
            if admitted.dropped:
                self._journal_left(admitted.dropped)
        # A known transaction may still wait for the sync of its first submission.
        admission = Admission(tx.hash) if admitted.added else Admission(tx.hash, known=True)
        if admitted.queued:
            admission = self._with_wait(admission)
            if self._observer is not None and admitted.added and admission.waits_for_nonce is not None:
                self._observer.saw_queued(tx, admission.waits_for_nonce)
        self._waiting.append((reply, admission))
        if self._due_flush is None:
            self._flush_soon()

    def _reply_used(self, tx: Tx, refused: NonceTooLow, reply: Reply) -> None:
        """Its nonce is used: by itself, or by another."""
        try:
            known = self._chain.find_location(tx.hash) is not None
        except NodeError as failure:
            reply(failure)
            self.fail(failure)
            return
        if known:
            reply(Admission(tx.hash, confirmed=True))
        else:
            self.tell_refusal(refused.code, refused.detail, tx)
            reply(refused)

    def tell_refusal(self, code: str, reason: str, tx: Tx | None = None) -> None:
        if self._observer is not None:
            self._observer.saw_refusal(code, reason, tx)

    def _take_held_back(self) -> None:
        """The block that they waited for is on disk, or was given up."""
        is_begun = bool(self._released)
        self._released += self._held_back
        self._held_back.clear()
        if not is_begun:
            self._take_released()

    def _take_released(self) -> None:
        for _ in range(HELD_BACK_AT_ONCE):
            # A failure in one refuses all others.
            if not self._released:
                return
            self.enqueue(*self._released.popleft())
        self._loop.call_soon(self._take_released)

    def submit(self, tx: Tx) -> asyncio.Future[Admission]:
        future, reply = self._future_reply()
        self.enqueue(tx, encode_record(tx), reply)
        return future

    def _future_reply(self) -> tuple[asyncio.Future[Admission], Reply]:
        """A future, and the reply that settles it."""
        future: asyncio.Future[Admission] = self._loop.create_future()

        def reply(result: Admission | NodeError) -> None:
            if not future.done():
                if isinstance(result, NodeError):
                    # Its traceback refers to this function, and so to the future, which would keep it until a
                    # collection.
                    future.set_exception(result.with_traceback(None))
                else:
                    future.set_result(result)

        return future, reply

    async def submit_draft(self, draft: Draft, keyed: KeyedRequest | None = None) -> Admission:
        return await self.submit_once(lambda: draft, keyed)

    async def submit_once(self, make_draft: Callable[[], Draft], keyed: KeyedRequest | None) -> Admission:
        """Sign and submit, unless the same request came with its key before. Raises `IdempotencyKeyReused`."""
        self.check_alive()
        if keyed is None:
            return await self.submit(self._sign(make_draft()))
        try:
            payment = self._idempotency_keys.find(keyed)
        except IdempotencyKeyReused as refused:
            self.tell_refusal(refused.code, refused.detail)
            raise
        if payment is not None and payment.answer is not None:
            return self._with_wait(payment.answer)
        future, reply = self._future_reply()
        if payment is None:
            # Before anything else: it may have to wait, and whoever comes meanwhile must find it.
            payment = self._idempotency_keys.reserve(keyed)
        payment.waiting.append(reply)
        if len(payment.waiting) == 1:
            self._submit_keyed(make_draft, payment)
        return await future

    def _submit_keyed(self, make_draft: Callable[[], Draft], payment: KeyedPayment) -> None:
        try:
            if payment.tx is None:
                payment.tx = self._sign(make_draft())
            self.enqueue(payment.tx, encode_record(payment.tx), partial(self._reply_keyed, payment))
        except BaseException:
            payment.waiting.clear()
            # If it got into the mempool, a repetition submits the same again: another would be paid, too.
            if payment.tx is None or not self._pool.knows(payment.tx.hash):
                self._idempotency_keys.release(payment)
            raise

    def _reply_keyed(self, payment: KeyedPayment, result: Admission | NodeError) -> None:
        """Reply to all who asked for it. After a failure it stays open: the next opening says whether it is on disk."""
        if payment.answer is not None:
            # After an unexpected failure it is submitted again, and the first reply was for all.
            return
        if isinstance(result, Admission):
            self._idempotency_keys.answer(payment, result)
        elif isinstance(result, Rejected | MempoolFull):
            self._idempotency_keys.release(payment)
        waiting, payment.waiting = payment.waiting, []
        for reply in waiting:
            reply(result)

    def _find_admitted(self, tx: Tx) -> Admission | None:
        """How the store that was just opened has an admitted transaction; None if it does not have it."""
        if self._chain.find_location(tx.hash) is not None:
            return Admission(tx.hash, confirmed=True)
        # Where blocks were removed, one of them may have confirmed it.
        if self._pool.knows(tx.hash) or (self._chain.base and tx.nonce < self._chain.account(tx.sender).nonce):
            return Admission(tx.hash)
        return None

    async def make_signature(self, account: Address, digest: bytes) -> bytes:
        return sign_digest(digest, self._key_of(account))

    def _key_of(self, account: Address) -> bytes:
        key = self._keys.get(account)
        if key is None:
            raise InvalidField("signature", "is missing, and this node holds no key of the sender")
        return key

    async def sign_draft(self, draft: Draft) -> Tx:
        return self._sign(draft)

    def _sign(self, draft: Draft) -> Tx:
        key = self._key_of(draft.sender)
        if draft.nonce is None:
            draft = replace(draft, nonce=self._pool.next_nonce(draft.sender))
        return sign_draft(draft, key, self._chain.genesis.rules.chain_id)

    def _flush_soon(self) -> None:
        if self._due_flush is not None:
            return
        # Those that come until then share its time: that is milliseconds.
        self._look_at_clocks()
        if self._last_batch >= BUSY_BATCH:
            self._due_flush = self._loop.call_later(GATHER_S, self._flush)
        else:
            self._due_flush = self._loop.call_soon(self._flush)

    def _cancel_flush(self) -> None:
        if self._due_flush is not None:
            self._due_flush.cancel()
            self._due_flush = None

    def _flush(self) -> None:
        """One sync for all that was admitted since the last one; only then are the answers given."""
        self._due_flush = None
        if self.failed.done():
            return
        try:
            if self._journal.holds_only_adds:
                # Then the journal has nothing to write, and they share the block's syncs.
                self.engine.make_block_at_once()
            self._journal.sync()
        except NodeError as failure:
            self.fail(failure)
            return
        self._last_batch = len(self._waiting)
        self._count_admitted()
        self._answer_waiting(None)
        drops, self._drops = self._drops, []
        for tx_hash, reason in drops:
            self._listener.on_dropped(tx_hash, reason)
            if self._observer is not None:
                self._observer.saw_drop(tx_hash, reason)
        self._flushed.set()
        if self._arrivals.listeners:
            self._arrivals.tell()
        self.engine.wake()

    def _count_admitted(self) -> None:
        """All at once: to count each of them would cost more."""
        metrics.MEMPOOL_ADMITTED.add(self._pool.next_seq - self._counted_seq)
        self._counted_seq = self._pool.next_seq

    async def await_drops(self) -> bool:
        """Return once all drops so far are on disk, or this core has ended. False if they were before."""
        if not self._drops or self.failed.done():
            return False
        self._flushed.clear()
        await self._flushed.wait()
        return True

    def _answer_waiting(self, failure: NodeError | None) -> None:
        waiting, self._waiting = self._waiting, []
        for reply, admission in waiting:
            if admission.waits_for_nonce is not None:
                # What it waits for may have come meanwhile.
                admission = self._with_wait(admission)
            reply(failure or admission)

    def _with_wait(self, admission: Admission) -> Admission:
        """The admission with the nonce that the transaction waits for now, if it is queued."""
        entry = self._pool.find(admission.tx_hash)
        missing = None if entry is None else self._pool.find_missing_nonce(entry)
        return replace(admission, waits_for_nonce=missing)

    def _journal_left(self, drops: Drops) -> None:
        """Write to the journal what left the mempool. What has ended is announced after the next sync."""
        self._drops += journal_left(self._journal, self._pool, drops)

    # What the engine and the clock bring about.

    def _committed(self, outcome: BlockOutcome) -> Steps[None]:
        """The block is on disk: remove its transactions from the mempool and the journal."""
        # On a network, most come from other nodes, and no sync follows.
        self._count_admitted()
        if self._arrivals.listeners:
            # Announce arrivals first: the block may hold a transaction that arrived a moment ago.
            self._arrivals.tell()
        if self._observer is not None:
            self._observer.saw_block(outcome.block)
        if outcome.balances:
            # After a balance was set, pending transactions may cost more than it.
            self._dropped(self._pool.settle_all())
            return
        txs = outcome.block.txs
        drops = yield from self._pool.confirm_steps(txs)
        for group in in_groups(txs):
            self._journal.settle_confirmed(group)
            yield
        self._dropped(drops)

    def _dropped(self, drops: Drops) -> None:
        if drops or self._pool.forgotten:
            self._journal_left(drops)
            self._flush_soon()

    def expire(self) -> None:
        """Drop expired transactions, and write the uptime to disk for those that are still queued."""
        up_s = self._update_uptime()
        self._dropped(self._pool.expire())
        if self._pool.queued_count and up_s >= self._journal.up_s + UPTIME_INTERVAL_S:
            self._journal.append_uptime(up_s)
            self._flush_soon()

    def _look_at_clocks(self) -> None:
        self._received_at = int(time.time())
        self._update_uptime()

    def _update_uptime(self) -> int:
        """Give the mempool the node's uptime, by the monotonic clock."""
        self._pool.up_s = int(self._loop.time() - self._opened_at)
        return self._pool.up_s

    def check_alive(self) -> None:
        """Refuse what comes after this core has ended. Raises `StoreUnavailable`."""
        if self.failed.done():
            raise StoreUnavailable("the store is being reopened: try again")

    def fail(self, failure: BaseException) -> None:
        """End this core: nothing more is admitted, and what waits for its sync is refused."""
        self._chain.board.close()
        if not self.failed.done():
            self.failed.set_exception(failure)
        self._flushed.set()
        for _, admission in self._waiting:
            # It may not be shown as pending, because it is not known whether it is on disk.
            self._pool.forget(admission.tx_hash)
        told = failure if isinstance(failure, NodeError) else StoreUnavailable("the node is stopping")
        self._answer_waiting(told)
        self._refuse_held_back(told)
        # What it makes could not be kept.
        self.engine.stop()

    def _refuse_held_back(self, failure: NodeError) -> None:
        held_back = [*self._released, *self._held_back]
        self._released.clear()
        self._held_back.clear()
        for _, _, reply in held_back:
            reply(failure)

    def finish(self) -> None:
        """Put everything on disk, once the engine has stopped."""
        if not self.failed.done():
            while self._released:
                self.enqueue(*self._released.popleft())
            self._journal.append_uptime(self._update_uptime())
            self._cancel_flush()
            self._flush()

    def close(self) -> None:
        self._cancel_flush()
        failure = StoreUnavailable("the store went away before the transaction was on disk: submit it again")
        self._answer_waiting(failure)
        self._refuse_held_back(failure)


def journal_left(journal: Journal, pool: Mempool, drops: Drops) -> list[tuple[TxHash, DropReason]]:
    """Write to the journal what left the mempool. Returns those that have ended.

    The journal keeps those that may still be confirmed, as long as the mempool remembers them.
    """
    ended = []
    for tx_hash, reason in drops:
        metrics.MEMPOOL_DROPPED.inc(reason)
        if tx_hash in pool.unheld.by_hash:
            journal.append_leave(tx_hash, reason)
        else:
            journal.append_drop(tx_hash, reason)
            journal.settle(tx_hash)
            ended.append((tx_hash, reason))
    for tx_hash in pool.forgotten:
        journal.settle(tx_hash)
    pool.forgotten.clear()
    return ended
