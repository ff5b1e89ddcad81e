"""State sync on a new node: a snapshot is restored part by part, and becomes the chain's first block.

Restoring the parts, and checking the store afterwards, take time in proportion to the accounts. They happen in a
thread, one at a time, so that the node answers meanwhile, and so that one of a CometBFT that ended finishes before the
next begins. The head changes on the event loop, where its readers run.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import structlog

from cairn.domain.errors import InvalidChunk, InvalidSnapshot
from cairn.domain.types import BlockHash
from cairn.engine.abci.requests import (
    ApplySnapshotChunkRequest,
    ApplySnapshotChunkResponse,
    ApplySnapshotChunkResult,
    OfferSnapshotRequest,
    OfferSnapshotResult,
    Snapshot,
)
from cairn.engine.upkeep import NodeStops
from cairn.store.chain import ChainStore
from cairn.store.snapshot import FORMAT, Manifest, Restore, decode_manifest, encode_manifest

_T = TypeVar("_T")
log = structlog.get_logger("cairn.snapshots")


class StateSync:
    """Answers CometBFT's offers of snapshots and of their parts."""

    def __init__(self, chain: ChainStore, on_restored: Callable[[], None]) -> None:
        """`on_restored` is called when the chain has jumped to the height of a snapshot."""
        self._chain = chain
        self._on_restored = on_restored
        self._thread = ThreadPoolExecutor(1, "intake")
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
