"""What becomes of a failure while a request is served: one rule for all routes, and for the calls of JSON-RPC."""

import asyncio
from collections.abc import Callable

import structlog

from cairn.domain.errors import Fatal, Internal, NodeError, ShuttingDown

log = structlog.get_logger("cairn.api")


def error_of(failure: BaseException, on_fatal: Callable[[Fatal], None], **request: object) -> NodeError:
    """The error that the client is told.

    To be called once for each failure: whatever is no error of ours is logged here, with what is known of the request.
    """
    if isinstance(failure, Fatal):
        on_fatal(failure)
    if isinstance(failure, NodeError):
        return failure
    if isinstance(failure, asyncio.CancelledError):
        # A client that has gone is told nothing, so only a stop remains.
        return ShuttingDown("the node is shutting down")
    log.error("a request failed", exc_info=failure, **request)
    return Internal("see the node's log")
