"""The core: one opened chain, from its opening to its end, and the parts that answer for it.

Everything runs on one event loop, and no method awaits between a check and its effect, so no lock is needed.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import structlog

from cairn import metrics
from cairn.board import Fault
from cairn.config import Settings
from cairn.core.admission import Admissions, Arrivals, OnCommitted, OnDropped
from cairn.core.block_log import BlockLog
from cairn.core.calls import Calls, Method, methods_of
from cairn.core.dev_controls import DevClock, DevControls, NoDevControls
from cairn.core.disk_space import LOOK_S, DiskSpace
from cairn.core.filters import Filters
from cairn.core.gateway import (
    STEPS_AT_ONCE,
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
    StateProof,
    Status,
    TxStatus,
    ValidatorSet,
)
from cairn.core.idempotency_keys import IdempotencyKeys
from cairn.domain.answers import Checks
from cairn.domain.certificates import Certificate, read_header
from cairn.domain.errors import Corrupt, NotFound, NotSignedYet, StoreUnavailable, Unavailable, reason_of
from cairn.domain.genesis import DEV_SIGNER
from cairn.domain.governance import Update
from cairn.domain.types import Address, Phase, Tx, TxHash
from cairn.engine.application import NO_VALIDATORS, OK, Application, Engine, Feed
from cairn.engine.embedded import ClockWatch, EmbeddedEngine, Pace, Pruning
from cairn.engine.network.block_pause import read_block_pause_s
from cairn.engine.network.engine import NetworkEngine
from cairn.engine.signing import BlockSigner
from cairn.engine.tree_upkeep import TreeUpkeep
from cairn.heartbeat import Work, doing
from cairn.mempool.order import Entry
from cairn.mempool.pool import Mempool
from cairn.store.chain import ChainStore
from cairn.store.directory import SeenHead, find_free_bytes
from cairn.store.hot_copy import CopiedStore
from cairn.store.journal import Journal
from cairn.store.state_proofs import prove_account

HOUSEKEEPING_INTERVAL_S = 5.0
FLUSH_POLL_S = 0.01
LONGEST_FLUSH_S = 5.0

_A = TypeVar("_A")
log = structlog.get_logger("cairn.core")


class Core(CoreGateway):
    """One opened chain, made by `open_core`. After a failed write it is closed and opened again, never repaired."""

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
        idempotency_keys: IdempotencyKeys,
        observer: ChainObserver | None = None,
        signer: BlockSigner | None = None,
    ) -> None:
        self._chain = chain
        self._first_supply = sum(chain.genesis.alloc.values())
        self._block_time_s = read_block_time_s(settings)
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
        self._disk_look: asyncio.TimerHandle | None = None
        # Who tries out a chain is not told of blocks once a minute, nor of the disk of another's machine.
        self._disk_space = DiskSpace(
            partial(find_free_bytes, chain.directory), 0 if dev_keys else settings.disk_warning_bytes
        )
        self._block_log = None if dev_keys else BlockLog(self._loop)
        self.feed = Feed()
        self._tree_upkeep = TreeUpkeep(chain)
        self.feed.subscribe(self._tree_upkeep.after_commit)
        self._dev_clock = DevClock(chain.directory) if dev_keys and settings.engine == "embedded" else None
        """Only on a dev chain: the node holds the keys of its accounts."""
        self.admissions = Admissions(
            chain,
            pool,
            journal,
            self._arrivals,
            dev_keys,
            listener,
            partial(self._build_engine, abci_socket, signer),
            idempotency_keys,
            observer,
        )
        self.engine = self.admissions.engine
        self.failed = self.admissions.failed
        self._lookups = TxLookups(chain, pool, self.admissions.check_alive, self.admissions.await_drops)
        filters = Filters(lambda: self.head, self._arrivals, self._loop.time)
        self._controls = self._build_controls()
        parts: tuple[Calls, ...] = (self.admissions, self._lookups, filters, self._controls)
        self._answering = {method.name: part for part in parts for method in methods_of(type(part))}

    def _build_engine(
        self,
        abci_socket: Path | None,
        signer: BlockSigner | None,
        on_committed: OnCommitted,
        on_dropped: OnDropped,
    ) -> Engine:
        application, settings = Application(self._chain, self.feed, signer), self._settings
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
            halt_height=settings.halt_height,
            block_pause_s=self._block_time_s,
        )

    def _build_controls(self) -> DevControls | NoDevControls:
        clock, engine = self._dev_clock, self.engine
        if clock is None or not isinstance(engine, EmbeddedEngine):
            return NoDevControls()
        return DevControls(self._chain, self._pool, engine, clock, self._pace, self._keys, self.admissions)

    def start(self) -> None:
        metrics.MEMPOOL_LIMIT.set(self._settings.mempool_size)
        self._show_head(self.head)
        self.feed.subscribe(self._show_head)
        self._engine_task = self._loop.create_task(self.engine.run())
        self._engine_task.add_done_callback(self._engine_ended)
        self._housekeeping = self._loop.call_later(HOUSEKEEPING_INTERVAL_S, self._keep_house)
        if self._block_log is not None:
            self.feed.subscribe_blocks(self._block_log.on_block)
        self._look_at_disk()
        self.engine.wake()

    def _show_head(self, height: int) -> None:
        metrics.HEIGHT.set(height)
        metrics.BLOCK_TIME.set(self._chain.head_header.timestamp)

    async def stop(self) -> None:
        """Finish the running block, put everything on disk, close."""
        for timer in (self._housekeeping, self._disk_look):
            if timer is not None:
                timer.cancel()
        if self._block_log is not None:
            self._block_log.close()
        self.engine.stop()
        if self._engine_task is not None:
            await asyncio.wait([self._engine_task])
        self._tree_upkeep.close()
        self.admissions.finish()
        if not self.failed.done():
            with doing(Work.DISK):
                self._tree_upkeep.save()
        self.close()

    @doing(Work.DISK)
    def close(self) -> None:
        self._tree_upkeep.close()
        self.admissions.close()
        self._arrivals.close()
        self._lookups.close()
        self._chain.board.close()
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

    def _look_at_disk(self) -> None:
        self._disk_look = self._loop.call_later(LOOK_S, self._look_at_disk)
        try:
            self._disk_space.look()
        except StoreUnavailable as failure:
            self.admissions.fail(failure)

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
        return SeenHead(self.head, self._chain.head_hash, self._controls.reverts.done)

    def info(self) -> ChainInfo:
        """After a revert is decided: the chain after the revert. The files must not be read any more."""
        reverts, rules = self._controls.reverts, self._chain.genesis.rules
        return ChainInfo(
            chain_id=rules.chain_id,
            gas_price=rules.gas_price,
            block_gas_limit=rules.block_gas_limit,
            max_data_bytes=rules.max_data_bytes,
            engine=self.engine.name,
            store_path="" if reverts.is_decided else str(self._chain.directory),
            signs_for=list(self._keys),
            reverts=reverts.done + reverts.is_decided,
            reverted_to=reverts.to_height,
            generation=self._chain.board.generation,
            mempool_limit=self._settings.mempool_size,
            first_supply=self._first_supply,
            block_time_s=self._block_time_s,
            can_set_balances=self._chain.genesis.signer == DEV_SIGNER,
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
        await self.engine.submit_update(update)

    async def certificate(self, height: int | None, known_steps: int | None = None) -> Certificate:
        certificate = await self.engine.certificate(height)
        if known_steps is None:
            return certificate
        steps = certificate.steps[known_steps : known_steps + STEPS_AT_ONCE]
        return msgspec.structs.replace(certificate, steps=steps)

    async def state_proof(self, address: Address, known_steps: int | None = None) -> StateProof:
        certificate = await self.certificate(None, known_steps)
        proof = prove_account(self._chain, address, read_header(certificate.header))
        if proof is None:
            raise NotSignedYet("the state has changed too much since the newest signed block: wait for the next one")
        return StateProof(certificate, proof.leaf, proof.number, proof.size, proof.siblings)

    async def copy_store(self) -> CopiedStore:
        # In the background first: what is left for the copy takes some milliseconds then, and not a tenth of a second.
        self.admissions.check_alive()
        self._chain.hot_copy.begin_flush()
        until = self._loop.time() + LONGEST_FLUSH_S
        while self._chain.hot_copy.is_flushing and self._loop.time() < until:
            await asyncio.sleep(FLUSH_POLL_S)
            self.admissions.check_alive()
        # In one step, so that chain and journal are of the same moment: what is confirmed leaves the journal.
        try:
            extent = self._chain.hot_copy.link(self._journal)
        except (OSError, StoreUnavailable) as failure:
            # The node itself may go on: if its disk fails, the next write tells.
            raise Unavailable(f"the store cannot be copied: {reason_of(failure)}") from None
        chain, pool = self._chain, self._pool
        return CopiedStore(self.head, chain.head_hash, chain.base, extent, pool.pending_count + pool.queued_count)

    async def check(self) -> Checks:
        """A part that fails its check ends this core: after one lost write, the disk is not trusted."""
        store, journal = self._tried(self._chain.probe), self._tried(self._journal.probe)
        disk = journal if store == OK else store
        checks, fault = Checks(store=store, mempool=journal, disk=disk), self.find_fault()
        return checks if fault is None else msgspec.structs.replace(checks, **{fault.part: fault.reason})

    def find_fault(self) -> Fault | None:
        """Why no blocks can be expected now, if so. It does not look at the disk."""
        condition = self.engine.condition()
        return None if condition == OK else Fault(self.engine.part_at_fault, condition)

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

    async def find_tx(self, tx_hash: TxHash) -> TxStatus | None:
        """After this core is closed, it answers from memory, and None is no answer.

        Raises `StoreUnavailable` if this core has ended and does not have it, or has dropped it: it may still be on
        disk.
        """
        # Nobody may be told of a drop that is not on disk: after a kill it would not have happened.
        while isinstance(found := self._find_now(tx_hash), DroppedTx) and await self._await_drops():
            continue
        return found

    def _find_now(self, tx_hash: TxHash) -> TxStatus | None:
        entry = self._pool.find(tx_hash)
        if entry is not None:
            return self._pending(entry, self._changes_of(entry.tx))
        left = self._pool.unheld.by_hash.get(tx_hash)
        if left is not None:
            replacement = self._pool.find_replacement(left.tx)
            return PendingTx(left.tx, left.received_at, left.reason, replacement, changes=self._changes_of(left.tx))
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
        items = [self._pending(entry) for entry in page.entries]
        return PendingPage(items, page.total, page.next, self._pool.pending_count)

    def _pending(self, entry: Entry, changes: int = -1) -> PendingTx:
        missing = self._pool.find_missing_nonce(entry)
        return PendingTx(entry.tx, entry.received_at, waits_for_nonce=missing, changes=changes)

    def _changes_of(self, tx: Tx) -> int:
        return self._chain.board.changes_of(tx.sender)


def validator_set(chain: ChainStore) -> ValidatorSet:
    """The validators after the latest block. Raises `NotFound` on a chain without validators."""
    if chain.governance is None:
        raise NotFound(NO_VALIDATORS)
    governance, missed = chain.governance, chain.missed_votes.by_validator()
    return ValidatorSet(
        chain.identity,
        chain.head_header.height,
        governance,
        chain.missed_votes.blocks,
        [missed[validator.engine_address] for validator in governance.validators],
    )


def read_block_time_s(settings: Settings) -> float:
    """The time between blocks that this node is set to; on a network, the pause after each."""
    if settings.engine == "embedded":
        return settings.block_time_s
    return read_block_pause_s(Path(settings.cometbft_home)) if settings.cometbft_home else 0.0
