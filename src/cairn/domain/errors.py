"""The whole error tree: one class per error, with its stable code and what each interface says of it.

NodeError
├── ApiError            what a node answers, and what its client then raises (as a ClientError)
│   ├── Rejected        the request is wrong (4xx): expected, never logged above debug
│   │   ├── MalformedJson, InvalidField, InvalidHash, InvalidQuery
│   │   ├── HTTP        MalformedRequest, ForbiddenHost, ForbiddenOrigin, MethodNotAllowed, RequestTimeout,
│   │   │               BodyTooLarge, UnsupportedMediaType, UpgradeRequired, HeadersTooLarge,
│   │   │               IdempotencyKeyReused, StatementTooLong
│   │   ├── NotFound    PathNotFound, TxNotFound (TxNotKept), TxDropped, BlockNotFound (BlockNotKept), NotSignedYet,
│   │   │               NotADevChain
│   │   ├── TxRejected  InvalidSignature (NotReplayProtected), InsufficientFunds, GasTooLow, GasTooHigh,
│   │   │               DataTooLong, GasPriceTooLow, NonceTooLow, NonceTooHigh, ReplacementUnderpriced, UpdateRefused
│   │   └── Limited     too much at once: RateLimited, SenderLimit, FollowLimit
│   ├── Unavailable     try again later (503): Starting, ShuttingDown, MempoolFull, StoreUnavailable
│   │                   (JournalUnavailable, Reverting), EngineUnavailable, TooManyConnections,
│   │                   TooManyUnansweredBytes
│   └── Internal        the node failed (500)
├── InvalidSnapshot     a peer's fault: its snapshot is wrong; InvalidChunk: one part of it is wrong
├── InvalidConfig       the operator's fault: the node does not start until it is corrected; AddressUnavailable: it
│                       may be able to without that
└── Fatal               our fault or the disk's: stop the node, never continue
    ├── Corrupt, WrongFormat, WrongGenesis, ChainMissing, NoSigningKey, DirectoryInUse, AnotherVersionNeeded
    └── InvalidBlock
"""

import errno
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from cairn.domain.types import DropReason

TRANSIENT_STATUSES = frozenset({429, 502, 503, 504})
"""Nothing is wrong with the request: the same one may succeed later."""


class NodeError(Exception):
    """Anything that the node itself raises on purpose."""

    code: str = "INTERNAL"
    """Stable, and the same over REST, JSON-RPC, WebSocket and the worker link."""
    abci_code: ClassVar[int] = 1
    """The number that CometBFT gets for a refused transaction. Part of consensus: never renumber."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class ClientError(Exception):
    """Anything that the client raises on purpose."""

    tx_hash: str | None = None
    """Hash of a transaction that may have been accepted all the same, if it is known: look it up."""
    submission: Mapping[str, Any] | None = None
    """What was to be submitted, if it was signed here: `submit` it again, and it is still paid once."""

    def __reduce__(self) -> tuple[Any, ...]:
        """For `pickle`, which else would pass the text to `__init__`; a pool of processes would wait forever."""
        return _restored, (type(self), self.args, vars(self))


def _restored(cls: type[ClientError], args: tuple[object, ...], fields: Mapping[str, object]) -> ClientError:
    error = cls.__new__(cls)
    error.args = args
    vars(error).update(fields)
    return error


class InvalidProof(ClientError):
    """A proof does not show what it claims."""

    code: ClassVar[str] = "INVALID_PROOF"
    """Stable, and for programs, as that of `ApiError`."""


class ApiError(NodeError, ClientError):
    """The node refused. `code` is stable and for programs; `detail` is for people."""

    code = "UNKNOWN"
    status: int = 0
    """The HTTP status."""
    title: ClassVar[str] = ""
    """The kind of error, for people. Base classes have none: a node answers with what is below them."""
    hint: ClassVar[str] = ""
    """What the user of a `cairn` command can do next."""
    rpc_code: ClassVar[int] = -32000
    """The code over JSON-RPC: geth's."""
    rpc_text: ClassVar[str] = ""
    """How geth begins the text, for which wallets and libraries search; `detail` follows."""
    retry_after_s: float | None = None
    """Seconds after which the node suggests to try again."""
    field: str | None = None
    """The field that caused INVALID_FIELD."""
    reason: str | None = None
    """Why TX_DROPPED: replaced, evicted, expired, nonce used or cannot be applied."""
    was_repeated: bool = False
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
    title = "Not JSON"


class InvalidField(Rejected):
    """A field is missing, unknown or malformed; `field` names it. The client raises it also before it sends."""

    code = "INVALID_FIELD"
    title = "A field is missing, unknown or malformed"
    rpc_code = -32602
    rpc_text = "invalid argument"
    abci_code = 2
    field: str

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field = field

    @property
    def why(self) -> str:
        """`detail` without the field's name."""
        return self.detail.removeprefix(f"{self.field}: ")


class InvalidHash(Rejected):
    code = "INVALID_HASH"
    title = "Not a hash"
    rpc_code = -32602
    rpc_text = "invalid argument"


class InvalidQuery(Rejected):
    code = "INVALID_QUERY"
    title = "A query parameter is unknown or malformed"


class MalformedRequest(Rejected):
    """The bytes are not HTTP, or lack what HTTP demands."""

    code = "MALFORMED_REQUEST"
    title = "The request is not valid HTTP"


class ForbiddenHost(Rejected):
    """The node does not serve under this host name (`allowed_hosts`). DNS rebinding looks like this."""

    code = "FORBIDDEN_HOST"
    status = 403
    title = "The Host header is not allowed"
    hint = "the node's `allowed_hosts` setting must name this host"


class ForbiddenOrigin(Rejected):
    """The request comes from a web page of another origin."""

    code = "FORBIDDEN_ORIGIN"
    status = 403
    title = "The web page's origin is not allowed"


class NotFound(Rejected):
    code = "NOT_FOUND"
    status = 404
    title = "Not found"


class PathNotFound(NotFound):
    title = "No such path"


class TxNotFound(NotFound):
    code = "TX_NOT_FOUND"
    title = "No such transaction"
    hint = "check the hash, and that --node is of the same chain"


class TxNotKept(TxNotFound):
    """It is unknown, or in a block that this node no longer keeps: ask one that keeps all blocks."""

    code = "TX_NOT_KEPT"
    title = "No such transaction in the blocks that this node keeps"
    hint = ""


class TxDropped(NotFound):
    """The transaction was dropped from the mempool; `reason` says why."""

    code = "TX_DROPPED"
    title = "The transaction was dropped"

    def __init__(self, reason: DropReason) -> None:
        super().__init__(f"the transaction was dropped from the mempool: {reason}")
        self.reason = reason


class BlockNotFound(NotFound):
    code = "BLOCK_NOT_FOUND"
    title = "No such block"
    rpc_text = "historical state is not available"


class BlockNotKept(BlockNotFound):
    """It is older than the blocks that this node keeps: ask one that keeps all blocks."""

    code = "BLOCK_NOT_KEPT"
    title = "This node no longer keeps the block"


class NotSignedYet(NotFound):
    """No signature covers the block yet; the next block's will, or that of the next payment if the block is empty."""

    code = "NOT_SIGNED_YET"
    title = "Not signed yet"

    @classmethod
    def of(cls, height: int | None, newest: int | None) -> "NotSignedYet":
        """That of a block of a network, with the newest block that a signature covers."""
        block = "any block" if height is None else f"block {height}"
        covered = "" if newest is None else f"; the latest that one covers is {newest}"
        when = "A block with payments is signed with the next block, empty ones at the end with the next payment"
        return cls(f"no signature covers {block} yet{covered}. {when}")


class NotADevChain(NotFound):
    """This exists on dev chains only."""

    code = "NOT_A_DEV_CHAIN"
    title = "This is not a dev chain"


class MethodNotAllowed(Rejected):
    code = "METHOD_NOT_ALLOWED"
    status = 405
    title = "The path does not accept this method"

    def __init__(self, method: str, allowed: str) -> None:
        super().__init__(f"{method} is not allowed here; use {allowed}")
        self.allowed = allowed


class RequestTimeout(Rejected):
    code = "REQUEST_TIMEOUT"
    status = 408
    title = "The request took too long to arrive"


class BodyTooLarge(Rejected):
    code = "BODY_TOO_LARGE"
    status = 413
    title = "The body is too large"


class UnsupportedMediaType(Rejected):
    code = "UNSUPPORTED_MEDIA_TYPE"
    status = 415
    title = "The body is not declared as JSON"


class UpgradeRequired(Rejected):
    code = "UPGRADE_REQUIRED"
    status = 426
    title = "This path needs a WebSocket"


class HeadersTooLarge(Rejected):
    code = "HEADERS_TOO_LARGE"
    status = 431
    title = "The request's headers are too large"


class TxRejected(Rejected):
    """A well-formed transaction that the rules or the mempool refuse."""

    status = 422


class InvalidSignature(TxRejected):
    code = "INVALID_SIGNATURE"
    title = "The signature is not the sender's"
    rpc_text = "invalid sender"
    abci_code = 3


class NotReplayProtected(InvalidSignature):
    """The signature names no chain (EIP-155), so anybody could send the transaction on another one."""

    rpc_text = "only replay-protected (EIP-155) transactions allowed over RPC"


class InsufficientFunds(TxRejected):
    code = "INSUFFICIENT_FUNDS"
    title = "The sender cannot pay"
    hint = "`cairn account` shows the balance; pending transfers already reserve a part of it"
    rpc_text = "insufficient funds for gas * price + value"
    abci_code = 9


class GasTooLow(TxRejected):
    code = "GAS_TOO_LOW"
    title = "The gas is too low for a transfer"
    rpc_text = "intrinsic gas too low"
    abci_code = 4


class GasTooHigh(TxRejected):
    code = "GAS_TOO_HIGH"
    title = "The gas is above the block gas limit"
    rpc_text = "exceeds block gas limit"
    abci_code = 5


class DataTooLong(TxRejected):
    code = "DATA_TOO_LONG"
    title = "The data is longer than this chain allows"
    hint = "`cairn chain` shows how many bytes of data a transfer may carry"
    rpc_text = "oversized data"
    abci_code = 15


class GasPriceTooLow(TxRejected):
    code = "GAS_PRICE_TOO_LOW"
    title = "The gas price is below the chain's"
    hint = "leave --gas-price or --max-fee out to pay the chain's gas price"
    rpc_text = "transaction underpriced"
    abci_code = 6


class NonceTooLow(TxRejected):
    """The nonce is used: another transaction of the account is confirmed with it."""

    code = "NONCE_TOO_LOW"
    status = 409
    title = "The nonce is already used"
    hint = "leave --nonce out to use the next one"
    rpc_text = "nonce too low"
    abci_code = 7


class NonceTooHigh(TxRejected):
    code = "NONCE_TOO_HIGH"
    title = "The nonce is too far ahead"
    hint = "leave --nonce out to use the next one"
    rpc_text = "nonce too high"
    abci_code = 8


class ReplacementUnderpriced(TxRejected):
    """Another pending transaction has the nonce, and this one does not pay 10 % more."""

    code = "REPLACEMENT_UNDERPRICED"
    status = 409
    title = "The replacement pays too little"
    hint = (
        "to replace that transfer, pay at least 10 % more (--gas-price, or --max-fee and --tip); else leave --nonce out"
    )
    rpc_text = "replacement transaction underpriced"
    abci_code = 10


class UpdateRefused(TxRejected):
    """The rules of the chain refuse a change of its validators."""

    code = "UPDATE_REFUSED"
    title = "The validator update is refused"
    abci_code = 13


class IdempotencyKeyReused(Rejected):
    """The Idempotency-Key came with another request before. Nothing was done."""

    code = "IDEMPOTENCY_KEY_REUSED"
    status = 422
    title = "The Idempotency-Key belongs to another request"


class StatementTooLong(Rejected):
    """The account has more changes between the two blocks than one statement may have. `detail` says where to cut."""

    code = "STATEMENT_TOO_LONG"
    status = 422
    title = "The statement has too many changes"
    hint = "make several statements, each from the block after the one before"


class Limited(Rejected):
    """Too much at once: the same request may succeed later."""

    status = 429
    retry_after_s = 1


class RateLimited(Limited):
    code = "RATE_LIMITED"
    title = "Too many requests"
    hint = "try again in a moment"


class SenderLimit(Limited):
    """The sender has as many pending transactions as the mempool holds of one account."""

    code = "SENDER_LIMIT"
    title = "The sender has too many pending transactions"
    hint = "wait until some of the account's transfers are confirmed"
    rpc_text = "account limit exceeded"
    abci_code = 11
    retry_after_s = 5


class FollowLimit(Limited):
    """A socket follows as many transactions or addresses as it may."""

    code = "FOLLOW_LIMIT"
    title = "The WebSocket follows too many transactions or addresses"


class Unavailable(ApiError):
    """Nothing is wrong with the request: try again later."""

    status = 503
    rpc_code = -32002
    rpc_text = "resource unavailable"
    retry_after_s = 5


class Starting(Unavailable):
    code = "STARTING"
    title = "The node is starting"
    hint = "try again in a moment"
    retry_after_s = 1


class ShuttingDown(Unavailable):
    code = "SHUTTING_DOWN"
    title = "The node is shutting down"
    hint = "start the node again"


class MempoolFull(Unavailable):
    code = "MEMPOOL_FULL"
    title = "The mempool is full"
    hint = "try again later, or raise --gas-price or --tip"
    rpc_code = -32000
    rpc_text = "txpool is full"
    abci_code = 12


class StoreUnavailable(Unavailable):
    """The disk fails (full, read-only, gone): what was accepted is safe, nothing new is accepted."""

    code = "STORE_UNAVAILABLE"
    title = "The store is unavailable"


class JournalUnavailable(StoreUnavailable):
    """The journal cannot be written."""


class Reverting(StoreUnavailable):
    """The dev chain is being reverted; the core opens the earlier chain next."""

    title = "The chain is being reverted"
    retry_after_s = 1


class EngineUnavailable(Unavailable):
    """CometBFT does not answer."""

    code = "ENGINE_UNAVAILABLE"
    title = "The engine is unavailable"


class TooManyConnections(Unavailable):
    code = "TOO_MANY_CONNECTIONS"
    title = "Too many connections"
    retry_after_s = 1


class TooManyUnansweredBytes(Unavailable):
    """Clients have sent more than this worker may hold until it is answered."""

    code = "TOO_MANY_UNANSWERED_BYTES"
    title = "Too many bytes of requests are unanswered"
    retry_after_s = 1


class Internal(ApiError):
    """The node failed on this request; its log says how."""

    code = "INTERNAL"
    status = 500
    title = "The node failed on this request"
    rpc_code = -32603


class InvalidSnapshot(NodeError):
    """The offered state snapshot is not valid, or of another chain. Nothing of it is kept."""


class InvalidChunk(InvalidSnapshot):
    """A part of a snapshot does not have the hash in its manifest. Another peer's copy may."""


class InvalidConfig(NodeError):
    """A setting, an option or a file that the operator gave is wrong; the text names it."""


class AddressUnavailable(InvalidConfig):
    """The address to listen on is not there, or is taken. That may change without the operator."""


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


class NoSigningKey(Fatal):
    """The key that signs the chain's blocks is missing, cannot be used, or is another one."""


class DirectoryInUse(Fatal):
    """Another node holds the directory."""


class AnotherVersionNeeded(Fatal):
    """Another version of the program must go on: it has the rules of the chain's next blocks, this one does not."""


class InvalidBlock(Fatal):
    """A block breaks the rules; it is never applied."""

    abci_code = 14


_OS_ADVICE = {
    errno.EACCES: "run it as the user that owns the files",
    errno.EPERM: "run it as the user that owns the files",
    errno.ENOSPC: "free space on that disk",
    errno.EROFS: "mount that disk writable",
}


def reason_of(error: Exception) -> str:
    """The text of any exception, without a code. Of the system's, what to do where that follows from the reason."""
    if isinstance(error, OSError) and error.strerror:
        advice = _OS_ADVICE.get(error.errno or 0)
        return error.strerror if advice is None else f"{error.strerror}; {advice}"
    return error.detail if isinstance(error, NodeError) else str(error)


def _below(cls: type[ApiError]) -> Iterator[type[ApiError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from _below(child)


ANSWERED = [cls for cls in _below(ApiError) if "title" in vars(cls) and cls is not ApiError]
"""Every kind of answer. Two with one code have different titles."""
BY_CODE = {cls.code: cls for cls in ANSWERED if "code" in vars(cls)}


def received_error(
    code: str, detail: str, status: int | None = None, *, field: str | None = None, reason: str | None = None
) -> ApiError:
    """What another process answered, as the exception of its class. An unknown code gives the base of its status."""
    cls = BY_CODE.get(code) or _base_of(Unavailable.status if status is None else status)
    # Not by `__init__`: some classes make their text from other arguments, and here it is made.
    error = cls.__new__(cls, detail)
    error.code, error.detail, error.field, error.reason = code, detail, field, reason
    if status is not None:
        error.status = status
    return error


def _base_of(status: int) -> type[ApiError]:
    if status == Limited.status:
        return Limited
    if status in TRANSIENT_STATUSES:
        return Unavailable
    return Rejected if 400 <= status < 500 else ApiError
