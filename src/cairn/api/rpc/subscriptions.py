"""Subscriptions of JSON-RPC sockets: `newHeads`, `newPendingTransactions`, and two that never send anything.

Frames are encoded once for all sockets where possible.
"""

import secrets
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

import msgspec

from cairn.api.chain_view import ChainView
from cairn.api.events.hub import EventHub
from cairn.api.events.messages import text_frame, text_frame_head
from cairn.api.events.subscribers import Connection
from cairn.api.rpc.dispatch import rpc_method
from cairn.api.rpc.objects import head_object, transaction_object
from cairn.api.rpc.values import (
    LIMIT_EXCEEDED,
    METHOD_NOT_FOUND,
    SERVER_ERROR,
    InvalidParams,
    RpcError,
    parse_flag,
    quantity,
)
from cairn.api.server.client_budgets import ClientBudget
from cairn.core.gateway import CoreGateway
from cairn.domain.types import BlockHash, Tx
from cairn.time_shares import TimeShares

CACHED_HEADS = 128
UNCOPIED_BYTES = 2**16
"""From here on, a frame is written in two parts."""
AT_ONCE = 64
"""Transactions that a socket gets in one write, before its client's turn may end."""
MAX_WAITING = 128
"""Writes that a socket may be behind. What arrives then is left out, as while its buffer is full."""
MAX_PLACES = 256
"""Subscriptions on all sockets of a worker, shared by its clients: each gets a frame for every transaction."""
MAX_SUBSCRIPTIONS = 64
"""Subscriptions on one socket."""
MAX_PENDING = 4
"""Subscriptions to pending transactions on one socket, so that a few sockets cannot use up a worker's limit."""
HEADS, PENDING = "newHeads", "newPendingTransactions"
KINDS = frozenset({HEADS, PENDING, "logs", "syncing"})
"""There are no logs and no syncing, but libraries may subscribe."""

_encode = msgspec.json.Encoder().encode
_frame_head = lru_cache(CACHED_HEADS)(text_frame_head)
_NO_HASH = b"0x" + b"0" * 64
_BEFORE_NAME = b'{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"'
_BEFORE_RESULT = b'","result":'
_BEHIND = b"}}"


def text_frame_parts(payload: bytes) -> tuple[bytes, ...]:
    """The frame of `text_frame`, in parts that need no copy of a long payload."""
    if len(payload) < UNCOPIED_BYTES:
        return (text_frame(payload),)
    return text_frame_head(len(payload)), payload


def notification_start(subscription: str) -> bytes:
    """What is before the result in each message of a subscription."""
    return b"%b%b%b" % (_BEFORE_NAME, subscription.encode(), _BEFORE_RESULT)


def notification(start: bytes, ending: bytes) -> bytes:
    """`ending` is the result and what follows it."""
    # By +, the fastest for so few parts: thousands of sockets get the same ending, each with its own start.
    return _frame_head(len(start) + len(ending)) + start + ending


class HeadTexts:
    """A cache of what ends the messages about the latest blocks: many sockets get them at about the same time."""

    def __init__(self, view: ChainView) -> None:
        self._view = view
        self._text = lru_cache(CACHED_HEADS)(self._encode)

    def text(self, height: int) -> bytes:
        """The header in JSON, and what follows it in each message."""
        # With the hash: after a revert there is another block at the same height.
        return self._text(height, self._view.block_hash(height))

    def _encode(self, height: int, block_hash: BlockHash) -> bytes:
        return _encode(head_object(*self._view.get_header(height))) + _BEHIND


class ArrivedTxs:
    """Transactions that arrived in the mempool together."""

    def __init__(self, txs: Sequence[Tx], chain_id: int) -> None:
        self._txs = txs
        self._chain_id = chain_id
        self._objects: list[bytes] | None = None

    def full_frames(self, subscription: str) -> bytes:
        if self._objects is None:
            self._objects = [_encode(transaction_object(tx, self._chain_id, None)) + _BEHIND for tx in self._txs]
        start = notification_start(subscription)
        return b"".join(notification(start, text) for text in self._objects)

    def hash_frames(self, subscription: str) -> bytes:
        # The frames of one subscription differ only in the hash, so a thousand cost one join.
        before, after = notification(notification_start(subscription), b'"%b"%b' % (_NO_HASH, _BEHIND)).split(_NO_HASH)
        return b"".join(b"%b0x%b%b" % (before, tx.hash.hex().encode(), after) for tx in self._txs)


Listener = Callable[[ArrivedTxs], None]


@dataclass(slots=True)
class _Follower:
    client: str
    waiting: deque[ArrivedTxs] = field(default_factory=deque)
    """What it gets in its client's next turns."""


class ArrivalFeed:
    """New pending transactions, for the sockets that subscribed. Without any, the core does not announce them."""

    def __init__(self, gateway: CoreGateway, view: ChainView, turns: TimeShares) -> None:
        """`turns` are those of the worker: every socket's transactions take turns with all other work."""
        self._gateway = gateway
        self._view = view
        self._turns = turns
        self._followers: dict[Listener, _Follower] = {}
        self.places = ClientBudget(MAX_PLACES)
        """For subscriptions, on the sockets of all clients."""
        view.on_arrivals(self._arrived)

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


@dataclass(slots=True)
class _Subscription:
    kind: str
    is_full: bool
    """Whether it gets whole transactions."""
    has_begun: bool = False
    """Its id is written to the socket."""


class Subscriptions:
    """What one socket has subscribed to.

    Blocks come from the hub's cursor: in order, none skipped, and a slow client reads them from the store.

    Pending transactions are not stored: what arrives while the socket's buffer is full is left out.
    """

    def __init__(
        self, connection: Connection, client: str, hub: EventHub, heads: HeadTexts, arrivals: ArrivalFeed
    ) -> None:
        self._connection = connection
        self._client = client
        self._hub = hub
        self._arrivals = arrivals
        self._subscriber = hub.attach(connection, client, heads.text, self._head_frames)
        self._subscriptions: dict[str, _Subscription] = {}
        self._heads: list[bytes] = []
        """How the messages begin of those to blocks that have begun."""

    @rpc_method("eth_subscribe")
    async def subscribe(self, kind: object, full: object = None) -> str:
        if not isinstance(kind, str):
            raise InvalidParams("invalid argument 0: expected the name of a subscription")
        if kind not in KINDS:
            raise RpcError(METHOD_NOT_FOUND, f'no "{kind[:80]}" subscription in eth namespace')
        is_full = kind == PENDING and parse_flag(full, "full")
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            raise RpcError(LIMIT_EXCEEDED, f"limit exceeded: a socket has at most {MAX_SUBSCRIPTIONS} subscriptions")
        if kind == PENDING:
            self._take_place()
        subscription = quantity(secrets.randbits(128))
        self._subscriptions[subscription] = _Subscription(kind, is_full)
        return subscription

    def _take_place(self) -> None:
        """Take the place now, not when it begins: others may ask meanwhile. Raises `RpcError`."""
        if sum(each.kind == PENDING for each in self._subscriptions.values()) >= MAX_PENDING:
            raise RpcError(LIMIT_EXCEEDED, f"limit exceeded: a socket follows pending transactions {MAX_PENDING} times")
        if not self._arrivals.places.take(self._client):
            raise RpcError(LIMIT_EXCEEDED, "limit exceeded: too many subscriptions to pending transactions")

    def begin(self) -> None:
        """Start the subscriptions whose ids are written: no event may come before its subscription's id."""
        for each in self._subscriptions.values():
            if not each.has_begun:
                each.has_begun = True
                if each.kind == HEADS:
                    self._heads = [notification_start(name) for name, _ in self._begun(HEADS)]
                    # They share the socket's cursor: a later subscription begins where the others are.
                    self._hub.subscribe_blocks(self._subscriber, None)
                elif each.kind == PENDING:
                    self._arrivals.join(self._tell_pending, self._client)

    def _begun(self, kind: str) -> list[tuple[str, _Subscription]]:
        return [(name, each) for name, each in self._subscriptions.items() if each.kind == kind and each.has_begun]

    @rpc_method("eth_unsubscribe")
    async def unsubscribe(self, subscription: object) -> bool:
        if not isinstance(subscription, str):
            raise InvalidParams("invalid argument 0: expected the id of a subscription")
        ended = self._subscriptions.pop(subscription, None)
        if ended is None:
            raise RpcError(SERVER_ERROR, "subscription not found")
        if ended.kind == PENDING:
            self._arrivals.places.give_back(self._client)
        self._heads = [notification_start(name) for name, _ in self._begun(HEADS)]
        if not self._begun(ended.kind):
            if ended.kind == HEADS:
                self._hub.unsubscribe_blocks(self._subscriber)
            elif ended.kind == PENDING:
                self._arrivals.leave(self._tell_pending)
        return True

    def close(self) -> None:
        taken = sum(each.kind == PENDING for each in self._subscriptions.values())
        self._arrivals.places.give_back(self._client, taken)
        self._arrivals.leave(self._tell_pending)
        self._hub.detach(self._subscriber)

    def _head_frames(self, text: bytes) -> bytes:
        if len(self._heads) == 1:
            return notification(self._heads[0], text)
        return b"".join([notification(start, text) for start in self._heads])

    def _tell_pending(self, arrived: ArrivedTxs) -> None:
        for name, each in self._begun(PENDING):
            if not self._connection.paused:
                self._connection.write(arrived.full_frames(name) if each.is_full else arrived.hash_frames(name))
