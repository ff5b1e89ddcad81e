"""The client of the current call, and the batch that it is part of."""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar

from cairn.api.rpc.errors import RESPONSE_TOO_LARGE, RpcError
from cairn.api.server.access import RateLimiter, client_of
from cairn.time_shares import never


class Caller:
    """Each call is counted as a request, so that batches and sockets are no way around the rate limit."""

    def __init__(
        self,
        address: str,
        limiter: RateLimiter,
        has_left: Callable[[], bool] = never,
        already_counted: int = 0,
    ) -> None:
        """`already_counted`: an HTTP request was counted for its first call."""
        self._address = address
        self._limiter = limiter
        self.has_left = has_left
        """Whether the client has disconnected, as far as the server has noticed it."""
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


class Batch:
    """The calls of one message. Their answers are in memory until the last one is made."""

    def __init__(self, most_bytes: int, waits_for_block: bool) -> None:
        self._most_bytes = most_bytes
        self.size_bytes = 0
        self.waits_for_block = waits_for_block
        """One of the calls may wait for a minute, and the answers of the others with it."""
        self.one_at_a_time = asyncio.Lock()
        """For large answers."""
        self._give_back: Callable[[], None] | None = None

    @property
    def has_place(self) -> bool:
        return self._give_back is not None

    def keep_place(self, give_back: Callable[[], None]) -> None:
        """Keep a place for large answers until the batch ends."""
        self._give_back = give_back

    def end(self) -> None:
        if self._give_back is not None:
            self._give_back()

    def check_size(self) -> None:
        """Raises `RpcError` when the batch may have no further answer."""
        if self.size_bytes > self._most_bytes:
            raise RpcError(RESPONSE_TOO_LARGE, "response too large")


current_caller: ContextVar[Caller] = ContextVar("current_caller")
"""Set by the dispatcher, for the methods that ask for it."""
current_batch: ContextVar[Batch | None] = ContextVar("current_batch", default=None)
"""None for a call that came alone."""
