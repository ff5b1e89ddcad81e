"""Every failure as an HTTP answer, in one body format (RFC 9457). The error's class says the rest."""

import msgspec

from cairn.domain.answers import PROBLEM_TYPE, Problem
from cairn.domain.errors import ApiError, Internal, MethodNotAllowed, NodeError, UpgradeRequired

PROBLEM_MEDIA_TYPE = "application/problem+json"
_INTERNAL = Internal("see the node's log")
_encode = msgspec.json.Encoder().encode


def answered(error: NodeError) -> ApiError:
    """What is answered for `error`: itself, or that the node failed. The reason of that belongs in the log alone."""
    if isinstance(error, ApiError) and error.title and not isinstance(error, Internal):
        return error
    return _INTERNAL


def problem_of(error: NodeError) -> Problem:
    error = answered(error)
    return Problem(
        type=PROBLEM_TYPE + error.code,
        title=error.title,
        status=error.status,
        detail=error.detail,
        code=error.code,
        field=error.field,
        reason=error.reason,
    )


def encode_problem(error: NodeError) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, the headers that belong to it, and the body."""
    error = answered(error)
    headers = [(b"content-type", PROBLEM_MEDIA_TYPE.encode())]
    if error.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % error.retry_after_s))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", error.allowed.encode()))
    if isinstance(error, UpgradeRequired):
        headers.append((b"upgrade", b"websocket"))
    return error.status, headers, _encode(problem_of(error))
