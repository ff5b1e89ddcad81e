"""What CometBFT asks and what it is answered, as plain values; `wire` turns them into bytes and back.

Left out of these values on purpose, though the wire definition has them: votes of the last commit, events and query
proofs. Nothing of ours reads or makes them, and a block of a large network would pay for decoding them.
"""

from collections.abc import Sequence
from enum import IntEnum

import msgspec


class ValidatorUpdate(msgspec.Struct, frozen=True):
    """A validator and its voting power; power 0 removes it."""

    public_key: bytes
    power: int
    key_type: str = "ed25519"
    """`ed25519` or `secp256k1`."""


class BlockParams(msgspec.Struct, frozen=True):
    max_bytes: int
    max_gas: int


class EvidenceParams(msgspec.Struct, frozen=True):
    max_age_blocks: int
    max_age_ns: int
    max_bytes: int


class ConsensusParams(msgspec.Struct, frozen=True):
    """Sections that are None are absent: in an answer they leave CometBFT's values as they are."""

    block: BlockParams | None = None
    evidence: EvidenceParams | None = None
    public_key_types: tuple[str, ...] | None = None
    app_version: int | None = None
    vote_extensions_enable_height: int | None = None


class MisbehaviorKind(IntEnum):
    UNKNOWN = 0
    DUPLICATE_VOTE = 1
    LIGHT_CLIENT_ATTACK = 2


class Misbehavior(msgspec.Struct, frozen=True):
    kind: MisbehaviorKind
    validator_address: bytes
    validator_power: int
    height: int
    time_ns: int
    total_voting_power: int


class Snapshot(msgspec.Struct, frozen=True):
    height: int
    format: int
    chunks: int
    hash: bytes
    metadata: bytes = b""


class EchoRequest(msgspec.Struct, frozen=True):
    message: str


class FlushRequest(msgspec.Struct, frozen=True):
    pass


class InfoRequest(msgspec.Struct, frozen=True):
    version: str
    block_version: int
    p2p_version: int
    abci_version: str


class InfoResponse(msgspec.Struct, frozen=True):
    last_block_height: int
    """Only what is committed: CometBFT replays from here, and stops when it is ahead of its own blocks."""
    last_block_app_hash: bytes
    app_version: int = 0
    version: str = ""
    data: str = ""


class InitChainRequest(msgspec.Struct, frozen=True):
    time_ns: int
    chain_id: str
    consensus_params: ConsensusParams
    validators: tuple[ValidatorUpdate, ...]
    app_state: bytes
    initial_height: int


class InitChainResponse(msgspec.Struct, frozen=True):
    app_hash: bytes
    validators: Sequence[ValidatorUpdate] = ()
    """Empty: those of CometBFT's genesis."""
    consensus_params: ConsensusParams | None = None


class QueryRequest(msgspec.Struct, frozen=True):
    data: bytes
    path: str
    height: int
    prove: bool


class QueryResponse(msgspec.Struct, frozen=True):
    code: int = 0
    log: str = ""
    info: str = ""
    index: int = 0
    key: bytes = b""
    value: bytes = b""
    height: int = 0
    codespace: str = ""


class CheckTxRequest(msgspec.Struct, frozen=True, gc=False):
    tx: bytes
    recheck: bool
    """The transaction is in CometBFT's mempool already and a block has been committed since."""


class TxResult(msgspec.Struct, frozen=True, gc=False):
    """The answer for one transaction, by CheckTx and in a finalized block. Code 0 means good.

    `code`, `data`, `gas_wanted` and `gas_used` of a finalized block are part of consensus: equal on every node.
    """

    code: int = 0
    data: bytes = b""
    log: str = ""
    info: str = ""
    gas_wanted: int = 0
    gas_used: int = 0
    codespace: str = ""


class PrepareProposalRequest(msgspec.Struct, frozen=True):
    max_tx_bytes: int
    """What the answer may come to at most, each transaction counted with `framing.proposed_size_bytes`."""
    txs: Sequence[bytes]
    misbehavior: tuple[Misbehavior, ...]
    height: int
    time_ns: int
    next_validators_hash: bytes
    proposer_address: bytes


class BlockRequest(msgspec.Struct, frozen=True):
    """A block, proposed or decided."""

    txs: Sequence[bytes]
    misbehavior: tuple[Misbehavior, ...]
    hash: bytes
    height: int
    time_ns: int
    next_validators_hash: bytes
    proposer_address: bytes


class ProcessProposalRequest(BlockRequest, frozen=True):
    pass


class ExtendVoteRequest(BlockRequest, frozen=True):
    pass


class FinalizeBlockRequest(BlockRequest, frozen=True):
    pass


class VerifyVoteExtensionRequest(msgspec.Struct, frozen=True):
    hash: bytes
    validator_address: bytes
    height: int
    vote_extension: bytes


class CommitRequest(msgspec.Struct, frozen=True):
    pass


class FinalizeBlockResponse(msgspec.Struct, frozen=True):
    tx_results: Sequence[TxResult]
    """Exactly one for each transaction of the block, in its order."""
    app_hash: bytes
    validator_updates: Sequence[ValidatorUpdate] = ()
    """They act two heights later."""
    consensus_param_updates: ConsensusParams | None = None


class ListSnapshotsRequest(msgspec.Struct, frozen=True):
    pass


class OfferSnapshotRequest(msgspec.Struct, frozen=True):
    snapshot: Snapshot
    app_hash: bytes
    """Verified by CometBFT's light client for the snapshot's height."""


class OfferSnapshotResult(IntEnum):
    ACCEPT = 1
    ABORT = 2
    REJECT = 3
    REJECT_FORMAT = 4
    REJECT_SENDER = 5


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


Request = (
    EchoRequest
    | FlushRequest
    | InfoRequest
    | InitChainRequest
    | QueryRequest
    | CheckTxRequest
    | CommitRequest
    | ListSnapshotsRequest
    | OfferSnapshotRequest
    | LoadSnapshotChunkRequest
    | ApplySnapshotChunkRequest
    | PrepareProposalRequest
    | ProcessProposalRequest
    | ExtendVoteRequest
    | VerifyVoteExtensionRequest
    | FinalizeBlockRequest
)
