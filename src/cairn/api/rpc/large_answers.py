"""Answers of megabytes: a worker makes only few at the same time, and no client takes all places."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cairn.api.rpc.caller import current_batch, current_caller
from cairn.api.rpc.errors import RESOURCE_UNAVAILABLE, RESPONSE_TOO_LARGE, RpcError

LARGE_AT_ONCE = 3
"""A block of 10,000 transactions takes 8 MB until it is written out, so that many requests at once, made in turns,
would fill the memory."""
MOST_OF_A_CLIENT = LARGE_AT_ONCE - 1
"""Another client always finds a place, or waits for one behind others than this client only."""


class LargeAnswers:
    """Places for them. A batch keeps its place until its last call is answered: so long its answers are in memory."""

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
