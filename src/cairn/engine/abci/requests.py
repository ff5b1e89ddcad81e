"""What CometBFT asks and what it is answered, as plain values; `wire` turns them into bytes and back.

They hold what this node reads and writes, of all that the wire definition has. Fields bear its names, except where it
nests what we do not. Plain values are also cheaper than the generated classes on the way of a transaction: those make
a new `bytes` at every reading of one, and the results of a block cost six times as much.
"""

from collections.abc import Sequence
from enum import IntEnum

import msgspec


class ValidatorUpdate(msgspec.Struct, frozen=True):
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
    """Only what is committed: CometBFT replays from here, and stops when it is ahead of its own blocks."""
    last_block_app_hash: bytes
    app_version: int = 0
    version: str = ""
    data: str = ""


class InitChainRequest(msgspec.Struct, frozen=True):
    validators: Sequence[ValidatorUpdate]
    app_state: bytes
    initial_height: int


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
    """The answer for one transaction, by CheckTx and in a finalized block. Code 0 means good.

    `code`, `gas_wanted` and `gas_used` of a finalized block are part of consensus: equal on every node.
    """

    code: int = 0
    log: str = ""
    gas_wanted: int = 0
    gas_used: int = 0
    codespace: str = ""


class BlockRequest(msgspec.Struct, frozen=True):
    """A block, proposed or decided."""

    txs: Sequence[bytes]
    height: int
    time_ns: int
    proposer_address: bytes


class PrepareProposalRequest(BlockRequest, frozen=True):
    max_tx_bytes: int
    """What the answer may come to at most, each transaction counted with `framing.proposed_size_bytes`."""


class ProcessProposalRequest(BlockRequest, frozen=True):
    pass


class FinalizeBlockRequest(BlockRequest, frozen=True):
    pass


class FinalizeBlockResponse(msgspec.Struct, frozen=True):
    tx_results: Sequence[TxResult]
    """Exactly one for each transaction of the block, in its order."""
    app_hash: bytes
    validator_updates: Sequence[ValidatorUpdate] = ()
    """They act two heights later."""


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
