"""The client of the current call."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

from cairn.api.server.access import RateLimiter, client_of


class Caller:
    """Each call is counted as a request, so that batches and sockets are no way around the rate limit."""

    def __init__(
        self,
        address: str,
        limiter: RateLimiter,
        is_gone: Callable[[], Awaitable[bool]],
        already_counted: int = 0,
    ) -> None:
        """`already_counted`: an HTTP request was counted for its first call."""
        self._address = address
        self._limiter = limiter
        self.is_gone = is_gone
        """Whether the client has disconnected."""
        self._free = already_counted

    @property
    def client(self) -> str:
        """For methods that store something for the client."""
        return client_of(self._address)

    def may_call(self) -> bool:
        """Count a call. False when the client has none left."""
        if self._free:
            self._free -= 1
            return True
        return self.may_do(1)

    def may_do(self, requests: int) -> bool:
        """Count further requests for a call that does the work of several. False when the client has fewer left."""
        return not self._limiter.limits(self._address) or self._limiter.take(self._address, requests)


current_caller: ContextVar[Caller] = ContextVar("current_caller")
"""Set by the dispatcher, for the methods that ask for it."""
