"""All exceptions of the client: one class for each stable error `code` of the node, and a few of its own.

    ClientError
    ├── NodeUnreachable       no answer within the time allowed; the request may have been carried out
    ├── OutcomeUnknown        the answer to a payment was lost, and the node does not know whether it was made
    ├── UnexpectedAnswer      the answer is not one of a Cairn node
    ├── ConfirmationTimeout   still pending at the end of the wait; it may be confirmed later
    ├── ChainChanged          the node's chain is not the one that was followed
    │   └── ChainReverted     a dev chain was reverted: blocks above `height` are void
    ├── InvalidProof          a proof does not show what it claims
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

from collections.abc import Mapping
from typing import Any

import msgspec

TRANSIENT_STATUSES = frozenset({429, 502, 503, 504})
"""Nothing is wrong with the request: the same one may succeed later."""


class ClientError(Exception):
    """Anything that the client raises on purpose."""

    tx_hash: str | None = None
    """Hash of a transaction that may have been accepted all the same, if it is known: look it up."""
    submission: Mapping[str, Any] | None = None
    """What was to be submitted, if it was signed here: `submit` it again, and it is still paid once."""


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


class InvalidProof(ClientError):
    """A proof does not show what it claims."""


class ApiError(ClientError):
    """The node refused. `code` is stable and for programs; `detail` is for people."""

    code: str = "UNKNOWN"
    status: int = 0

    def __init__(
        self,
        detail: str,
        *,
        field: str | None = None,
        reason: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        """The field that caused INVALID_FIELD."""
        self.reason = reason
        """Why TX_DROPPED: replaced, evicted, expired, nonce used or cannot be applied."""
        self.retry_after_s = retry_after_s
        """Seconds after which the node suggests to try again."""
        self.was_repeated = False
        """An earlier attempt may have been accepted and its answer lost: NONCE_TOO_LOW may then be its own effect."""

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in TRANSIENT_STATUSES


class Rejected(ApiError):
    """The request is wrong: sending it again as it is does not help."""

    status = 400


class MalformedJson(Rejected):
    code = "MALFORMED_JSON"


class InvalidField(Rejected):
    """A field is missing, unknown or malformed; `field` names it. Also raised before anything is sent."""

    code = "INVALID_FIELD"


class InvalidHash(Rejected):
    code = "INVALID_HASH"


class InvalidQuery(Rejected):
    code = "INVALID_QUERY"


class MalformedRequest(Rejected):
    code = "MALFORMED_REQUEST"


class ForbiddenHost(Rejected):
    """The node does not serve under this host name (`allowed_hosts`)."""

    code = "FORBIDDEN_HOST"
    status = 403


class ForbiddenOrigin(Rejected):
    code = "FORBIDDEN_ORIGIN"
    status = 403


class NotFound(Rejected):
    code = "NOT_FOUND"
    status = 404


class TxNotFound(NotFound):
    code = "TX_NOT_FOUND"


class TxNotKept(TxNotFound):
    """It may be in a block that this node no longer keeps: ask one that keeps all blocks."""

    code = "TX_NOT_KEPT"


class TxDropped(NotFound):
    """The transaction was dropped from the mempool; `reason` says why."""

    code = "TX_DROPPED"


class BlockNotFound(NotFound):
    code = "BLOCK_NOT_FOUND"


class BlockNotKept(BlockNotFound):
    """It is older than the blocks that this node keeps: ask one that keeps all blocks."""

    code = "BLOCK_NOT_KEPT"


class NotADevChain(NotFound):
    """This exists on dev chains only."""

    code = "NOT_A_DEV_CHAIN"


class MethodNotAllowed(Rejected):
    code = "METHOD_NOT_ALLOWED"
    status = 405


class RequestTimeout(Rejected):
    code = "REQUEST_TIMEOUT"
    status = 408


class BodyTooLarge(Rejected):
    code = "BODY_TOO_LARGE"
    status = 413


class UnsupportedMediaType(Rejected):
    code = "UNSUPPORTED_MEDIA_TYPE"
    status = 415


class UpgradeRequired(Rejected):
    code = "UPGRADE_REQUIRED"
    status = 426


class HeadersTooLarge(Rejected):
    code = "HEADERS_TOO_LARGE"
    status = 431


class TxRejected(Rejected):
    """A well-formed transaction that the rules or the mempool refuse."""

    status = 422


class NonceTooLow(TxRejected):
    """The nonce is used: another transaction of the account is confirmed with it."""

    code = "NONCE_TOO_LOW"
    status = 409


class ReplacementUnderpriced(TxRejected):
    """Another pending transaction has the nonce, and this one does not pay 10 % more."""

    code = "REPLACEMENT_UNDERPRICED"
    status = 409


class InvalidSignature(TxRejected):
    code = "INVALID_SIGNATURE"


class InsufficientFunds(TxRejected):
    code = "INSUFFICIENT_FUNDS"


class GasTooLow(TxRejected):
    code = "GAS_TOO_LOW"


class GasTooHigh(TxRejected):
    code = "GAS_TOO_HIGH"


class GasPriceTooLow(TxRejected):
    code = "GAS_PRICE_TOO_LOW"


class NonceTooHigh(TxRejected):
    code = "NONCE_TOO_HIGH"


class UpdateRefused(TxRejected):
    """The rules of the chain refuse a change of its validators."""

    code = "UPDATE_REFUSED"


class Limited(Rejected):
    """Too much at once: the same request may succeed later."""

    status = 429


class RateLimited(Limited):
    code = "RATE_LIMITED"


class SenderLimit(Limited):
    """The sender has as many pending transactions as the mempool holds of one account."""

    code = "SENDER_LIMIT"


class FollowLimit(Limited):
    code = "FOLLOW_LIMIT"


class Internal(ApiError):
    """The node failed on this request; its log says how."""

    code = "INTERNAL"
    status = 500


class Unavailable(ApiError):
    """Nothing is wrong with the request: try again later."""

    status = 503


class Starting(Unavailable):
    code = "STARTING"


class ShuttingDown(Unavailable):
    code = "SHUTTING_DOWN"


class MempoolFull(Unavailable):
    code = "MEMPOOL_FULL"


class StoreUnavailable(Unavailable):
    code = "STORE_UNAVAILABLE"


class EngineUnavailable(Unavailable):
    code = "ENGINE_UNAVAILABLE"


class TooManyConnections(Unavailable):
    code = "TOO_MANY_CONNECTIONS"


class TooManyUnansweredBytes(Unavailable):
    code = "TOO_MANY_UNANSWERED_BYTES"


def _classes_by_code(base: type[ApiError]) -> dict[str, type[ApiError]]:
    own = {base.code: base} if "code" in vars(base) and base is not ApiError else {}
    for subclass in base.__subclasses__():
        own |= _classes_by_code(subclass)
    return own


BY_CODE = _classes_by_code(ApiError)


class Problem(msgspec.Struct, frozen=True):
    """The body of a refusal (RFC 9457), and the fields of an `error` on the event channel."""

    title: str
    status: int
    detail: str
    code: str
    field: str | None = None
    reason: str | None = None


def error_of(problem: Problem, retry_after_s: float | None = None) -> ApiError:
    """The problem as an exception. An unknown code gives the base class of its status."""
    cls = BY_CODE.get(problem.code) or _base_of(problem.status)
    error = cls(problem.detail, field=problem.field, reason=problem.reason, retry_after_s=retry_after_s)
    error.code, error.status = problem.code, problem.status
    return error


def _base_of(status: int) -> type[ApiError]:
    if status == 429:
        return Limited
    if status in TRANSIENT_STATUSES:
        return Unavailable
    return Rejected if 400 <= status < 500 else ApiError
