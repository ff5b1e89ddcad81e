"""Calls against the rate limit: a batch or a socket must not be a way around it."""

from cairn.api.server.access import RateLimiter


class CallCounter:
    """Counts each call of a client as a request of its own."""

    def __init__(self, limiter: RateLimiter, client: str, already_counted: int = 0) -> None:
        """`already_counted`: an HTTP request was counted for its first call."""
        self._limiter = limiter
        self._client = client
        self._free = already_counted
        self._is_limited = limiter.limits(client)

    def __call__(self) -> bool:
        if self._free:
            self._free -= 1
            return True
        return not self._is_limited or self._limiter.take(self._client)
