"""New pending transactions, told while somebody wants to know of them; at all other times they cost nothing."""

import asyncio
from collections.abc import Callable, Sequence

from cairn.domain.types import Tx
from cairn.mempool.pool import Mempool

INTERVAL_S = 0.1
"""How soon those are told that come in without being submitted here: from peers."""

ArrivalListener = Callable[[Sequence[Tx]], None]


class Arrivals:
    """A place in the order in which transactions came into the mempool; what comes after it is told."""

    def __init__(self, pool: Mempool, loop: asyncio.AbstractEventLoop) -> None:
        self._pool = pool
        self._loop = loop
        self._next_seq: int | None = None
        """None while nobody wants to know."""
        self._timer: asyncio.TimerHandle | None = None
        self.listener: ArrivalListener = lambda txs: None

    def watch(self, on: bool) -> None:
        self.close()
        if on:
            self._next_seq = self._pool.next_seq
            self._tick()

    def tell(self) -> None:
        """Tell of all that came in since the last time."""
        if self._next_seq is None:
            return
        entries = self._pool.entries_since(self._next_seq)
        self._next_seq = self._pool.next_seq
        if entries:
            self.listener([entry.tx for entry in reversed(entries)])

    def close(self) -> None:
        self._next_seq = None
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        self.tell()
        self._timer = self._loop.call_later(INTERVAL_S, self._tick)
