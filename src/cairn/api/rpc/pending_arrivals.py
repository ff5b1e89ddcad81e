"""New pending transactions, for the sockets that subscribed. Without any, the core does not announce them."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from cairn.api.chain_view import ChainView
from cairn.api.rpc.notifications import ArrivedTxs
from cairn.api.server.client_shares import Shares
from cairn.core.gateway import CoreGateway
from cairn.domain.types import Tx
from cairn.time_shares import TimeShares

AT_ONCE = 64
"""Transactions that a socket gets in one write, before its client's turn may end."""
MAX_WAITING = 128
"""Writes that a socket may be behind. What arrives then is left out, as while its buffer is full."""
MAX_PLACES = 256
"""Subscriptions on all sockets of a worker, shared by its clients: each gets a frame for every transaction."""

Listener = Callable[[ArrivedTxs], None]


@dataclass(slots=True)
class _Follower:
    client: str
    waiting: deque[ArrivedTxs] = field(default_factory=deque)
    """What it gets in its client's next turns."""


class ArrivalFeed:
    def __init__(self, gateway: CoreGateway, view: ChainView, turns: TimeShares) -> None:
        """`turns` are those of the worker: every socket's transactions take turns with all other work."""
        self._gateway = gateway
        self._view = view
        self._turns = turns
        self._followers: dict[Listener, _Follower] = {}
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

    def join(self, listener: Listener, client: str) -> None:
        """Does nothing for one that has joined."""
        if not self._followers:
            self._gateway.watch_arrivals(True)
        self._followers.setdefault(listener, _Follower(client))

    def leave(self, listener: Listener) -> None:
        """Does nothing for one that has not joined."""
        follower = self._followers.pop(listener, None)
        if follower is not None:
            # Its turn may still come: then there is nothing to do.
            follower.waiting.clear()
            if not self._followers:
                self._gateway.watch_arrivals(False)

    def _arrived(self, txs: Sequence[Tx]) -> None:
        chain_id = self._view.get_info().chain_id
        for start in range(0, len(txs), AT_ONCE):
            arrived = ArrivedTxs(txs[start : start + AT_ONCE], chain_id)
            for listener, follower in self._followers.items():
                if len(follower.waiting) < MAX_WAITING:
                    follower.waiting.append(arrived)
                    if len(follower.waiting) == 1:
                        self._await_turn(listener, follower)

    def _await_turn(self, listener: Listener, follower: _Follower) -> None:
        self._turns.call(follower.client, partial(self._tell, listener, follower))

    def _tell(self, listener: Listener, follower: _Follower) -> None:
        """Write what waits for a socket, as much as its client's turn is long enough for."""
        try:
            while follower.waiting:
                listener(follower.waiting.popleft())
                if self._turns.is_slice_over:
                    break
        finally:
            if follower.waiting:
                self._await_turn(listener, follower)
