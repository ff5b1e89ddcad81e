"""What an application must be for CometBFT to drive it."""

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

    A method is called by the name that the definition has for its request.

    The methods that may return an awaitable can leave the event loop while they compute. The server awaits it when
    everything before it on its connection is answered; a coroutine does not start earlier. So what may overlap (sender
    recovery) is started before returning, and what must keep order (nonces) goes into the coroutine.

    `check_tx` alone is called as soon as its request is read, even while earlier ones are unfinished: an application
    that returns awaitables and cares about order must return one for each transaction that follows an unfinished one.
    """

    def info(self) -> InfoResponse: ...

    def query(self, path: str) -> QueryResponse: ...

    def check_tx(self, request: CheckTxRequest) -> TxResult | Awaitable[TxResult]: ...

    def init_chain(self, request: InitChainRequest) -> bytes:
        """The app hash of the chain before its first block."""

    def prepare_proposal(self, request: PrepareProposalRequest) -> Sequence[bytes] | Awaitable[Sequence[bytes]]:
        """The transactions to propose, in order."""

    def process_proposal(self, request: ProcessProposalRequest) -> bool | Awaitable[bool]:
        """Whether the proposed block is acceptable: the same answer on every node, from committed state alone."""

    def extend_vote(self) -> bytes: ...

    def verify_vote_extension(self, extension: bytes) -> bool: ...

    def finalize_block(self, request: FinalizeBlockRequest) -> FinalizeBlockResponse | Awaitable[FinalizeBlockResponse]:
        """The block's outcome, held in memory; nothing is written before `commit`."""

    def commit(self) -> int:
        """Make the finalized block durable. Returns the lowest height that CometBFT must keep; 0 keeps all."""

    def list_snapshots(self) -> Sequence[Snapshot]: ...

    def offer_snapshot(self, request: OfferSnapshotRequest) -> OfferSnapshotResult | Awaitable[OfferSnapshotResult]: ...

    def load_snapshot_chunk(self, request: LoadSnapshotChunkRequest) -> bytes: ...

    def apply_snapshot_chunk(
        self, request: ApplySnapshotChunkRequest
    ) -> ApplySnapshotChunkResponse | Awaitable[ApplySnapshotChunkResponse]: ...
