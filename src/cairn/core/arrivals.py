"""New pending transactions, told while somebody wants to know of them; at all other times they cost nothing."""

import asyncio
from collections.abc import Callable, Sequence

from cairn.domain.types import Tx
from cairn.mempool.pool import Mempool

INTERVAL_S = 0.1
"""How soon those are told that come in without being submitted here: from peers."""

ArrivalListener = Callable[[Sequence[Tx]], None]


class Arrivals:
    """A place in the order in which transactions come into the mempool; what comes after it is told."""

    def __init__(self, pool: Mempool, loop: asyncio.AbstractEventLoop) -> None:
        self._pool = pool
        self._loop = loop
        self._next_seq = 0
        self.listeners: list[ArrivalListener] = []
        self._timer: asyncio.TimerHandle | None = None

    def listen(self, listener: ArrivalListener) -> None:
        """From now on. A listener that listens already goes on doing so."""
        if listener in self.listeners:
            return
        self.tell()
        self.listeners.append(listener)
        if self._timer is None:
            self._pool.list_noted()
            self._next_seq = self._pool.next_seq
            self._tick()

    def forget(self, listener: ArrivalListener) -> None:
        if listener in self.listeners:
            self.listeners.remove(listener)
            if not self.listeners:
                self.close()

    def tell(self) -> None:
        """Tell of all that came in since the last time."""
        if not self.listeners:
            return
        self._pool.list_noted()
        entries = self._pool.listed.entries_since(self._next_seq)
        self._next_seq = self._pool.next_seq
        if entries:
            txs = [entry.tx for entry in reversed(entries)]
            for listener in self.listeners:
                listener(txs)

    def close(self) -> None:
        self.listeners.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self.tell()
        self._timer = self._loop.call_later(INTERVAL_S, self._tick)
