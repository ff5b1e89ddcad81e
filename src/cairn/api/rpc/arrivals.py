"""New pending transactions, for the sockets of a worker that want them: the core tells only while somebody does."""

import asyncio
from collections.abc import Callable, Sequence

from cairn.api.rpc.notifications import ArrivedTxs
from cairn.api.view import ChainView
from cairn.core.gateway import CoreGateway
from cairn.domain.types import Tx

Listener = Callable[[ArrivedTxs], None]


class ArrivalFeed:
    def __init__(self, gateway: CoreGateway, view: ChainView) -> None:
        self._gateway = gateway
        self._view = view
        self._listeners: set[Listener] = set()
        view.on_arrivals(self._arrived)

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def join(self, listener: Listener) -> None:
        if not self._listeners:
            self._gateway.watch_arrivals(True)
        self._listeners.add(listener)

    def leave(self, listener: Listener) -> None:
        """Does nothing for one that has not joined."""
        if listener in self._listeners:
            self._listeners.discard(listener)
            if not self._listeners:
                self._gateway.watch_arrivals(False)

    def _arrived(self, txs: Sequence[Tx]) -> None:
        arrived = ArrivedTxs(txs, self._view.get_info().chain_id)
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            # One socket a turn: with many of them, requests are served in between.
            loop.call_soon(self._tell, listener, arrived)

    def _tell(self, listener: Listener, arrived: ArrivedTxs) -> None:
        # It may have left meanwhile.
        if listener in self._listeners:
            listener(arrived)
