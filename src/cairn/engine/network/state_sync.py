"""State sync: snapshots of the chain are taken and offered to new nodes, and restored on a new node.

Taking a snapshot, and removing old blocks, happen in a thread that rests more than it works, so commits do not wait for
it. It reads only what cannot change any more, and removes only what nobody reads any more.

Restoring the parts of a snapshot, and checking the store afterwards, take time in proportion to the accounts. They
happen in another thread, one at a time, so that the node answers meanwhile, and so that one of a CometBFT that ended
finishes before the next begins. The head changes on the event loop, where its readers run.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from cairn.domain.errors import InvalidChunk, InvalidSnapshot, StoreUnavailable
from cairn.domain.genesis import genesis_digest
from cairn.domain.governance import encode_governance
from cairn.domain.types import BlockHash
from cairn.engine.abci.requests import (
    BLOCKS_AFTER,
    ApplySnapshotChunkRequest,
    ApplySnapshotChunkResponse,
    ApplySnapshotChunkResult,
    LoadSnapshotChunkRequest,
    OfferSnapshotRequest,
    OfferSnapshotResult,
    Snapshot,
)
from cairn.engine.network.steps import NONE_MISSING
from cairn.engine.upkeep import NodeStops, Upkeep
from cairn.store.chain import ChainStore
from cairn.store.snapshot import FORMAT, Manifest, Restore, SnapshotDirectory, decode_manifest, encode_manifest

_T = TypeVar("_T")
log = structlog.get_logger("cairn.snapshots")


class StateSync:
    """Restores a snapshot part by part; it becomes the chain's first block. Answers CometBFT's offers."""

    def __init__(self, chain: ChainStore, on_restored: Callable[[], None]) -> None:
        """`on_restored` is called when the chain has jumped to the height of a snapshot."""
        self._chain = chain
        self._on_restored = on_restored
        self._thread = ThreadPoolExecutor(1, "state-sync")
        self._restore: Restore | None = None
        self._repeated: Manifest | None = None
        self._stopping = False

    async def offer(self, request: OfferSnapshotRequest) -> OfferSnapshotResult:
        return await self._apart(lambda: self._offer(request))

    async def apply(self, request: ApplySnapshotChunkRequest) -> ApplySnapshotChunkResponse:
        answer = await self._apart(lambda: self._add(request))
        restore = self._restore
        if answer.result is not ApplySnapshotChunkResult.ACCEPT or restore is None or not restore.is_complete:
            return answer
        try:
            self._chain.finish_restore(restore)
        except InvalidSnapshot as refusal:
            detail = refusal.detail
            return await self._apart(lambda: self._refuse(request, detail))
        self._restore = None
        log.info("the chain starts from a snapshot", height=restore.height)
        self._on_restored()
        # Before the answer, so that no block is added first.
        await self._apart(lambda: self._chain.clear_restore(self._check_stopping))
        return answer

    def close(self) -> None:
        """Return once the thread is done with the store."""
        self._stopping = True
        self._thread.shutdown()

    async def _apart(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # In the thread.

    def _offer(self, request: OfferSnapshotRequest) -> OfferSnapshotResult:
        snapshot, trusted, chain = request.snapshot, BlockHash(request.app_hash), self._chain
        if chain.visible != chain.base:
            log.error("state sync needs an empty data directory", directory=str(chain.directory), height=chain.visible)
            return OfferSnapshotResult.ABORT
        if snapshot.format != FORMAT:
            return OfferSnapshotResult.REJECT_FORMAT
        self._abandon()
        try:
            manifest = decode_manifest(snapshot.metadata)
            if describe(snapshot.height, manifest) != snapshot or manifest.decode_header().height != snapshot.height:
                raise InvalidSnapshot("the snapshot is not the one that its manifest describes")
            if self._is_here(manifest, trusted):
                self._repeated = manifest
            else:
                self._restore = chain.begin_restore(manifest, trusted)
        except InvalidSnapshot as refusal:
            log.warning("refused a snapshot", height=snapshot.height, reason=refusal.detail)
            return OfferSnapshotResult.REJECT
        log.info("taking in a snapshot", height=snapshot.height, parts=snapshot.chunks)
        return OfferSnapshotResult.ACCEPT

    def _is_here(self, manifest: Manifest, trusted: BlockHash) -> bool:
        """CometBFT may end after the restore, before it has recorded that. Then it offers the same snapshot again."""
        chain = self._chain
        return chain.visible == chain.base == manifest.decode_header().height and chain.head_hash == trusted

    def _add(self, request: ApplySnapshotChunkRequest) -> ApplySnapshotChunkResponse:
        if self._repeated is not None:
            return ApplySnapshotChunkResponse(ApplySnapshotChunkResult.ACCEPT)
        restore = self._restore
        if restore is None:
            return ApplySnapshotChunkResponse(ApplySnapshotChunkResult.RETRY_SNAPSHOT)
        try:
            restore.add_chunk(request.index, request.chunk)
        except InvalidChunk as refusal:
            log.warning("refused a part of a snapshot", sender=request.sender, reason=refusal.detail)
            return ApplySnapshotChunkResponse(
                ApplySnapshotChunkResult.RETRY, [request.index], [request.sender] if request.sender else []
            )
        except InvalidSnapshot as refusal:
            return self._refuse(request, refusal.detail)
        return ApplySnapshotChunkResponse(ApplySnapshotChunkResult.ACCEPT)

    def _refuse(self, request: ApplySnapshotChunkRequest, reason: str) -> ApplySnapshotChunkResponse:
        assert self._restore is not None
        log.warning("refused a snapshot", height=self._restore.height, reason=reason)
        self._abandon()
        return ApplySnapshotChunkResponse(
            ApplySnapshotChunkResult.REJECT_SNAPSHOT, reject_senders=[request.sender] if request.sender else []
        )

    def _abandon(self) -> None:
        self._repeated = self._restore = None
        self._chain.clear_restore(self._check_stopping)

    def _check_stopping(self) -> None:
        if self._stopping:
            raise NodeStops


def describe(height: int, manifest: Manifest) -> Snapshot:
    """A snapshot in CometBFT's terms."""
    return Snapshot(height, FORMAT, len(manifest.chunks), manifest.digest, encode_manifest(manifest))


class _Due(msgspec.Struct, frozen=True):
    """A snapshot to take: the state after one block."""

    height: int
    governance: bytes


class Snapshots(Upkeep):
    """Every `interval` blocks, a snapshot of the newest block that changed the state; 0 takes none.

    With `retain_blocks`, older blocks than the newest so many are removed, except those that a node needs that starts
    from a snapshot that is offered here, and those from the newest signed one on; 0 keeps all. The owner calls
    `after_commit` after every block, and `close` before the chain is closed.
    """

    name = "snapshots"

    def __init__(
        self,
        chain: ChainStore,
        directory: Path,
        interval: int,
        retain_blocks: int = 0,
        on_restored: Callable[[], None] = lambda: None,
        oldest_missing: Callable[[], int] = lambda: NONE_MISSING,
    ) -> None:
        """`on_restored` is called when the chain has jumped to the height of a restored snapshot. `oldest_missing` is
        the oldest block whose change of validators has no step yet; any thread may call it.
        """
        super().__init__(chain)
        self._shelf = SnapshotDirectory(directory)
        self._interval = interval
        self._retain_blocks = retain_blocks
        self._on_restored = on_restored
        self._sync = StateSync(chain, self._restored)
        self.offer_snapshot = self._sync.offer
        self.apply_snapshot_chunk = self._sync.apply
        self._due: _Due | None = None
        self._taken: _Due | None = None
        """The snapshot that is being taken; another may become due meanwhile."""
        self._base = chain.base
        self._oldest_missing = oldest_missing
        self._state_block = chain.find_height(chain.state_block_hash) or chain.base
        """Height of the newest block that changed the state."""

    # Offering.

    def list_snapshots(self) -> Sequence[Snapshot]:
        """The snapshots that can be verified. A new node asks once, and never retries one that it failed to verify."""
        listed = []
        for height in self._shelf.heights():
            verifiable = height + BLOCKS_AFTER <= self._chain.visible
            manifest = self._shelf.find_manifest(height) if verifiable else None
            if manifest is not None:
                listed.append(describe(height, manifest))
        return listed

    def load_snapshot_chunk(self, request: LoadSnapshotChunkRequest) -> bytes:
        """A part; empty if it is not here, which CometBFT reports to the peer."""
        chunk = self._shelf.find_chunk(request.height, request.chunk) if request.format == FORMAT else None
        return chunk or b""

    # Restoring: `offer_snapshot` and `apply_snapshot_chunk` are those of `StateSync`.

    def _restored(self) -> None:
        self._base = self._state_block = self._chain.base
        self._on_restored()

    # Taking, and removing what is old.

    def after_commit(self) -> int:
        """Start what is due. Returns the lowest height that CometBFT must keep; 0 keeps all.

        Raises a failure of the thread with which the node must not continue.
        """
        self.check()
        height = self._chain.visible
        if self._interval and height % self._interval == 0:
            self._plan_snapshot()
        if self._retain_blocks:
            oldest = min(height - self._retain_blocks + 1, self._state_block, self._oldest_needed())
            self._base = max(self._base, oldest)
        # Only now: the newest header that is signed names the newest change of the state before this block.
        if self._chain.state_block_hash == self._chain.head_hash:
            self._state_block = height
        self.look()
        return self._base if self._retain_blocks else 0

    def look(self) -> None:
        """Start what is due."""
        if self._is_due():
            self._wake()

    def _plan_snapshot(self) -> None:
        chain = self._chain
        height = chain.find_height(chain.state_block_hash)
        # No snapshot of genesis: every node has it.
        if not height or height in self._planned() or height in self._shelf.heights():
            return
        governance = b"" if chain.governance is None else encode_governance(chain.governance)
        with self._work:
            self._due = _Due(height, governance)

    def _oldest_needed(self) -> int:
        """A node that starts from a snapshot fetches all blocks after it, and a missing step needs its block."""
        if not self._interval:
            return min(self._chain.visible, self._oldest_missing())
        # In this order: one that is finished in between is then in the list.
        planned = self._planned()
        return min(self._oldest_missing(), min([*planned, *self._shelf.heights()], default=0))

    def _planned(self) -> list[int]:
        with self._work:
            return [due.height for due in (self._taken, self._due) if due is not None]

    def close(self) -> None:
        """Return once the threads are done with the store."""
        self._sync.close()
        super().close()

    def _is_due(self) -> bool:
        return self._is_snapshot_due() or self._base > self._chain.base

    def _is_snapshot_due(self) -> bool:
        """Whether there is one to take, and all steps before it are there."""
        due = self._due
        return due is not None and due.height <= self._oldest_missing()

    def _do(self) -> None:
        self._take()
        self._chain.prune(self._base, self._pause)

    def _take(self) -> None:
        with self._work:
            if not self._is_snapshot_due():
                return
            due, self._due = self._due, None
            self._taken = due
        assert due is not None
        chain, begun_at = self._chain, time.monotonic()
        try:
            manifest = self._shelf.take(chain, due.height, genesis_digest(chain.genesis), due.governance, self._pause)
            log.info(
                "took a snapshot",
                height=due.height,
                accounts=manifest.account_count,
                seconds=round(time.monotonic() - begun_at, 3),
            )
        except StoreUnavailable as failure:
            # Not fatal: other nodes have snapshots, too, and this node must continue with its blocks.
            log.error("could not take a snapshot", height=due.height, reason=failure.detail)
        finally:
            with self._work:
                self._taken = None
