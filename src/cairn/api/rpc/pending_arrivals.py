"""New pending transactions, for the sockets that subscribed. Without any, the core does not announce them."""

import asyncio
from collections.abc import Callable, Sequence

from cairn.api.chain_view import ChainView
from cairn.api.rpc.notifications import ArrivedTxs
from cairn.api.server.client_shares import Shares
from cairn.core.gateway import CoreGateway
from cairn.domain.types import Tx

AT_ONCE = 128
"""Transactions that a socket gets in one write, before it is checked whether its buffer is full."""
MAX_PLACES = 256
"""Subscriptions on all sockets of a worker, shared by its clients: each gets a frame for every transaction."""

Listener = Callable[[ArrivedTxs], None]


class ArrivalFeed:
    def __init__(self, gateway: CoreGateway, view: ChainView) -> None:
        self._gateway = gateway
        self._view = view
        self._listeners: set[Listener] = set()
        self._places: dict[str, str] = {}
        """The client of each subscription."""
        self._shares = Shares(MAX_PLACES)
        view.on_arrivals(self._arrived)

    def reserve(self, subscription: str, client: str) -> bool:
        """Reserve a place for a subscription, until it is released. False if there is none for the client."""
        if not self._shares.take(client):
            return False
        self._places[subscription] = client
        return True

    def release(self, subscription: str) -> None:
        """Does nothing for one that has no place."""
        client = self._places.pop(subscription, None)
        if client is not None:
            self._shares.give_back(client)

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
        loop, chain_id = asyncio.get_running_loop(), self._view.get_info().chain_id
        for start in range(0, len(txs), AT_ONCE):
            arrived = ArrivedTxs(txs[start : start + AT_ONCE], chain_id)
            for listener in self._listeners:
                # One callback for each, so that with many sockets requests are served in between.
                loop.call_soon(self._tell, listener, arrived)

    def _tell(self, listener: Listener, arrived: ArrivedTxs) -> None:
        # It may have left meanwhile.
        if listener in self._listeners:
            listener(arrived)
