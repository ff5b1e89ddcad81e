"""The interface of an application that CometBFT drives."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from cairn.engine.abci.requests import (
    ApplySnapshotChunkRequest,
    ApplySnapshotChunkResponse,
    CheckTxRequest,
    FinalizeBlockRequest,
    FinalizeBlockResponse,
    InfoResponse,
    InitChainRequest,
    LoadSnapshotChunkRequest,
    OfferSnapshotRequest,
    OfferSnapshotResult,
    PrepareProposalRequest,
    ProcessProposalRequest,
    QueryResponse,
    Snapshot,
    TxResult,
)


class AbciHandler(Protocol):
    """The application. The server answers Echo and Flush itself; any exception raised here stops CometBFT.

    A method has the name that its request has in the wire definition.

    Some methods may return an awaitable, so that the event loop can do other work meanwhile. The server awaits it when
    everything before it on its connection is answered; a coroutine does not start earlier. So start work that may run
    in parallel (sender recovery) before returning, and do work that needs the order (nonces) in the coroutine.

    Only `check_tx` is called as soon as its request is read, even while earlier ones are unfinished. If the order
    matters, it must return an awaitable for each transaction that follows an unfinished one.
    """

    def info(self) -> InfoResponse: ...

    def query(self, path: str) -> QueryResponse: ...

    def check_tx(self, request: CheckTxRequest) -> TxResult | Awaitable[TxResult]: ...

    def init_chain(self, request: InitChainRequest) -> bytes:
        """The app hash of the chain before its first block."""

    def prepare_proposal(self, request: PrepareProposalRequest) -> Sequence[bytes] | Awaitable[Sequence[bytes]]:
        """The transactions to propose, in order."""

    def process_proposal(self, request: ProcessProposalRequest) -> bool | Awaitable[bool]:
        """Whether the proposed block is valid. Only committed state may decide, so that every node answers the same."""

    def extend_vote(self) -> bytes: ...

    def verify_vote_extension(self, extension: bytes) -> bool: ...

    def finalize_block(self, request: FinalizeBlockRequest) -> FinalizeBlockResponse | Awaitable[FinalizeBlockResponse]:
        """The block's outcome, held in memory; nothing is written before `commit`."""

    def commit(self) -> int:
        """Write the finalized block to disk. Returns the lowest height that CometBFT must keep; 0 keeps all."""

    def list_snapshots(self) -> Sequence[Snapshot]: ...

    def offer_snapshot(self, request: OfferSnapshotRequest) -> OfferSnapshotResult | Awaitable[OfferSnapshotResult]: ...

    def load_snapshot_chunk(self, request: LoadSnapshotChunkRequest) -> bytes: ...

    def apply_snapshot_chunk(
        self, request: ApplySnapshotChunkRequest
    ) -> ApplySnapshotChunkResponse | Awaitable[ApplySnapshotChunkResponse]: ...
