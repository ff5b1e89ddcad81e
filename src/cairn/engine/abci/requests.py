"""CometBFT's requests and the node's answers as plain values; `wire` converts them from and to bytes.

They have only the fields of the wire definition that this node uses, under the same names. Some that are nested there
are not nested here. Plain values are also faster than the generated classes: those make a new `bytes` whenever a
transaction is read, and with them the results of a block take six times as long.
"""

from collections.abc import Awaitable, Sequence
from enum import IntEnum
from typing import Protocol

import msgspec

from cairn.domain.errors import NodeError

CODESPACE = "cairn"
BLOCKS_AFTER = 2
"""A snapshot's app hash is in the block after its own, the validators that follow in the one after that."""


class ValidatorPower(msgspec.Struct, frozen=True):
    """A validator and its voting power; power 0 removes it."""

    public_key: bytes
    power: int


class Snapshot(msgspec.Struct, frozen=True):
    height: int
    format: int
    chunks: int
    hash: bytes
    metadata: bytes = b""


class InfoResponse(msgspec.Struct, frozen=True):
    last_block_height: int
    """The last height that is committed. CometBFT replays from here, and stops when it is above its own last block."""
    last_block_app_hash: bytes
    app_version: int = 0
    version: str = ""
    data: str = ""


class InitChainRequest(msgspec.Struct, frozen=True):
    validators: Sequence[ValidatorPower]
    app_state: bytes
    initial_height: int
    app_version: int
    """In the consensus parameters of CometBFT's genesis; 0 if it has none."""


class QueryResponse(msgspec.Struct, frozen=True):
    code: int = 0
    log: str = ""
    value: bytes = b""
    height: int = 0
    codespace: str = ""


class CheckTxRequest(msgspec.Struct, frozen=True, gc=False):
    tx: bytes
    recheck: bool
    """The transaction is in CometBFT's mempool already and a block has been committed since."""


class TxResult(msgspec.Struct, frozen=True, gc=False):
    """The result of one transaction, in CheckTx and in a finalized block. Code 0 means valid.

    `code`, `gas_wanted` and `gas_used` of a finalized block are part of consensus: they must be equal on every node.
    """

    code: int = 0
    log: str = ""
    gas_wanted: int = 0
    gas_used: int = 0
    codespace: str = ""


def refusal_result(refusal: NodeError) -> TxResult:
    return TxResult(refusal.abci_code, log=refusal.detail, codespace=CODESPACE)


class Misbehavior(msgspec.Struct, frozen=True):
    """What a validator did against the rules, as CometBFT has verified it."""

    kind: int
    engine_address: bytes
    height: int
    time_ns: int


class BlockRequest(msgspec.Struct, frozen=True):
    """A block, proposed or decided."""

    txs: Sequence[bytes]
    height: int
    time_ns: int
    proposer_address: bytes
    misbehavior: Sequence[Misbehavior] = ()


class PrepareProposalRequest(BlockRequest, frozen=True, kw_only=True):
    max_tx_bytes: int
    """The most bytes that the answer may have. Each transaction counts as `framing.proposed_size_bytes` says."""


class ProcessProposalRequest(BlockRequest, frozen=True):
    pass


class FinalizeBlockRequest(BlockRequest, frozen=True):
    absent: Sequence[bytes] | None = None
    """The addresses of validators whose vote on the block before is not in this one; None if nobody had one."""


class FinalizeBlockResponse(msgspec.Struct, frozen=True):
    tx_results: Sequence[TxResult]
    """Exactly one for each transaction of the block, in its order."""
    app_hash: bytes
    validator_updates: Sequence[ValidatorPower] = ()
    """They take effect two heights later."""
    app_version: int | None = None
    """What the headers of the following blocks state; None if that does not change."""


class OfferSnapshotRequest(msgspec.Struct, frozen=True):
    snapshot: Snapshot
    app_hash: bytes
    """Verified by CometBFT's light client for the snapshot's height."""


class OfferSnapshotResult(IntEnum):
    ACCEPT = 1
    ABORT = 2
    REJECT = 3
    REJECT_FORMAT = 4


class LoadSnapshotChunkRequest(msgspec.Struct, frozen=True):
    height: int
    format: int
    chunk: int


class ApplySnapshotChunkRequest(msgspec.Struct, frozen=True):
    index: int
    chunk: bytes
    sender: str


class ApplySnapshotChunkResult(IntEnum):
    ACCEPT = 1
    ABORT = 2
    RETRY = 3
    RETRY_SNAPSHOT = 4
    REJECT_SNAPSHOT = 5


class ApplySnapshotChunkResponse(msgspec.Struct, frozen=True):
    result: ApplySnapshotChunkResult
    refetch_chunks: Sequence[int] = ()
    reject_senders: Sequence[str] = ()


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
