"""Clients in a thread of their own, many at once, for as long as a test does something to the node."""

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self


class Crowd:
    """Its clients run until the block is left, or until one fails. What a client must never see is raised then."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    def clients(self) -> list[Coroutine[Any, Any, None]]:
        """Each goes on for ever."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise what went wrong with a client so far."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as failure:
            self._failure = failure

    async def _live(self) -> None:
        clients = [asyncio.create_task(client) for client in self.clients()]
        while not self._ended.is_set() and not any(client.done() for client in clients):
            await asyncio.sleep(0.05)
        for client in clients:
            client.cancel()
        for result in await asyncio.gather(*clients, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if kind is None:
            self.check()
