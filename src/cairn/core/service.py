"""The core: one opened chain, from its opening to its end, and the parts that answer for it.

Everything runs on one event loop, and no method awaits between a check and its effect, so no lock is needed.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import structlog

from cairn.config import Settings
from cairn.core.admission import Admissions, Arrivals, Drops, note_left
from cairn.core.calls import Calls, Method, methods_of
from cairn.core.dev_controls import DevClock, DevControls, NoDevControls
from cairn.core.filters import Filters
from cairn.core.gateway import (
    Admission,
    ChainInfo,
    ChainObserver,
    ConfirmedTx,
    CoreGateway,
    DroppedTx,
    MempoolCalls,
    MempoolListener,
    PendingPage,
    PendingTx,
    Standing,
    Status,
    ValidatorSet,
)
from cairn.domain.answers import Checks
from cairn.domain.errors import Corrupt, EngineUnavailable, MempoolFull, NodeError, NotFound, Rejected, StoreUnavailable
from cairn.domain.genesis import Genesis
from cairn.domain.governance import Update, encode_update
from cairn.domain.transition import BlockOutcome
from cairn.domain.types import Address, DropReason, Phase, Tx, TxHash
from cairn.domain.updates import apply_update
from cairn.engine.application import OK, Application, Engine, Feed
from cairn.engine.embedded import ClockWatch, EmbeddedEngine, Pace, Pruning
from cairn.engine.network.engine import NetworkEngine
from cairn.engine.network.rpc import IN_CACHE, RPC_TIMEOUT_S, Rpc, RpcAway
from cairn.heartbeat import Work, doing
from cairn.mempool.pool import Mempool, PoolLimits
from cairn.mempool.unheld import UnheldTx
from cairn.store.chain import ChainStore
from cairn.store.dev_snapshots import DevDirectory, DevState
from cairn.store.directory import SeenHead, journal_path
from cairn.store.journal import Journal, JournalEntry

HOUSEKEEPING_INTERVAL_S = 5.0

_A = TypeVar("_A")
log = structlog.get_logger("cairn.core")


class Core(CoreGateway):
    """One opened chain, made by `Core.open`. After a failed write it is closed and opened again, never repaired."""

    def __init__(
        self,
        chain: ChainStore,
        pool: Mempool,
        journal: Journal,
        settings: Settings,
        dev_keys: Mapping[Address, bytes],
        listener: MempoolListener,
        abci_socket: Path | None,
        pace: Pace,
        observer: ChainObserver | None = None,
    ) -> None:
        self._chain = chain
        self._pace = pace
        self._pool = pool
        self._journal = journal
        self._keys = dev_keys
        self._settings = settings
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._arrivals = Arrivals(pool, self._loop)
        self._engine_task: asyncio.Task[None] | None = None
        self._housekeeping: asyncio.TimerHandle | None = None
        self._told_compactions = 0
        self.feed = Feed()
        self._kept = DevDirectory(chain.directory) if dev_keys else None
        self._dev_clock = DevClock(self._kept) if self._kept is not None and settings.engine == "embedded" else None
        """Only on a dev chain: the node holds the keys of its accounts."""
        self.admissions = Admissions(
            chain, pool, journal, self._arrivals, dev_keys, listener, partial(self._build_engine, abci_socket), observer
        )
        self.engine = self.admissions.engine
        self.failed = self.admissions.failed
        self._lookups = TxLookups(chain, pool, self.admissions.check_alive, self.admissions.await_drops)
        filters = Filters(lambda: self.head, self._arrivals, self._loop.time)
        parts: tuple[Calls, ...] = (self.admissions, self._lookups, filters, self._build_controls())
        self._answering = {method.name: part for part in parts for method in methods_of(type(part))}

    def _build_engine(
        self,
        abci_socket: Path | None,
        on_committed: Callable[[BlockOutcome], None],
        on_dropped: Callable[[Drops], None],
    ) -> Engine:
        application, settings = Application(self._chain, self.feed), self._settings
        if settings.engine == "embedded":
            return EmbeddedEngine(
                application,
                self._pool,
                on_committed,
                on_dropped,
                pace=self._pace,
                proposer=settings.proposer,
                clock=self._dev_clock or time.time,
                # A developer may move the clock anywhere.
                clock_watch=ClockWatch() if self._dev_clock is None else None,
                pruning=Pruning(self._chain, settings.retain_blocks) if settings.retain_blocks else None,
            )
        assert abci_socket is not None, "CometBFT must be able to reach this node"
        return NetworkEngine(
            application,
            self._chain,
            self._pool,
            self._arrivals.tell,
            on_committed,
            on_dropped,
            abci_socket=abci_socket,
            rpc_address=settings.cometbft_rpc,
            halt_after_s=settings.halt_after_s,
            snapshot_interval=settings.snapshot_interval,
            retain_blocks=settings.retain_blocks,
        )

    def _build_controls(self) -> DevControls | NoDevControls:
        kept, clock, engine = self._kept, self._dev_clock, self.engine
        if kept is None or clock is None or not isinstance(engine, EmbeddedEngine):
            return NoDevControls()
        return DevControls(self._chain, self._pool, engine, kept, clock, self._pace, self._keys, self.admissions)

    @classmethod
    def open(
        cls,
        genesis: Genesis,
        data_dir: Path,
        settings: Settings,
        dev_keys: Mapping[Address, bytes],
        listener: MempoolListener,
        abci_socket: Path | None = None,
        seen: SeenHead | None = None,
        pace: Pace | None = None,
        observer: ChainObserver | None = None,
        begun: Path | None = None,
    ) -> "Core":
        """Open the store, then restore the mempool from the journal.

        `abci_socket` is where to listen for CometBFT, when that is the engine. With `seen`, only the chain that had
        this head is opened, and none is started; nor with `begun`, the file that says that there is one. `pace` is that
        of the previous core, to keep its block times.
        """
        with contextlib.ExitStack() as opened:
            chain = ChainStore.open(data_dir, genesis, seen, begun)
            opened.callback(chain.close)
            journal = Journal.open(journal_path(data_dir), chain.journal_bounds)
            opened.callback(journal.close)
            pool = Mempool(genesis.rules, pool_limits(settings), chain, is_shared=settings.engine != "embedded")
            restore(pool, journal, chain)
            opened.pop_all()
        pace = pace or Pace(settings.block_time_s, settings.empty_blocks)
        return cls(chain, pool, journal, settings, dev_keys, listener, abci_socket, pace, observer)

    def start(self) -> None:
        self._engine_task = self._loop.create_task(self.engine.run())
        self._engine_task.add_done_callback(self._engine_ended)
        self._housekeeping = self._loop.call_later(HOUSEKEEPING_INTERVAL_S, self._keep_house)
        self.engine.wake()

    async def stop(self) -> None:
        """Finish the running block, put everything on disk, close."""
        if self._housekeeping is not None:
            self._housekeeping.cancel()
        self.engine.stop()
        if self._engine_task is not None:
            await asyncio.wait([self._engine_task])
        self.admissions.finish()
        self.close()

    @doing(Work.DISK)
    def close(self) -> None:
        self.admissions.close()
        self._arrivals.close()
        self._lookups.close()
        self._journal.close()
        self._chain.close()

    def _keep_house(self) -> None:
        """Drop what expired, have workers release deleted files, and fail early on a disk that is nearly full."""
        self._housekeeping = self._loop.call_later(HOUSEKEEPING_INTERVAL_S, self._keep_house)
        # First: their space may be what the disk lacks.
        self.have_files_released()
        try:
            self._chain.check_room()
        except StoreUnavailable as failure:
            self.admissions.fail(failure)
            return
        self.admissions.expire()

    def have_files_released(self) -> None:
        """Have workers let go of files that were replaced: until then those take up space on the disk."""
        if self._chain.compactions != self._told_compactions:
            self._told_compactions = self._chain.compactions
            self.feed.repeat(self.head)

    def _engine_ended(self, task: "asyncio.Task[None]") -> None:
        if task.cancelled():
            return
        failure = task.exception()
        if failure is not None:
            self.admissions.fail(failure)

    @property
    def head(self) -> int:
        return self._chain.head_header.height

    def seen_head(self) -> SeenHead:
        """What the next opening must find on disk."""
        reverts = 0 if self._kept is None else self._kept.state.reverts
        return SeenHead(self.head, self._chain.head_hash, reverts)

    def info(self) -> ChainInfo:
        """After a revert is decided: the chain after the revert. The files must not be read any more."""
        kept = DevState() if self._kept is None else self._kept.state
        target = kept.snapshots[kept.reverting] if kept.reverting is not None else None
        rules = self._chain.genesis.rules
        return ChainInfo(
            chain_id=rules.chain_id,
            gas_price=rules.gas_price,
            block_gas_limit=rules.block_gas_limit,
            engine=self.engine.name,
            store_path=str(self._chain.directory) if target is None else "",
            signs_for=list(self._keys),
            reverts=kept.reverts if target is None else kept.reverts + 1,
            reverted_to=kept.reverted_to if target is None else target.height,
        )

    # Calls.

    def perform(self, method: Method[_A], request: msgspec.Struct) -> Coroutine[Any, Any, _A]:
        return method.ask(self._answering[method.name], request)

    def submit(self, tx: Tx) -> asyncio.Future[Admission]:
        return self.admissions.submit(tx)

    def watch_arrivals(self, on: bool) -> None:
        (self._arrivals.listen if on else self._arrivals.forget)(self._listener.on_arrived)

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
            now=int(time.time() if self._dev_clock is None else self._dev_clock.now),
            peers=self.engine.peers,
        )

    async def validators(self) -> ValidatorSet:
        return validator_set(self._chain)

    async def submit_update(self, update: Update) -> None:
        await submit_update(self._chain, update, self._settings.cometbft_rpc, self.engine.vouch_for)

    async def check(self) -> Checks:
        """A part that fails its check ends this core: after one lost write, the disk is not trusted."""
        store, journal = self._tried(self._chain.probe), self._tried(self._journal.probe)
        # While the engine makes no blocks, nothing is removed from the mempool.
        return Checks(store=store, mempool=self.engine.condition() if journal == OK else journal)

    def _tried(self, probe: Callable[[], None]) -> str:
        try:
            probe()
        except (StoreUnavailable, Corrupt) as failure:
            self.admissions.fail(failure)
            return failure.detail
        return OK


class TxLookups(MempoolCalls):
    """Where transactions are: answered by the mempool, and by the chain while it is open."""

    def __init__(
        self,
        chain: ChainStore,
        pool: Mempool,
        check_alive: Callable[[], None],
        await_drops: Callable[[], Awaitable[bool]],
    ) -> None:
        """`check_alive` raises `StoreUnavailable` when this core has ended. `await_drops` returns once all drops are on
        disk, or this core has ended, and tells whether it had to wait.
        """
        self._chain = chain
        self._pool = pool
        self._check_alive = check_alive
        self._await_drops = await_drops
        self._closed = False

    def close(self) -> None:
        """The chain is closed; only the mempool can still be read."""
        self._closed = True

    async def next_nonce(self, sender: Address) -> int:
        """After the end of this core, 0 for a sender without pending transactions: its account cannot be read."""
        return self._pool.next_nonce(sender) if not self._closed or self._pool.reserved(sender) else 0

    async def find_tx(self, tx_hash: TxHash) -> Standing | None:
        """After this core is closed, it answers from memory, and None is no answer.

        Raises `StoreUnavailable` if this core has ended and does not have it, or has dropped it: it may still be on
        disk.
        """
        # Nobody may be told of a drop that is not on disk: after a kill it would not have happened.
        while isinstance(found := self._find_now(tx_hash), DroppedTx) and await self._await_drops():
            continue
        return found

    def _find_now(self, tx_hash: TxHash) -> Standing | None:
        entry = self._pool.find(tx_hash)
        if entry is not None:
            return PendingTx(entry.tx, entry.received_at)
        left = self._pool.unheld.by_hash.get(tx_hash)
        if left is not None:
            return PendingTx(left.tx, left.received_at, left.reason, self._pool.find_replacement(left.tx))
        if self._closed:
            return None
        location = self._chain.find_location(tx_hash)
        if location is not None:
            return ConfirmedTx(location[0])
        self._check_alive()
        reason = self._pool.drops.get(tx_hash)
        return None if reason is None else DroppedTx(reason)

    async def list_pending(self, limit: int, after: str | None, sender: Address | None) -> PendingPage:
        page = self._pool.page(limit, after, sender)
        items = [PendingTx(entry.tx, entry.received_at) for entry in page.entries]
        return PendingPage(items, page.total, page.next, self._pool.pending_count)


def validator_set(chain: ChainStore) -> ValidatorSet:
    """The validators after the latest block. Raises `NotFound` on a chain without validators."""
    if chain.governance is None:
        raise NotFound("this chain has no validators")
    governance, missed = chain.governance, chain.missed_votes.by_validator()
    return ValidatorSet(
        chain.identity,
        chain.head_header.height,
        governance,
        chain.missed_votes.blocks,
        [missed[validator.engine_address] for validator in governance.validators],
    )


async def submit_update(
    chain: ChainStore,
    update: Update,
    rpc_address: str,
    on_checked: Callable[[Update], None] = lambda update: None,
) -> None:
    """Check an update and pass it to CometBFT. It is not stored: the submitter must check whether it was applied.

    `on_checked` is called with a valid update before CometBFT gets it.
    Raises `UpdateRefused` or `InvalidSignature` as a block would, and `EngineUnavailable`.
    """
    current = validator_set(chain)
    apply_update(current.governance, update, current.chain)
    on_checked(update)
    rpc = Rpc(rpc_address, RPC_TIMEOUT_S)
    try:
        error = await rpc.broadcast(encode_update(update))
    except (RpcAway, TimeoutError) as away:
        raise EngineUnavailable(f"CometBFT does not answer: {str(away) or 'it takes too long'}") from None
    finally:
        rpc.close()
    if error is not None and IN_CACHE not in error.data:
        raise EngineUnavailable(f"CometBFT does not take it: {error}")


def pool_limits(settings: Settings) -> PoolLimits:
    return PoolLimits(
        size=settings.mempool_size,
        per_sender=settings.mempool_per_sender,
        nonce_gap=settings.mempool_nonce_gap,
        lifetime_s=settings.mempool_lifetime_s,
    )


def restore(pool: Mempool, journal: Journal, chain: ChainStore) -> None:
    """Admit the transactions of the journal in their order. Those that are confirmed are settled."""
    restored = 0
    pool.up_s = journal.up_s
    for tx_hash, reason in journal.recovered_drops:
        # Earlier versions dropped for other reasons, too, what other nodes might still confirm.
        if not pool.is_shared or reason == "nonce used":
            pool.drops.note(tx_hash, reason)
    for entry in journal.recovered:
        tx = entry.tx
        if tx.nonce < chain.account(tx.sender).nonce:
            journal.settle(tx.hash)
            # Where blocks were removed or never seen, one of them may have confirmed it.
            if not chain.base and chain.find_location(tx.hash) is None:
                pool.drops.note(tx.hash, "nonce used")
            continue
        if entry.left is not None:
            note_left(journal, pool, [pool.leave(UnheldTx(tx, entry.received_at, True, entry.left))])
            continue
        try:
            admitted = pool.restore(tx, entry.received_at, entry.queued_since)
        except (Rejected, MempoolFull) as refused:
            # The limits may be lower now: report what is dropped.
            _let_go(pool, journal, entry, "evicted", refused.detail)
            continue
        except NodeError:
            raise
        except Exception as failure:
            # A defect of ours. The start must not fail by it, now and each time after.
            _let_go(pool, journal, entry, "cannot be applied", repr(failure))
            continue
        restored += admitted.added
        note_left(journal, pool, admitted.dropped)
    journal.sync()
    # From here on the mempool holds everything that is still pending.
    journal.recovered.clear()
    journal.recovered_drops.clear()
    if restored:
        log.info("mempool restored", transactions=restored)


def _let_go(pool: Mempool, journal: Journal, entry: JournalEntry, reason: DropReason, why: str) -> None:
    log.warning("a journaled transaction no longer fits", tx="0x" + entry.tx.hash.hex(), reason=why)
    note_left(journal, pool, [pool.leave(UnheldTx(entry.tx, entry.received_at, True, reason))])
