"""Whether the client of the current call is still there."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar


async def _never() -> bool:
    return False


is_caller_gone: ContextVar[Callable[[], Awaitable[bool]]] = ContextVar("is_caller_gone", default=_never)
"""Whether the client of this call has disconnected."""
