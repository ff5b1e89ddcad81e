"""The core: admits transactions, puts them on disk, and keeps what the engine commits in step with the mempool.

Everything runs on one event loop and nothing here awaits between a check and its effect, so no lock is needed.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import structlog

from cairn.config import Settings
from cairn.core.arrivals import ArrivalListener, Arrivals
from cairn.core.dev import DevClock, DevControls
from cairn.core.filters import Filters
from cairn.core.gateway import (
    Admission,
    ChainInfo,
    Checks,
    ConfirmedTx,
    CoreGateway,
    DroppedTx,
    FilterChanges,
    FilterKind,
    PendingPage,
    PendingTx,
    Phase,
    Standing,
    Status,
    ValidatorSet,
    not_dev_chain,
)
from cairn.core.validators import submit_update, validator_set
from cairn.domain.codec import encode_record
from cairn.domain.errors import (
    Corrupt,
    InvalidField,
    MempoolFull,
    NodeError,
    NonceTooLow,
    Reverting,
    StoreUnavailable,
    TxRejected,
)
from cairn.domain.genesis import Genesis
from cairn.domain.governance import ValidatorUpdate
from cairn.domain.transition import BlockOutcome
from cairn.domain.txs import sign_draft
from cairn.domain.types import Address, Draft, DropReason, Tx, TxHash
from cairn.engine.application import Application
from cairn.engine.embedded import EmbeddedEngine
from cairn.engine.network.engine import NetworkEngine
from cairn.engine.port import OK, Engine
from cairn.feed.feed import Feed
from cairn.mempool.policy import PoolLimits
from cairn.mempool.pool import Mempool
from cairn.store.chain import ChainStore
from cairn.store.directory import journal_path
from cairn.store.journal import Journal
from cairn.store.rewind import DevDirectory, DevState
from cairn.store.seen import SeenHead

Reply = Callable[[Admission | NodeError], None]
Drops = Sequence[tuple[TxHash, DropReason]]

HOUSEKEEPING_INTERVAL_S = 5.0
UPTIME_INTERVAL_S = 60
"""How often, while something waits for a missing nonce, it is put on disk how long the node has been up."""
BUSY_BATCH = 8
"""When a sync served this many submissions, more are on their way: the next one waits for them a moment."""
GATHER_S = 0.002

log = structlog.get_logger("cairn.core")


class Core(CoreGateway):
    """One opened chain. Built by `Core.open`; after a failed write it is closed and opened anew, never mended."""

    def __init__(
        self,
        chain: ChainStore,
        pool: Mempool,
        journal: Journal,
        feed: Feed,
        settings: Settings,
        dev_keys: Mapping[Address, bytes],
        abci_socket: Path | None,
    ) -> None:
        self._chain = chain
        self._pool = pool
        self._journal = journal
        self._keys = dev_keys
        self._settings = settings
        self._rules = chain.genesis.rules
        self._loop = asyncio.get_running_loop()
        self._opened_at = self._loop.time() - pool.up_s
        self._waiting: list[tuple[Reply, Admission]] = []
        self._drops: list[tuple[TxHash, DropReason]] = []
        self._arrivals = Arrivals(pool, self._loop)
        self._arrival_listener: ArrivalListener = lambda txs: None
        self._filters = Filters(lambda: self.head, self._arrivals, self._loop.time)
        self._flush_due = False
        self._closed = False
        self._last_batch = 0
        self._drop_listener: Callable[[TxHash, DropReason], None] = lambda tx_hash, reason: None
        self.failed: asyncio.Future[None] = self._loop.create_future()
        """Raises what ended this core: `StoreUnavailable` (open it anew) or anything else (stop the node)."""
        self.feed = feed
        self._kept = DevDirectory(chain.directory) if dev_keys else None
        self._dev: DevControls | None = None
        """Only on a dev chain: the node holds the keys of its accounts."""
        self.engine = self._build_engine(Application(chain, feed), abci_socket)

    def _build_engine(self, application: Application, abci_socket: Path | None) -> Engine:
        settings = self._settings
        if settings.engine == "embedded":
            if self._kept is None:
                return self._build_embedded(application, time.time)
            clock = DevClock(self._kept)
            embedded = self._build_embedded(application, clock)
            self._dev = DevControls(self._chain, self._pool, embedded, self._kept, clock, self._keys)
            return embedded
        assert abci_socket is not None, "CometBFT must be able to reach this node"
        return NetworkEngine(
            application,
            self._chain,
            self._pool,
            self._arrivals.tell,
            self._committed,
            self._dropped,
            abci_socket=abci_socket,
            rpc_address=settings.cometbft_rpc,
            halt_after_s=settings.halt_after_s,
            price_bump_percent=pool_limits(settings).price_bump_percent,
            snapshot_interval=settings.snapshot_interval,
            retain_blocks=settings.retain_blocks,
        )

    def _build_embedded(self, application: Application, clock: Callable[[], float]) -> EmbeddedEngine:
        return EmbeddedEngine(
            application,
            self._pool,
            self._committed,
            block_time_s=self._settings.block_time_s,
            empty_blocks=self._settings.empty_blocks,
            proposer=self._settings.proposer,
            clock=clock,
        )

    @classmethod
    def open(
        cls,
        genesis: Genesis,
        data_dir: Path,
        settings: Settings,
        dev_keys: Mapping[Address, bytes],
        abci_socket: Path | None = None,
        seen: SeenHead | None = None,
    ) -> "Core":
        """Open the store, then bring the mempool back from the journal.

        `abci_socket` is where to listen for CometBFT, when that is the engine. With `seen`, only the chain that had
        this head is opened, and none is started.
        """
        with contextlib.ExitStack() as opened:
            chain = ChainStore.open(data_dir, genesis, seen)
            opened.callback(chain.close)
            journal = Journal.open(journal_path(data_dir), bounds=chain.journal_bounds)
            opened.callback(journal.close)
            pool = Mempool(genesis.rules, pool_limits(settings), chain)
            restore(pool, journal, chain)
            opened.pop_all()
        return cls(chain, pool, journal, Feed(), settings, dev_keys, abci_socket)

    def start(self) -> None:
        self._engine_task = self._loop.create_task(self.engine.run())
        self._engine_task.add_done_callback(self._engine_ended)
        self._housekeeping = self._loop.call_later(HOUSEKEEPING_INTERVAL_S, self._keep_house)
        self.engine.wake()

    async def stop(self) -> None:
        """Finish the running block, put everything on disk, close."""
        self._housekeeping.cancel()
        self.engine.stop()
        await asyncio.wait([self._engine_task])
        if not self.failed.done():
            self._journal.append_uptime(self._note_time())
            self._flush()
        self.close()

    def close(self) -> None:
        self._answer_waiting(
            StoreUnavailable("the store went away before the transaction was on disk: submit it again")
        )
        self._arrivals.close()
        with contextlib.suppress(NodeError):
            # It needs the accounts, which cannot be read from here on; the mempool still can.
            self._pool.list_noted()
        self._closed = True
        self._journal.close()
        self._chain.close()

    def on_dropped(self, listener: Callable[[TxHash, DropReason], None]) -> None:
        self._drop_listener = listener

    def on_arrived(self, listener: ArrivalListener) -> None:
        """Who is told of transactions that come in, while they are watched for."""
        self._arrival_listener = listener

    def watch_arrivals(self, on: bool) -> None:
        (self._arrivals.listen if on else self._arrivals.forget)(self._arrival_listener)

    @property
    def head(self) -> int:
        return self._chain.head_header.height

    def seen_head(self) -> SeenHead:
        """What a later opening must find."""
        reverts = 0 if self._kept is None else self._kept.state.reverts
        return SeenHead(self.head, self._chain.head_hash, reverts)

    def info(self) -> ChainInfo:
        """Once a revert is decided, what the chain will be after it; its files must not be read any more."""
        kept = DevState() if self._kept is None else self._kept.state
        target = kept.snapshots[kept.reverting] if kept.reverting is not None else None
        return ChainInfo(
            chain_id=self._rules.chain_id,
            gas_price=self._rules.gas_price,
            block_gas_limit=self._rules.block_gas_limit,
            engine=self.engine.name,
            store_path=str(self._chain.directory) if target is None else "",
            signs_for=list(self._keys),
            reverts=kept.reverts if target is None else kept.reverts + 1,
            reverted_to=kept.reverted_to if target is None else target.height,
        )

    # Submission: admit in memory, answer after the next sync. Everything that arrives meanwhile shares that sync.

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
        return await self.submit(self.sign(draft))

    def sign(self, draft: Draft) -> Tx:
        key = self._keys.get(draft.sender)
        if key is None:
            raise InvalidField("signature", "is missing, and this node holds no key of the sender")
        if draft.nonce is None:
            draft = msgspec.structs.replace(draft, nonce=self._pool.next_nonce(draft.sender))
        return sign_draft(draft, key, self._rules.chain_id)

    def _flush_soon(self) -> None:
        if self._flush_due:
            return
        self._flush_due = True
        if self._last_batch >= BUSY_BATCH:
            self._loop.call_later(GATHER_S, self._flush)
        else:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """One sync for all that was admitted since the last one; only then are the answers given."""
        self._flush_due = False
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
            self._drop_listener(tx_hash, reason)
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
        # Before they leave: a block may take what came in a moment ago. What others took in was told by now.
        self._arrivals.tell()
        txs = outcome.block.txs
        for tx in txs:
            self._journal.settle(tx.hash)
        # What was pending may cost more than a balance that was set.
        self._dropped(self._pool.settle_all() if outcome.balances else self._pool.confirm(txs))

    def _dropped(self, drops: Drops) -> None:
        if drops:
            self._note_drops(drops)
            self._flush_soon()

    def _keep_house(self) -> None:
        """Let go what has waited for too long, and stop before the disk is full rather than after."""
        self._housekeeping = self._loop.call_later(HOUSEKEEPING_INTERVAL_S, self._keep_house)
        try:
            self._chain.check_room()
        except StoreUnavailable as failure:
            self.fail(failure)
            return
        up_s = self._note_time()
        self._dropped(self._pool.expire())
        if self._pool.has_waiting and up_s >= self._journal.up_s + UPTIME_INTERVAL_S:
            self._journal.append_uptime(up_s)
            self._flush_soon()

    def _note_time(self) -> int:
        """Tell the mempool how long the node has been up, by a clock that nobody can set."""
        self._pool.up_s = int(self._loop.time() - self._opened_at)
        return self._pool.up_s

    def _engine_ended(self, task: "asyncio.Task[None]") -> None:
        if task.cancelled():
            return
        failure = task.exception()
        if failure is not None:
            self.fail(failure)

    def fail(self, failure: BaseException) -> None:
        """End this core: nothing more is admitted, and what waits for its sync is refused."""
        if not self.failed.done():
            self.failed.set_exception(failure)
        for _, admission in self._waiting:
            # Nobody may hear that it is pending: whether it is on disk is not known.
            self._pool.remove(admission.tx_hash)
        self._answer_waiting(failure if isinstance(failure, NodeError) else StoreUnavailable("the node is stopping"))

    # Questions.

    async def next_nonce(self, sender: Address) -> int:
        """Once this core has ended, 0 for a sender without pending transactions: its account cannot be read."""
        return self._pool.next_nonce(sender) if not self._closed or self._pool.reserved(sender) else 0

    async def find_tx(self, tx_hash: TxHash) -> Standing | None:
        """Once this core is closed, only what its memory knows: then None says nothing.

        Raises `StoreUnavailable` of one that has ended: what it has not, or has dropped, may yet be on disk.
        """
        entry = self._pool.find(tx_hash)
        if entry is not None:
            return PendingTx(entry.tx, entry.received_at)
        if self._closed:
            return None
        location = self._chain.find_location(tx_hash)
        if location is not None:
            return ConfirmedTx(location[0])
        if self.failed.done():
            raise _opening_anew()
        reason = self._pool.reason_dropped(tx_hash)
        return None if reason is None else DroppedTx(reason)

    async def list_pending(self, limit: int, after: str | None, sender: Address | None) -> PendingPage:
        page = self._pool.page(limit, after, sender)
        items = [PendingTx(entry.tx, entry.received_at) for entry in page.entries]
        return PendingPage(items, page.total, page.next, self._pool.pending_count)

    async def create_filter(self, kind: FilterKind, client: str) -> str | None:
        return self._filters.create(kind, client)

    async def find_changes(self, filter_name: str, shown: int) -> FilterChanges | None:
        return self._filters.find_changes(filter_name, shown)

    async def remove_filter(self, filter_name: str) -> bool:
        return self._filters.remove(filter_name)

    async def status(self) -> Status:
        return self.status_in("ready", "")

    def status_in(self, phase: Phase, reason: str) -> Status:
        return Status(
            phase=phase,
            reason=reason,
            head=self.head,
            pending=self._pool.pending_count,
            queued=self._pool.queued_count,
            limit=self._settings.mempool_size,
            now=int(time.time() if self._dev is None else self._dev.now),
        )

    async def validators(self) -> ValidatorSet:
        return validator_set(self._chain)

    async def submit_update(self, update: ValidatorUpdate) -> None:
        await submit_update(self._chain, update, self._settings.cometbft_rpc, self._vouch_for)

    def _vouch_for(self, update: ValidatorUpdate) -> None:
        if isinstance(self.engine, NetworkEngine):
            self.engine.vouch_for(update)

    # What the developer of a dev chain brings about.

    def _controls(self) -> DevControls:
        """Raises `NotDevChain`, and the reason when this core has ended."""
        if self._dev is None:
            raise not_dev_chain()
        if self.failed.done():
            raise _opening_anew()
        return self._dev

    async def mine(self, blocks: int = 1, interval_s: int = 0, timestamp: int | None = None) -> int:
        self._controls().prepare(blocks, timestamp)
        for number in range(blocks):
            if number:
                # Answers go out, and submissions come in, between two blocks.
                await asyncio.sleep(0)
                self._controls().increase_time(interval_s)
            self._controls().mine_block()
        return self.head

    async def snapshot(self) -> int:
        return self._controls().snapshot()

    async def revert(self, snapshot: int) -> bool:
        """Decides it and ends this core; whoever runs it must open the chain anew."""
        decided = self._controls().decide_revert(snapshot)
        if decided:
            # At once: no worker may hear of one more block of the old chain.
            self.engine.stop()
            self.fail(Reverting(f"the chain goes back to snapshot {snapshot}: try again"))
        return decided

    async def set_balance(self, address: Address, balance: int) -> int:
        return self._controls().set_balance(address, balance)

    async def increase_time(self, seconds: int) -> int:
        return self._controls().increase_time(seconds)

    async def set_next_timestamp(self, timestamp: int) -> None:
        self._controls().set_next_timestamp(timestamp)

    async def faucet(self, address: Address, amount: int | None) -> Admission:
        return await self.submit_draft(self._controls().faucet_draft(address, amount))

    async def check(self) -> Checks:
        """A part that fails its check ends this core: a disk that lost one write is not trusted with the next."""
        store, journal = self._tried(self._chain.probe), self._tried(self._journal.probe)
        # Nothing leaves the mempool while the engine makes no blocks.
        return Checks(store=store, mempool=self.engine.condition() if journal == OK else journal)

    def _tried(self, probe: Callable[[], None]) -> str:
        try:
            probe()
        except (StoreUnavailable, Corrupt) as failure:
            self.fail(failure)
            return failure.detail
        return OK


def _opening_anew() -> StoreUnavailable:
    return StoreUnavailable("the store is being opened anew: try again")


def pool_limits(settings: Settings) -> PoolLimits:
    return PoolLimits(
        size=settings.mempool_size,
        per_sender=settings.mempool_per_sender,
        nonce_gap=settings.mempool_nonce_gap,
        lifetime_s=settings.mempool_lifetime_s,
    )


def restore(pool: Mempool, journal: Journal, chain: ChainStore) -> None:
    """Admit what the journal holds, in its order, as if it arrived now; what was confirmed meanwhile is settled."""
    restored = 0
    pool.up_s = journal.up_s
    for tx_hash, reason in journal.recovered_drops:
        pool.note_dropped(tx_hash, reason)
    for entry in journal.recovered:
        tx = entry.tx
        if tx.nonce < chain.account(tx.sender).nonce:
            journal.settle(tx.hash)
            if chain.find_location(tx.hash) is None:
                pool.note_dropped(tx.hash, "nonce used")
            continue
        try:
            admitted = pool.restore(tx, entry.received_at, entry.waits_since)
        except (TxRejected, MempoolFull) as refused:
            # Limits may have been lowered since: never silently.
            log.warning("a journaled transaction no longer fits", tx="0x" + tx.hash.hex(), reason=refused.detail)
            journal.append_drop(tx.hash, "evicted")
            journal.settle(tx.hash)
            pool.note_dropped(tx.hash, "evicted")
            continue
        restored += admitted.added
        for tx_hash, reason in admitted.dropped:
            journal.append_drop(tx_hash, reason)
            journal.settle(tx_hash)
    journal.sync()
    # From here on the mempool holds what is alive.
    journal.recovered.clear()
    journal.recovered_drops.clear()
    if restored:
        log.info("mempool restored", transactions=restored)
