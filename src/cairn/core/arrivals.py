"""Announces new pending transactions to listeners. Without a listener it costs nothing."""

import asyncio
from collections.abc import Callable, Sequence

from cairn.domain.types import Tx
from cairn.mempool.pool import Mempool

INTERVAL_S = 0.1
"""How often transactions that came from peers are announced."""

ArrivalListener = Callable[[Sequence[Tx]], None]


class Arrivals:
    """Remembers how many arrivals were announced; the next announcement has those after them."""

    def __init__(self, pool: Mempool, loop: asyncio.AbstractEventLoop) -> None:
        self._pool = pool
        self._loop = loop
        self._next_seq = 0
        self.listeners: list[ArrivalListener] = []
        self._timer: asyncio.TimerHandle | None = None

    def listen(self, listener: ArrivalListener) -> None:
        """Begin to announce to `listener`, if it does not listen yet."""
        if listener in self.listeners:
            return
        self.tell()
        self.listeners.append(listener)
        if self._timer is None:
            self._next_seq = self._pool.next_seq
            self._tick()

    def forget(self, listener: ArrivalListener) -> None:
        if listener in self.listeners:
            self.listeners.remove(listener)
            if not self.listeners:
                self.close()

    def tell(self) -> None:
        """Announce everything that has arrived since the last time."""
        if not self.listeners:
            return
        entries = self._pool.order.entries_since(self._next_seq)
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
