"""Admission: admit in memory, answer after the next sync. Everything that arrives meanwhile shares that sync."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from cairn.core.arrivals import Arrivals
from cairn.core.gateway import Admission, MempoolListener, SubmissionCalls
from cairn.domain.codec import encode_record
from cairn.domain.errors import InvalidField, MempoolFull, NodeError, NonceTooLow, StoreUnavailable, TxRejected
from cairn.domain.transition import BlockOutcome
from cairn.domain.txs import sign_draft
from cairn.domain.types import Address, Draft, DropReason, Tx, TxHash
from cairn.engine.port import Engine
from cairn.feed.onlooker import Onlooker
from cairn.mempool.pool import Mempool
from cairn.store.chain import ChainStore
from cairn.store.journal import Journal

Reply = Callable[[Admission | NodeError], None]
Drops = Sequence[tuple[TxHash, DropReason]]
EngineBuilder = Callable[[Callable[[BlockOutcome], None], Callable[[Drops], None]], Engine]
"""Makes the engine from whom it must tell of each block that is on disk, and of what left the mempool."""

UPTIME_INTERVAL_S = 60
"""How often, while something waits for a missing nonce, it is put on disk how long the node has been up."""
BUSY_BATCH = 8
"""When a sync served this many submissions, more are on their way: the next one waits for them a moment."""
GATHER_S = 0.002


class Admissions(SubmissionCalls):
    """What goes into the mempool and what leaves it, in step with the journal and the engine."""

    def __init__(
        self,
        chain: ChainStore,
        pool: Mempool,
        journal: Journal,
        arrivals: Arrivals,
        keys: Mapping[Address, bytes],
        listener: MempoolListener,
        build_engine: EngineBuilder,
        onlooker: Onlooker | None = None,
    ) -> None:
        """`keys` are those of the accounts that the node signs for."""
        self._chain = chain
        self._pool = pool
        self._journal = journal
        self._arrivals = arrivals
        self._keys = keys
        self._listener = listener
        self._onlooker = onlooker
        self._loop = asyncio.get_running_loop()
        self._opened_at = self._loop.time() - pool.up_s
        self._waiting: list[tuple[Reply, Admission]] = []
        self._drops: list[tuple[TxHash, DropReason]] = []
        self._due_flush: asyncio.Handle | None = None
        self._last_batch = 0
        self.failed: asyncio.Future[None] = self._loop.create_future()
        """Raises what ended this core: `StoreUnavailable` (open it anew) or anything else (stop the node)."""
        self.engine = build_engine(self._committed, self._dropped)

    def enqueue(self, tx: Tx, record: bytes, reply: Reply) -> None:
        """Admit `tx`; `reply` is called with the admission once it is on disk, or with the reason against it."""
        received_at = int(time.time())
        up_s = self._note_time()
        try:
            admitted = self._pool.admit(tx, received_at)
        except NonceTooLow as refused:
            known = self._chain.find_location(tx.hash) is not None
            reply(Admission(tx.hash, confirmed=True) if known else refused)
            return
        except (TxRejected, MempoolFull) as refused:
            reply(refused)
            return
        except NodeError as failure:
            # The state could not be read: this is no fault of the transaction's.
            reply(failure)
            self.fail(failure)
            return
        if admitted.added or self.engine.adopt(tx.hash):
            self._journal.append_add(received_at, tx, record, up_s if admitted.queued else None)
            if admitted.dropped:
                self._note_drops(admitted.dropped)
        # A transaction that is known may still wait for the sync that the first submission of it asked for.
        self._waiting.append((reply, Admission(tx.hash) if admitted.added else Admission(tx.hash, known=True)))
        self._flush_soon()

    def submit(self, tx: Tx) -> asyncio.Future[Admission]:
        future: asyncio.Future[Admission] = self._loop.create_future()

        def reply(result: Admission | NodeError) -> None:
            if not future.done():
                if isinstance(result, NodeError):
                    future.set_exception(result)
                else:
                    future.set_result(result)

        self.enqueue(tx, encode_record(tx), reply)
        return future

    async def submit_draft(self, draft: Draft) -> Admission:
        return await self.submit(self._sign(draft))

    def _sign(self, draft: Draft) -> Tx:
        key = self._keys.get(draft.sender)
        if key is None:
            raise InvalidField("signature", "is missing, and this node holds no key of the sender")
        if draft.nonce is None:
            draft = msgspec.structs.replace(draft, nonce=self._pool.next_nonce(draft.sender))
        return sign_draft(draft, key, self._chain.genesis.rules.chain_id)

    def _flush_soon(self) -> None:
        if self._due_flush is not None:
            return
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
        self._cancel_flush()
        if self.failed.done():
            return
        try:
            self._journal.sync()
        except NodeError as failure:
            self.fail(failure)
            return
        self._last_batch = len(self._waiting)
        self._answer_waiting(None)
        drops, self._drops = self._drops, []
        for tx_hash, reason in drops:
            self._listener.on_dropped(tx_hash, reason)
            if self._onlooker is not None:
                self._onlooker.saw_drop(tx_hash, reason)
        if self._arrivals.listeners:
            self._arrivals.tell()
        self.engine.wake()

    def _answer_waiting(self, failure: NodeError | None) -> None:
        waiting, self._waiting = self._waiting, []
        for reply, admission in waiting:
            reply(failure or admission)

    def _note_drops(self, drops: Drops) -> None:
        """Write down what left the mempool; its followers hear of it after the next sync."""
        for tx_hash, reason in drops:
            self._journal.append_drop(tx_hash, reason)
            self._journal.settle(tx_hash)
        self._drops.extend(drops)

    # What the engine and the clock bring about.

    def _committed(self, outcome: BlockOutcome) -> None:
        """The block is on disk: only now may its transactions leave the mempool and the journal."""
        if self._arrivals.listeners:
            # Before they leave: a block may take what came in a moment ago. What others took in was told by now.
            self._arrivals.tell()
        txs = outcome.block.txs
        for tx in txs:
            self._journal.settle(tx.hash)
        # What was pending may cost more than a balance that was set.
        self._dropped(self._pool.settle_all() if outcome.balances else self._pool.confirm(txs))
        if self._onlooker is not None:
            self._onlooker.saw_block(outcome.block)

    def _dropped(self, drops: Drops) -> None:
        if drops:
            self._note_drops(drops)
            self._flush_soon()

    def expire(self) -> None:
        """Let go what has waited for too long, and put on disk how long that is, for what waits on."""
        up_s = self._note_time()
        self._dropped(self._pool.expire())
        if self._pool.queued_count and up_s >= self._journal.up_s + UPTIME_INTERVAL_S:
            self._journal.append_uptime(up_s)
            self._flush_soon()

    def _note_time(self) -> int:
        """Tell the mempool how long the node has been up, by a clock that nobody can set."""
        self._pool.up_s = int(self._loop.time() - self._opened_at)
        return self._pool.up_s

    def check_alive(self) -> None:
        """Raises `StoreUnavailable` when this core has ended."""
        if self.failed.done():
            raise StoreUnavailable("the store is being opened anew: try again")

    def fail(self, failure: BaseException) -> None:
        """End this core: nothing more is admitted, and what waits for its sync is refused."""
        if not self.failed.done():
            self.failed.set_exception(failure)
        for _, admission in self._waiting:
            # Nobody may hear that it is pending: whether it is on disk is not known.
            self._pool.remove(admission.tx_hash)
        self._answer_waiting(failure if isinstance(failure, NodeError) else StoreUnavailable("the node is stopping"))

    def finish(self) -> None:
        """Put everything on disk, once the engine has stopped."""
        if not self.failed.done():
            self._journal.append_uptime(self._note_time())
            self._flush()

    def close(self) -> None:
        self._cancel_flush()
        self._answer_waiting(
            StoreUnavailable("the store went away before the transaction was on disk: submit it again")
        )
