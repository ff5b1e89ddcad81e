"""All exceptions of the client: one class for each stable error `code` of the node, and a few of its own.

    ClientError
    ├── NodeUnreachable       no answer within the time allowed; the request may have been carried out
    ├── OutcomeUnknown        the answer to a payment was lost, and the node does not know whether it was made
    ├── UnexpectedAnswer      the answer is not one of a Cairn node
    ├── ConfirmationTimeout   still pending at the end of the wait; it may be confirmed later
    ├── ChainChanged          the node's chain is not the one that was followed
    │   └── ChainReverted     a dev chain was reverted: blocks above `height` are void
    ├── InvalidProof          a proof does not show what it claims, or the answer differs from it
    │   ├── ChainForked       two signed blocks that contradict each other: history was rewritten
    │   └── OutdatedAnswer    the answer proves less than an earlier one
    └── ApiError              the node answered with an error: `code`, `status` and `detail`
        ├── Rejected          the request is wrong (4xx)
        │   ├── MalformedJson, InvalidField, InvalidHash, InvalidQuery, and errors of HTTP
        │   ├── NotFound      TxNotFound (TxNotKept), TxDropped, BlockNotFound (BlockNotKept)
        │   ├── TxRejected    a well-formed transaction that the rules or the mempool refuse
        │   └── Limited       too much at once: RateLimited, SenderLimit, FollowLimit
        ├── Internal          the node failed
        └── Unavailable       try again later (503): Starting, ShuttingDown, MempoolFull, StoreUnavailable, ...

An unknown code gives the base class of its status, with the code in `code`.
"""

from cairn.domain.answers import Head, Problem
from cairn.domain.errors import (
    BY_CODE,
    ApiError,
    BlockNotFound,
    BlockNotKept,
    BodyTooLarge,
    ClientError,
    DataTooLong,
    EngineUnavailable,
    FollowLimit,
    ForbiddenHost,
    ForbiddenOrigin,
    GasPriceTooLow,
    GasTooHigh,
    GasTooLow,
    HeadersTooLarge,
    IdempotencyKeyReused,
    InsufficientFunds,
    Internal,
    InvalidField,
    InvalidHash,
    InvalidProof,
    InvalidQuery,
    InvalidSignature,
    Limited,
    MalformedJson,
    MalformedRequest,
    MempoolFull,
    MethodNotAllowed,
    NonceTooHigh,
    NonceTooLow,
    NotADevChain,
    NotFound,
    NotSignedYet,
    RateLimited,
    Rejected,
    ReplacementUnderpriced,
    RequestTimeout,
    SenderLimit,
    ShuttingDown,
    Starting,
    StatementTooLong,
    StoreUnavailable,
    TooManyConnections,
    TooManyUnansweredBytes,
    TxDropped,
    TxNotFound,
    TxNotKept,
    TxRejected,
    Unavailable,
    UnsupportedMediaType,
    UpdateRefused,
    UpgradeRequired,
    received_error,
)

__all__ = [
    "ApiError", "BY_CODE", "BlockNotFound", "BlockNotKept", "BodyTooLarge", "ChainChanged", "ChainForked",
    "ChainReverted", "ClientError", "ConfirmationTimeout", "DataTooLong", "EngineUnavailable", "FollowLimit",
    "ForbiddenHost", "ForbiddenOrigin", "GasPriceTooLow", "GasTooHigh", "GasTooLow", "HeadersTooLarge",
    "IdempotencyKeyReused", "InsufficientFunds", "Internal", "InvalidField", "InvalidHash", "InvalidProof",
    "InvalidQuery", "InvalidSignature", "Limited", "MalformedJson", "MalformedRequest", "MempoolFull",
    "MethodNotAllowed", "NodeUnreachable", "NonceTooHigh", "NonceTooLow", "NotADevChain", "NotFound", "NotSignedYet",
    "OutcomeUnknown", "OutdatedAnswer", "Problem", "PublicKeyWarning", "RateLimited", "Rejected",
    "ReplacementUnderpriced", "RequestTimeout", "SenderLimit", "ShuttingDown", "Starting", "StatementTooLong",
    "StoreUnavailable", "TooManyConnections", "TooManyUnansweredBytes", "TxDropped", "TxNotFound", "TxNotKept",
    "TxRejected", "Unavailable", "UnexpectedAnswer", "UnsupportedMediaType", "UpdateRefused", "UpgradeRequired",
    "error_of",
]  # fmt: skip


class NodeUnreachable(ClientError):
    """No answer within the time allowed.

    The request may have been carried out all the same. Sending a signed transaction again is safe: it cannot be applied
    twice.
    """

    def __init__(self, detail: str, *, was_sent: bool) -> None:
        super().__init__(detail)
        self.was_sent = was_sent
        """False when the request certainly never reached the node."""


class OutcomeUnknown(ClientError):
    """The answer to a payment was lost, its nonce is used, and the node does not know by which transaction.

    It may be the payment itself, in a block that the node no longer keeps. Before you pay again, look `tx_hash` up at a
    node that keeps all blocks.
    """

    tx_hash: str

    def __init__(self, tx_hash: str) -> None:
        super().__init__(f"it is not known whether {tx_hash} was made: the answer was lost, and the nonce is used")
        self.tx_hash = tx_hash


class UnexpectedAnswer(ClientError):
    """The answer does not fit the request, or is not one of a Cairn node."""


class ConfirmationTimeout(ClientError, TimeoutError):
    """The transaction is still pending. The node keeps it, and it may be confirmed later."""

    tx_hash: str

    def __init__(self, tx_hash: str, timeout_s: float) -> None:
        super().__init__(f"{tx_hash} is still pending after {timeout_s:g} s")
        self.tx_hash = tx_hash


class ChainChanged(ClientError):
    """The node has another chain than the one that was followed: a dev chain that was started again or reverted."""


class ChainReverted(ChainChanged):
    """A dev chain was reverted to a snapshot (`evm_revert`): the blocks above `height` are gone.

    Discard what you know of them, and follow the chain again from `height` + 1.
    """

    def __init__(self, height: int) -> None:
        super().__init__(f"the chain was reverted to block {height}")
        self.height = height
        """Height of the latest block after the revert."""


class ChainForked(InvalidProof):
    """A signed block contradicts one that was signed before: whoever signs has signed two histories.

    The chain was rewritten, or it is shown differently to different people. Keep both blocks: they are the evidence.
    """

    code = "CHAIN_FORKED"

    def __init__(self, known: Head, shown: Head) -> None:
        super().__init__(
            f"history was rewritten: block {known.block_height} was {known.hash}, and the node proves {shown.hash}"
        )
        self.known = known
        self.shown = shown


class OutdatedAnswer(InvalidProof):
    """The answer is proven, but of an earlier block than one that was proven before: the node hides the newer ones."""

    code = "OUTDATED_ANSWER"


class PublicKeyWarning(UserWarning):
    """Everybody has the key that signs the blocks of a dev chain: its signatures prove nothing."""


def error_of(problem: Problem, retry_after_s: float | None = None) -> ApiError:
    """The problem as an exception. An unknown code gives the base class of its status."""
    error = received_error(problem.code, problem.detail, problem.status, field=problem.field, reason=problem.reason)
    error.retry_after_s = retry_after_s
    return error
