"""Answers of megabytes: a worker makes only few at the same time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cairn.api.rpc.caller import current_caller
from cairn.api.rpc.errors import RESOURCE_UNAVAILABLE, RpcError

LARGE_AT_ONCE = 2
"""A block of 10,000 transactions takes 17 MB until it is written out, so that many requests at once, made in turns,
would fill the memory."""


class LargeAnswers:
    def __init__(self) -> None:
        self._places = asyncio.Semaphore(LARGE_AT_ONCE)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place. Raises `RpcError` if the client has gone by then: others still wait."""
        async with self._places:
            if await current_caller.get().is_gone():
                raise RpcError(RESOURCE_UNAVAILABLE, "resource unavailable: the client has disconnected")
            yield
