"""The whole error tree. `code` is stable and the same over REST, WebSocket and the worker link.

NodeError
├── Rejected            the caller's fault: expected, never logged above debug
│   ├── MalformedJson, InvalidField, InvalidHash, InvalidQuery
│   ├── TxRejected      a well-formed transaction that the rules or the mempool refuse
│   │   ├── InvalidSignature (NotReplayProtected), InsufficientFunds, GasTooLow, GasTooHigh, GasPriceTooLow
│   │   ├── NonceTooLow, NonceTooHigh, ReplacementUnderpriced, SenderLimit, UpdateRefused
│   └── NotFound        TxNotFound (TxNotKept), TxDropped, BlockNotFound (BlockNotKept), NotDevChain
├── Unavailable         try again later: Starting, ShuttingDown, MempoolFull, StoreUnavailable (JournalUnavailable,
│                       Reverting), EngineUnavailable
├── InvalidSnapshot     a peer's fault: its snapshot is wrong; InvalidChunk: one part of it is wrong
├── InvalidConfig       the operator's fault: the node does not start until it is corrected
└── Fatal               our fault or the disk's: stop the node, never continue
    ├── Corrupt, WrongFormat, WrongGenesis, ChainMissing, DirectoryInUse
    └── InvalidBlock
"""

from typing import ClassVar


class NodeError(Exception):
    """Anything that the node itself raises on purpose."""

    code: ClassVar[str] = "INTERNAL"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Rejected(NodeError):
    """The caller's fault."""


class MalformedJson(Rejected):
    code = "MALFORMED_JSON"


class InvalidField(Rejected):
    """A field of a submission is missing, unknown or malformed."""

    code = "INVALID_FIELD"

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field = field
        self.why = why


class InvalidHash(Rejected):
    code = "INVALID_HASH"


class InvalidQuery(Rejected):
    code = "INVALID_QUERY"


class TxRejected(Rejected):
    """A well-formed transaction that the rules or the mempool refuse."""


class InvalidSignature(TxRejected):
    code = "INVALID_SIGNATURE"


class NotReplayProtected(InvalidSignature):
    """The signature names no chain (EIP-155), so anybody could send the transaction on another one."""


class InsufficientFunds(TxRejected):
    code = "INSUFFICIENT_FUNDS"


class GasTooLow(TxRejected):
    code = "GAS_TOO_LOW"


class GasTooHigh(TxRejected):
    code = "GAS_TOO_HIGH"


class GasPriceTooLow(TxRejected):
    code = "GAS_PRICE_TOO_LOW"


class NonceTooLow(TxRejected):
    code = "NONCE_TOO_LOW"


class NonceTooHigh(TxRejected):
    code = "NONCE_TOO_HIGH"


class ReplacementUnderpriced(TxRejected):
    code = "REPLACEMENT_UNDERPRICED"


class UpdateRefused(TxRejected):
    """A validator update that the governance rules refuse."""

    code = "UPDATE_REFUSED"


class SenderLimit(TxRejected):
    code = "SENDER_LIMIT"


class NotFound(Rejected):
    code = "NOT_FOUND"


class TxNotFound(NotFound):
    code = "TX_NOT_FOUND"


class TxNotKept(TxNotFound):
    """It is unknown, or in a block that this node has removed."""

    code = "TX_NOT_KEPT"


class TxDropped(NotFound):
    code = "TX_DROPPED"


class BlockNotFound(NotFound):
    code = "BLOCK_NOT_FOUND"


class BlockNotKept(BlockNotFound):
    """It is older than the blocks that this node keeps."""

    code = "BLOCK_NOT_KEPT"


class NotDevChain(NotFound):
    """What was asked for exists on dev chains only."""

    code = "NOT_A_DEV_CHAIN"


class Unavailable(NodeError):
    """Nothing is wrong with the request: try again later."""


class Starting(Unavailable):
    code = "STARTING"


class ShuttingDown(Unavailable):
    code = "SHUTTING_DOWN"


class MempoolFull(Unavailable):
    code = "MEMPOOL_FULL"


class StoreUnavailable(Unavailable):
    """The disk fails (full, read-only, gone): what was accepted is safe, nothing new is accepted."""

    code = "STORE_UNAVAILABLE"


class JournalUnavailable(StoreUnavailable):
    """The journal cannot be written."""


class Reverting(StoreUnavailable):
    """The dev chain is being reverted; the core opens the earlier chain next."""


class InvalidSnapshot(NodeError):
    """The offered state snapshot is not valid, or of another chain. Nothing of it is kept."""


class InvalidChunk(InvalidSnapshot):
    """A part of a snapshot does not have the hash in its manifest. Another peer's copy may."""


class EngineUnavailable(Unavailable):
    """CometBFT does not answer."""

    code = "ENGINE_UNAVAILABLE"


class InvalidConfig(NodeError):
    """A setting, an option or a file that the operator gave is wrong; the text names it."""


class Fatal(NodeError):
    """The node must stop: going on could lose or falsify what it holds."""


class Corrupt(Fatal):
    """What the disk gives back is not what was written."""


class WrongFormat(Fatal):
    """The directory was written by another format version."""


class WrongGenesis(Fatal):
    """The directory belongs to another chain."""


class ChainMissing(Fatal):
    """The directory holds no chain, though the node has begun one."""


class DirectoryInUse(Fatal):
    """Another node holds the directory."""


class InvalidBlock(Fatal):
    """A block breaks the rules; it is never applied."""
