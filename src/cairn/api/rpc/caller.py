"""Who makes the current call: the client, the batch that the call is part of, and the places for large answers."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar

from cairn.api.rpc.values import RESOURCE_UNAVAILABLE, RESPONSE_TOO_LARGE, RpcError
from cairn.api.server.access import RateLimiter, client_of
from cairn.time_shares import never

LARGE_AT_ONCE = 3
"""A block of 10,000 transactions takes 8 MB until it is written out, so that many requests at once, made in turns,
would fill the memory."""
MOST_OF_A_CLIENT = LARGE_AT_ONCE - 1
"""Another client always finds a place, or waits for one behind others than this client only."""


class Caller:
    """The client of a call. Each call counts as a request, so batches and sockets are no way around the rate limit."""

    def __init__(
        self,
        address: str,
        limiter: RateLimiter,
        has_left: Callable[[], bool] = never,
        already_counted: int = 0,
        guest: str | None = None,
    ) -> None:
        """`already_counted`: an HTTP request was counted for its first call."""
        self._address = address
        self._limiter = limiter
        self.has_left = has_left
        """Whether the client has disconnected, as far as the server has noticed it."""
        self._free = already_counted
        self.guest = guest
        """The origin of the page, if it may use neither the keys nor the controls of the node."""

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


class CallBatch:
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
        """Check that the batch may have a further answer. Raises `RpcError`."""
        if self.size_bytes > self._most_bytes:
            raise RpcError(RESPONSE_TOO_LARGE, "response too large")


current_caller: ContextVar[Caller] = ContextVar("current_caller")
"""Set by the dispatcher, for the methods that ask for it."""
current_batch: ContextVar[CallBatch | None] = ContextVar("current_batch", default=None)
"""None for a call that came alone."""


class LargeAnswers:
    """Places for answers of megabytes: a worker makes only few at the same time, and no client takes all places.

    A batch keeps its place until its last call is answered: until then its answers are in memory.
    """

    def __init__(self, kept_by_batches: bool) -> None:
        self._kept_by_batches = kept_by_batches
        self._free = LARGE_AT_ONCE
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By client; the one that was served last comes last."""

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place. Raises `RpcError` if there will be none for this call."""
        caller, batch = current_caller.get(), current_batch.get()
        client = caller.client
        if batch is None or not self._kept_by_batches:
            await self._take(client)
            try:
                self._check_presence()
                yield
            finally:
                self._give_back(client)
            return
        if batch.waits_for_block:
            raise RpcError(RESPONSE_TOO_LARGE, "response too large: this batch has a call that waits for a block")
        # One after the other, so that the batch exceeds its limit by one answer at most.
        async with batch.one_at_a_time:
            if not batch.has_place:
                await self._take(client)
                batch.keep_place(lambda: self._give_back(client))
            self._check_presence()
            batch.check_size()
            yield

    def _check_presence(self) -> None:
        if current_caller.get().has_left():
            raise RpcError(RESOURCE_UNAVAILABLE, "resource unavailable: the client has disconnected")

    async def _take(self, client: str) -> None:
        if self._free and client not in self._waiting and self._held[client] < MOST_OF_A_CLIENT:
            self._hold(client)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            # Otherwise it stays in the queue, and is passed over there.
            if not turn.cancelled():
                self._give_back(client)
            raise

    def _hold(self, client: str) -> None:
        self._free -= 1
        self._held[client] += 1

    def _give_back(self, client: str) -> None:
        self._free += 1
        self._held[client] -= 1
        if not self._held[client]:
            del self._held[client]
        self._serve_next()

    def _serve_next(self) -> None:
        """Give free places to the clients in turn, each time to one with the fewest."""
        while self._free:
            allowed = [client for client in self._waiting if self._held[client] < MOST_OF_A_CLIENT]
            if not allowed:
                return
            client = min(allowed, key=lambda each: self._held[each])
            waiting = self._waiting.pop(client)
            turn = waiting.popleft()
            if waiting:
                self._waiting[client] = waiting
            if not turn.done():
                self._hold(client)
                turn.set_result(None)
