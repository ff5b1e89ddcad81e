"""The subscriptions of one socket: `newHeads`, `newPendingTransactions`, and two that never send anything."""

import secrets

from cairn.api.events.hub import EventHub
from cairn.api.events.subscriber import Connection
from cairn.api.rpc.dispatch import Handler, handler_of
from cairn.api.rpc.errors import LIMIT_EXCEEDED, METHOD_NOT_FOUND, SERVER_ERROR, InvalidParams, RpcError
from cairn.api.rpc.notifications import ArrivedTxs, HeadTexts, notification
from cairn.api.rpc.pending_arrivals import ArrivalFeed
from cairn.api.rpc.values import parse_flag, quantity

MAX_SUBSCRIPTIONS = 64
"""Subscriptions on one socket."""
MAX_PENDING = 4
"""Subscriptions to pending transactions on one socket, so that a few sockets cannot use up a worker's limit."""
SILENT = frozenset({"logs", "syncing"})
"""There are no logs and no syncing, but libraries may subscribe."""


class Subscriptions:
    """Blocks come from the hub's cursor: in order, none skipped, and a slow client reads them from the store.

    Pending transactions are not stored: what arrives while the socket's buffer is full is left out.
    """

    def __init__(
        self, connection: Connection, client: str, hub: EventHub, heads: HeadTexts, arrivals: ArrivalFeed
    ) -> None:
        self._connection = connection
        self._client = client
        self._hub = hub
        self._head_texts = heads
        self._arrivals = arrivals
        self._subscriber = hub.attach(connection, client, self._head_frames)
        self._new: dict[str, tuple[str, bool]] = {}
        """Subscriptions whose ids are not written to the socket yet: kind, and whether with whole transactions."""
        self._heads: set[str] = set()
        """They share the socket's cursor: a later subscription begins where the others are."""
        self._pending: dict[str, bool] = {}
        """Whether each gets whole transactions."""
        self._silent: set[str] = set()

    def methods(self) -> dict[str, Handler]:
        return {"eth_subscribe": handler_of(self.subscribe), "eth_unsubscribe": handler_of(self.unsubscribe)}

    async def subscribe(self, kind: object, full: object = None) -> str:
        if not isinstance(kind, str):
            raise InvalidParams("invalid argument 0: expected the name of a subscription")
        if kind not in SILENT and kind not in ("newHeads", "newPendingTransactions"):
            raise RpcError(METHOD_NOT_FOUND, f'no "{kind[:80]}" subscription in eth namespace')
        is_full = kind == "newPendingTransactions" and parse_flag(full, "full")
        if len(self._new) + len(self._heads) + len(self._pending) + len(self._silent) >= MAX_SUBSCRIPTIONS:
            raise RpcError(LIMIT_EXCEEDED, f"limit exceeded: a socket has at most {MAX_SUBSCRIPTIONS} subscriptions")
        subscription = quantity(secrets.randbits(128))
        if kind == "newPendingTransactions":
            self._reserve_pending(subscription)
        self._new[subscription] = (kind, is_full)
        return subscription

    def _reserve_pending(self, subscription: str) -> None:
        """Reserve the place now, not when it begins: others may ask meanwhile. Raises `RpcError`."""
        unbegun = sum(kind == "newPendingTransactions" for kind, _ in self._new.values())
        if unbegun + len(self._pending) >= MAX_PENDING:
            raise RpcError(LIMIT_EXCEEDED, f"limit exceeded: a socket follows pending transactions {MAX_PENDING} times")
        if not self._arrivals.reserve(subscription, self._client):
            raise RpcError(LIMIT_EXCEEDED, "limit exceeded: too many subscriptions to pending transactions")

    def begin(self) -> None:
        """Start the subscriptions whose ids are written: no event may come before its subscription's id."""
        new, self._new = self._new, {}
        for subscription, (kind, is_full) in new.items():
            if kind == "newHeads":
                self._hub.subscribe_blocks(self._subscriber, None)
                self._heads.add(subscription)
            elif kind == "newPendingTransactions":
                self._pending[subscription] = is_full
                self._arrivals.join(self._tell_pending, self._client)
            else:
                self._silent.add(subscription)

    async def unsubscribe(self, subscription: object) -> bool:
        if not isinstance(subscription, str):
            raise InvalidParams("invalid argument 0: expected the id of a subscription")
        if subscription in self._heads:
            self._heads.remove(subscription)
            if not self._heads:
                self._hub.unsubscribe_blocks(self._subscriber)
        elif self._pending.pop(subscription, None) is not None:
            if not self._pending:
                self._arrivals.leave(self._tell_pending)
        elif subscription in self._silent:
            self._silent.remove(subscription)
        elif self._new.pop(subscription, None) is None:
            raise RpcError(SERVER_ERROR, "subscription not found")
        self._arrivals.release(subscription)
        return True

    def close(self) -> None:
        for subscription in (*self._new, *self._pending):
            self._arrivals.release(subscription)
        self._arrivals.leave(self._tell_pending)
        self._hub.detach(self._subscriber)

    def _head_frames(self, height: int) -> bytes:
        text = self._head_texts.text(height)
        return b"".join(notification(subscription, text) for subscription in self._heads)

    def _tell_pending(self, arrived: ArrivedTxs) -> None:
        for subscription, is_full in self._pending.items():
            if not self._connection.paused:
                frames = arrived.full_frames(subscription) if is_full else arrived.hash_frames(subscription)
                self._connection.write(frames)
