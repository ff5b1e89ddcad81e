"""Every failure as an HTTP answer: one table from error class to status, and one body format (RFC 9457)."""

from typing import NamedTuple

import msgspec
from msgspec import UNSET

from cairn.api.schemas import PROBLEM_TYPE, Problem
from cairn.domain import errors
from cairn.domain.errors import NodeError, Rejected, TxDropped, Unavailable
from cairn.domain.types import DropReason

PROBLEM_MEDIA_TYPE = "application/problem+json"


class MalformedRequest(Rejected):
    """The bytes are not HTTP, or lack what HTTP demands."""

    code = "MALFORMED_REQUEST"


class PathNotFound(Rejected):
    code = "NOT_FOUND"


class MethodNotAllowed(Rejected):
    code = "METHOD_NOT_ALLOWED"

    def __init__(self, method: str, allowed: str) -> None:
        super().__init__(f"{method} is not allowed here; use {allowed}")
        self.allowed = allowed


class BodyTooLarge(Rejected):
    code = "BODY_TOO_LARGE"


class HeadersTooLarge(Rejected):
    code = "HEADERS_TOO_LARGE"


class UnsupportedMediaType(Rejected):
    code = "UNSUPPORTED_MEDIA_TYPE"


class UpgradeRequired(Rejected):
    code = "UPGRADE_REQUIRED"


class ForbiddenHost(Rejected):
    """The Host is not one of this node's names. DNS rebinding looks like this."""

    code = "FORBIDDEN_HOST"


class ForbiddenOrigin(Rejected):
    """The request comes from a web page of another origin."""

    code = "FORBIDDEN_ORIGIN"


class RequestTimeout(Rejected):
    code = "REQUEST_TIMEOUT"


class RateLimited(Rejected):
    code = "RATE_LIMITED"


class FollowLimit(Rejected):
    """A socket follows as many transactions as it may."""

    code = "FOLLOW_LIMIT"


class TooManyConnections(Unavailable):
    code = "TOO_MANY_CONNECTIONS"


class TooManyUnansweredBytes(Unavailable):
    """Clients have sent more than this worker may hold until it is answered."""

    code = "TOO_MANY_UNANSWERED_BYTES"


class Internal(NodeError):
    code = "INTERNAL"


class DroppedForReason(TxDropped):
    """A dropped transaction, with the reason as its own field."""

    def __init__(self, reason: DropReason) -> None:
        super().__init__(f"the transaction was dropped from the mempool: {reason}")
        self.reason = reason


class Answer(NamedTuple):
    status: int
    title: str
    retry_after_s: int | None = None


ANSWERS: dict[type[NodeError], Answer] = {
    errors.MalformedJson: Answer(400, "Not JSON"),
    errors.InvalidField: Answer(400, "A field is missing, unknown or malformed"),
    errors.InvalidHash: Answer(400, "Not a hash"),
    errors.InvalidQuery: Answer(400, "A query parameter is unknown or malformed"),
    MalformedRequest: Answer(400, "The request is not valid HTTP"),
    ForbiddenHost: Answer(403, "The Host header is not allowed"),
    ForbiddenOrigin: Answer(403, "The web page's origin is not allowed"),
    errors.TxNotKept: Answer(404, "No such transaction in the blocks that this node keeps"),
    errors.TxNotFound: Answer(404, "No such transaction"),
    errors.TxDropped: Answer(404, "The transaction was dropped"),
    errors.BlockNotKept: Answer(404, "This node no longer keeps the block"),
    errors.BlockNotFound: Answer(404, "No such block"),
    errors.NotFound: Answer(404, "Not found"),
    errors.NotDevChain: Answer(404, "This is not a dev chain"),
    PathNotFound: Answer(404, "No such path"),
    MethodNotAllowed: Answer(405, "The path does not accept this method"),
    RequestTimeout: Answer(408, "The request took too long to arrive"),
    errors.NonceTooLow: Answer(409, "The nonce is already used"),
    errors.ReplacementUnderpriced: Answer(409, "The replacement pays too little"),
    BodyTooLarge: Answer(413, "The body is too large"),
    UnsupportedMediaType: Answer(415, "The body is not declared as JSON"),
    errors.InvalidSignature: Answer(422, "The signature is not the sender's"),
    errors.InsufficientFunds: Answer(422, "The sender cannot pay"),
    errors.GasTooLow: Answer(422, "The gas is too low for a transfer"),
    errors.GasTooHigh: Answer(422, "The gas is above the block gas limit"),
    errors.GasPriceTooLow: Answer(422, "The gas price is below the chain's"),
    errors.NonceTooHigh: Answer(422, "The nonce is too far ahead"),
    errors.UpdateRefused: Answer(422, "The validator update is refused"),
    UpgradeRequired: Answer(426, "This path needs a WebSocket"),
    RateLimited: Answer(429, "Too many requests", retry_after_s=1),
    errors.SenderLimit: Answer(429, "The sender has too many pending transactions", retry_after_s=5),
    FollowLimit: Answer(429, "The WebSocket follows too many transactions", retry_after_s=1),
    HeadersTooLarge: Answer(431, "The request's headers are too large"),
    Internal: Answer(500, "The node failed on this request"),
    errors.Starting: Answer(503, "The node is starting", retry_after_s=1),
    errors.ShuttingDown: Answer(503, "The node is shutting down", retry_after_s=5),
    errors.MempoolFull: Answer(503, "The mempool is full", retry_after_s=5),
    errors.StoreUnavailable: Answer(503, "The store is unavailable", retry_after_s=5),
    errors.Reverting: Answer(503, "The chain is being reverted", retry_after_s=1),
    errors.EngineUnavailable: Answer(503, "The engine is unavailable", retry_after_s=5),
    TooManyConnections: Answer(503, "Too many connections", retry_after_s=1),
    TooManyUnansweredBytes: Answer(503, "Too many bytes of requests are unanswered", retry_after_s=1),
}
_INTERNAL = ANSWERS[Internal]
_encode = msgspec.json.Encoder().encode


def answer_of(error: NodeError) -> Answer:
    """How `error` is answered. An error that the table does not have is a failure of the node."""
    for cls in type(error).__mro__:
        answer = ANSWERS.get(cls)
        if answer is not None:
            return answer
    return _INTERNAL


def problem_of(error: NodeError) -> Problem:
    answer = answer_of(error)
    if answer is _INTERNAL:
        # The reason belongs in the log, not in the answer.
        return Problem(PROBLEM_TYPE + Internal.code, answer.title, answer.status, "see the node's log", Internal.code)
    return Problem(
        type=PROBLEM_TYPE + error.code,
        title=answer.title,
        status=answer.status,
        detail=error.detail,
        code=error.code,
        field=error.field if isinstance(error, errors.InvalidField) else UNSET,
        reason=error.reason if isinstance(error, DroppedForReason) else UNSET,
    )


def encode_problem(error: NodeError) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, the headers that belong to it, and the body."""
    answer = answer_of(error)
    headers = [(b"content-type", PROBLEM_MEDIA_TYPE.encode())]
    if answer.retry_after_s is not None:
        headers.append((b"retry-after", str(answer.retry_after_s).encode()))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", error.allowed.encode()))
    if isinstance(error, UpgradeRequired):
        headers.append((b"upgrade", b"websocket"))
    return answer.status, headers, _encode(problem_of(error))
