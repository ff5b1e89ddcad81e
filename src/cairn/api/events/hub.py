"""The event hub of a worker: one cursor per socket over the committed blocks, so that live and replay are one path.

Nothing is queued per client. A socket remembers the next height that it needs; what it misses while its buffer is full
is read from the store once its client reads again. Frames are encoded once, and the same bytes go to every socket
without waiting.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Protocol, TypeVar

import structlog
from websockets.frames import CloseCode

from cairn.api.bodies import Form, as_integers
from cairn.api.events.messages import encode_frame
from cairn.api.events.payment_search import PaymentSource
from cairn.api.events.payments import FollowedPayments
from cairn.api.events.subscribers import Connection, FollowedTxs, PaymentCursor, Subscriber
from cairn.config import Settings
from cairn.domain.answers import Confirmed, Dropped, NewBlock
from cairn.domain.errors import BlockNotKept, Fatal, ShuttingDown, Starting, Unavailable
from cairn.domain.types import Address, BlockHash, DropReason, Phase, TxHash
from cairn.time_shares import SLICE_S, TimeShares

CHUNK_FRAMES = 64
"""Events that one socket gets in one write, before another is served. It gets fewer when its slice of time is over."""
CACHED_BLOCKS = 1_024
RETRY_S = 1.0
NOT_IN_A_BLOCK = -1
"""Sorts a dropped transaction before every height: its event is sent at once, wherever the cursor is."""
CHAIN_REVERTED = 4205
"""Close code after a revert. No standard code says that the client must forget blocks."""

_T = TypeVar("_T")
log = structlog.get_logger("cairn.events")


class BlockSource(PaymentSource, Protocol):
    """The committed chain as this worker sees it."""

    @property
    def height(self) -> int:
        """The newest visible height; -1 until the store is open."""

    @property
    def base(self) -> int:
        """The oldest height that can still be read."""

    def block_hash(self, height: int) -> BlockHash: ...

    def find_location(self, tx_hash: TxHash) -> tuple[int, int] | None:
        """Height and position of a confirmed transaction."""

    def fail(self, failure: Fatal) -> None:
        """The store is damaged: the worker must end."""


class EventHub:
    """Everything runs in callbacks of one event loop, and no callback awaits, so no event can come in between."""

    def __init__(self, source: BlockSource, settings: Settings, shares: TimeShares | None = None) -> None:
        self._source = source
        self.shares = shares or TimeShares()
        """Of this worker; every socket's events take turns with all other work."""
        self._followed = FollowedTxs(settings.ws_max_followed)
        self._payments = FollowedPayments(source, settings.ws_max_addresses, self.shares)
        self._subscribers: set[Subscriber] = set()
        self._height = -1
        """The height that the sockets have been served up to; it follows `_committed` block by block."""
        self._newest: tuple[int, dict[Callable[[int], bytes], bytes]] = (-1, {})
        """The block that was announced last, and what sockets are told of it, by what has read that."""
        self._committed = -1
        self._queues: dict[str, deque[Subscriber]] = {}
        """Sockets with something to write, by client. They share its turns: one for each would take longer."""
        self._stuck: list[Subscriber] = []
        """Those that wait until the store can be read again."""
        self._is_retry_due = False
        self._has_failed = False
        self._block_frame = lru_cache(CACHED_BLOCKS)(self._encode_block)
        """The newBlock frames of the newest blocks, encoded once for all sockets."""
        self._step_due = False
        self._ask: Callable[[TxHash], None] = lambda tx_hash: None
        self._is_closing = False

    def _encode_block(self, height: int) -> bytes:
        return encode_frame(NewBlock(height, "0x" + self._source.block_hash(height).hex()))

    # The clients' side.

    def check_open(self) -> None:
        """Check that sockets can be served now. Raises `Unavailable`."""
        if self._is_closing:
            raise ShuttingDown("the node is stopping")
        if self._source.height < 0:
            raise Starting("the store is not open yet")

    def attach(
        self,
        connection: Connection,
        client: str = "",
        block_text: Callable[[int], bytes] | None = None,
        enclose: Callable[[bytes], bytes] | None = None,
        form: Form = as_integers,
    ) -> Subscriber:
        """`client` is for the limits of what is followed, which all clients share. `form` is that of amounts.

        `block_text` reads what is told of a block from its height, and `enclose` makes the socket's frame of it. By
        default it is a frame that all share: `newBlock`.
        """
        if not self._subscribers:
            # Without sockets there was nothing to send.
            self._height = self._committed = max(self._committed, self._source.height)
        subscriber = Subscriber(connection, client, block_text or self._block_frame, enclose, form)
        self._subscribers.add(subscriber)
        connection.on_resume(lambda: self._enqueue(subscriber))
        return subscriber

    def detach(self, subscriber: Subscriber) -> None:
        self._subscribers.discard(subscriber)
        self._followed.remove_all(subscriber)
        self._end_payments(subscriber)
        # It may still be in the queue; then it must be skipped.
        subscriber.next_height = None
        subscriber.replies.clear()

    def reply(self, subscriber: Subscriber, frame: bytes) -> None:
        """Answer a request, before any event that results from it."""
        subscriber.replies.append(frame)
        self._enqueue(subscriber)

    def subscribe_blocks(self, subscriber: Subscriber, from_height: int | None) -> int:
        """Start or move the cursor; without a height a running one stays where it is. Returns its height.

        Raises `BlockNotKept` if this node does not keep all blocks from there on.
        """
        self._check_kept(from_height)
        if from_height is not None:
            subscriber.next_height = from_height
        elif subscriber.next_height is None:
            subscriber.next_height = self._height + 1
        self._enqueue(subscriber)
        return subscriber.next_height

    def _check_kept(self, height: int | None) -> None:
        if height is not None and height < self._source.base:
            raise BlockNotKept(
                f"block {height} is not kept by this node; events can be had from {self._source.base} on"
            )

    def unsubscribe_blocks(self, subscriber: Subscriber) -> None:
        subscriber.next_height = None
        self._enqueue(subscriber)

    def follow(self, subscriber: Subscriber, tx_hash: TxHash) -> None:
        """Follow a transaction. If it is already confirmed, its event is sent at once. Raises `FollowLimit`."""
        if tx_hash in subscriber.followed:
            return
        location = self._source.find_location(tx_hash)
        # The store may already have a block that the sockets have not got yet: the event then comes with its block.
        has_ended = location is not None and location[0] <= self._height
        self._followed.add(subscriber, tx_hash, has_ended)
        if location is None:
            self._ask(tx_hash)
        elif has_ended:
            self._settle(subscriber, *location, tx_hash, encode_confirmed(tx_hash, location[0]))

    def unfollow(self, subscriber: Subscriber, tx_hash: TxHash) -> None:
        """Stop following it; events that are due are discarded."""
        self._followed.remove(subscriber, tx_hash)

    def follow_addresses(self, subscriber: Subscriber, addresses: Sequence[Address], from_height: int | None) -> int:
        """Follow addresses beside those that are followed already. With a height, the payments of all continue there.

        Returns the height from which the payments of these come. Raises `FollowLimit`, or `BlockNotKept` if this node
        does not keep all blocks from there on.
        """
        self._check_kept(from_height)
        cursor = subscriber.payments or PaymentCursor(subscriber, self._height + 1)
        first = self._payments.follow(cursor, addresses, from_height, self._height)
        subscriber.payments = cursor
        self._enqueue(subscriber)
        return first

    def unfollow_addresses(self, subscriber: Subscriber, addresses: Sequence[Address] | None) -> None:
        """Stop following these addresses, or all."""
        if subscriber.payments is not None and addresses is not None:
            self._payments.unfollow(subscriber.payments, addresses)
        if addresses is None or not subscriber.payments:
            self._end_payments(subscriber)
        self._enqueue(subscriber)

    def _end_payments(self, subscriber: Subscriber) -> None:
        cursor, subscriber.payments = subscriber.payments, None
        if cursor is not None:
            self._payments.end(cursor)

    def is_followed(self, tx_hash: TxHash) -> bool:
        return tx_hash in self._followed

    def on_unsure(self, listener: Callable[[TxHash], None]) -> None:
        """`listener` is called for every followed transaction that the store does not have; only the core knows it."""
        self._ask = listener

    # The core's side.

    def on_commit(self, height: int) -> None:
        """The worker's store shows the block at `height`, and all before it."""
        self._committed = max(self._committed, height)
        self._schedule_step()

    def on_dropped(self, tx_hash: TxHash, reason: DropReason) -> None:
        if tx_hash in self._followed:
            frame = encode_frame(Dropped("0x" + tx_hash.hex(), reason))
            for subscriber in self._followed.end(tx_hash):
                self._settle(subscriber, NOT_IN_A_BLOCK, 0, tx_hash, frame)

    def on_phase(self, phase: Phase, reason: str) -> None:
        """After a restart of the core, ask again: transactions may have been dropped meanwhile."""
        if phase == "ready":
            for tx_hash in self._followed:
                self._ask(tx_hash)

    def on_reverted(self, height: int) -> None:
        """Close every socket of /events: its client may have got blocks that are void now.

        Sockets of JSON-RPC stay open: wallets and libraries expect new blocks at known heights.
        """
        self._height = self._committed = height
        self._newest = (-1, {})
        self._block_frame.cache_clear()
        self._payments.forget(height)
        for subscriber in self._subscribers:
            if subscriber.enclose is None:
                subscriber.connection.close(CHAIN_REVERTED, f"the chain was reverted to block {height}")
            elif subscriber.next_height is not None:
                subscriber.next_height = min(subscriber.next_height, height + 1)

    def fail(self, failure: Fatal) -> None:
        self._source.fail(failure)

    def close_all(self, code: int) -> None:
        """Close every socket, and accept no new ones."""
        self._is_closing = True
        for subscriber in self._subscribers:
            subscriber.connection.close(code, "the node is stopping")

    # The writing: in steps, each bounded, so that requests are served in between.

    def _settle(self, subscriber: Subscriber, height: int, position: int, tx_hash: TxHash, frame: bytes) -> None:
        heapq.heappush(subscriber.due, (height, position, tx_hash, frame))
        self._enqueue(subscriber)

    def _enqueue(self, subscriber: Subscriber) -> None:
        if not subscriber.is_queued:
            subscriber.is_queued = True
            queue = self._queues.get(subscriber.client)
            if queue is None:
                self._queues[subscriber.client] = deque((subscriber,))
                self._await_turn(subscriber.client)
            else:
                queue.append(subscriber)

    def _await_turn(self, client: str) -> None:
        self.shares.call(client, partial(self._serve_client, client))

    def _serve_client(self, client: str) -> None:
        """Write to the sockets of a client, to as many as its turn is long enough for."""
        queue = self._queues[client]
        try:
            while queue:
                self._serve(queue.popleft())
                if self.shares.is_slice_over:
                    break
        finally:
            if queue:
                self._await_turn(client)
            else:
                del self._queues[client]

    def _schedule_step(self) -> None:
        if not self._step_due:
            self._step_due = True
            asyncio.get_running_loop().call_soon(self._step)

    def _step(self) -> None:
        self._step_due = False
        if self._height < self._committed and self._attempt(self._advance):
            self._schedule_step()

    def _attempt(self, reading: Callable[[], _T]) -> _T | None:
        """Do what reads the store. None if that must wait until it can be read again; what failed is then retried."""
        if self._has_failed:
            # Nothing more is sent from a damaged store.
            return None
        try:
            return self._read(reading)
        except Fatal as failure:
            self._has_failed = True
            self.fail(failure)
        except (Unavailable, BlockNotKept) as unavailable:
            # Nothing is lost: every cursor is still before what could not be read.
            if not self._is_retry_due:
                log.warning("the store cannot be read, events wait", reason=unavailable.detail)
                self._is_retry_due = True
                asyncio.get_running_loop().call_later(RETRY_S, self._retry)
        return None

    def _read(self, reading: Callable[[], _T]) -> _T:
        try:
            return reading()
        except BlockNotKept:
            # To read it this worker has caught up, and found that it was removed. The base is another one now.
            return reading()

    def _wait_for_store(self, subscriber: Subscriber) -> None:
        if not self._has_failed:
            self._stuck.append(subscriber)

    def _retry(self) -> None:
        self._is_retry_due = False
        stuck, self._stuck = self._stuck, []
        for subscriber in stuck:
            self._enqueue(subscriber)
        self._schedule_step()

    def _advance(self) -> bool:
        """Announce the next block. Returns whether there are more."""
        if not self._subscribers:
            self._height = self._committed
            return False
        base = self._source.base
        if self._height + 1 < base:
            # All blocks up to the sockets' height are gone: continue at the oldest.
            for subscriber in self._subscribers:
                if subscriber.payments is not None:
                    subscriber.payments.place = subscriber.payments.place or (self._height + 1, 0)
                self._enqueue(subscriber)
            self._height = base - 1
        # Read first, change afterwards: a failed read must change nothing.
        height = self._height + 1
        frame = self._block_frame(height)
        if self._payments.followers and not self._match_payments(height):
            return True
        if self._followed and not self._end_followed(height):
            # The rest in the next step. Who follows one of them meanwhile is found there.
            return True
        self._height, self._newest = height, (height, {self._block_frame: frame})
        for subscriber in self._subscribers:
            if subscriber.next_height == height:
                self._enqueue(subscriber)
        if self._payments.followers:
            for cursor in self._payments.wake(height):
                self._enqueue(cursor.subscriber)
        return height < self._committed

    def _match_payments(self, height: int) -> bool:
        """Find the payments of followed addresses in the block. False if the slice was too short for all."""
        ends_at = self.shares.clock() + SLICE_S
        return self._payments.match(height, lambda: self.shares.clock() > ends_at)

    def _end_followed(self, height: int) -> bool:
        """Make the events of the block's followed transactions. False if the slice was too short for all."""
        ends_at = self.shares.clock() + SLICE_S
        for position, tx_hash in self._followed.find_in(self._source.tx_hashes(height)):
            if self.shares.clock() > ends_at:
                return False
            confirmed = encode_confirmed(tx_hash, height)
            for subscriber in self._followed.end(tx_hash):
                self._settle(subscriber, height, position, tx_hash, confirmed)
        return True

    def _serve(self, subscriber: Subscriber) -> None:
        """Write the next events of a socket."""
        subscriber.is_queued = False
        if subscriber.connection.paused:
            # It comes back when it resumes.
            return
        height, texts = self._newest
        if subscriber.next_height == height == self._height and subscriber.waits_for_nothing_else:
            # Thousands of sockets wait for the newest block and for nothing else: nothing is looked up for them.
            text = texts.get(subscriber.block_text) or self._attempt(partial(self._read_newest, subscriber.block_text))
            if text is None:
                self._wait_for_store(subscriber)
                return
            subscriber.next_height = height + 1
            subscriber.connection.write(subscriber.block_frame(text))
            return
        frames, subscriber.replies = subscriber.replies, []
        has_more = self._attempt(partial(self._collect, subscriber, frames))
        if has_more is None:
            self._wait_for_store(subscriber)
        if frames:
            subscriber.connection.write(frames[0] if len(frames) == 1 else b"".join(frames))
        if has_more:
            self._enqueue(subscriber)

    def _read_newest(self, block_text: Callable[[int], bytes]) -> bytes:
        """Read what sockets of one kind are told of the newest block, once for all of them."""
        height, texts = self._newest
        text = texts[block_text] = block_text(height)
        return text

    def _collect(self, subscriber: Subscriber, frames: list[bytes]) -> bool:
        """Append the next events of the socket, at most a chunk. Returns whether there are more.

        All events are in the order of heights. Of one block, newBlock comes first, then txConfirmed, then payment.
        """
        due = subscriber.due
        most = len(frames) + CHUNK_FRAMES
        while len(frames) < most:
            if frames and self.shares.is_slice_over:
                return True
            block, cursor = subscriber.next_height, subscriber.payments
            payment = cursor.place[0] if cursor is not None and cursor.place is not None else None
            lowest = block if payment is None else payment if block is None else min(block, payment)
            if due and (block is None or due[0][0] < block) and (payment is None or due[0][0] <= payment):
                _, _, tx_hash, frame = heapq.heappop(due)
                self._followed.release(subscriber, tx_hash)
                frames.append(frame)
            elif lowest is None:
                return False
            elif lowest < self._source.base:
                if not frames:
                    self._refuse_pruned(subscriber, lowest)
                # What was collected is written first.
                return bool(frames)
            elif lowest > self._height:
                return False
            elif lowest == block:
                frames.append(subscriber.block_frame(subscriber.block_text(block)))
                subscriber.next_height = block + 1
            elif cursor is not None and not self._collect_payment(cursor, frames):
                return True
        return True

    def _collect_payment(self, cursor: PaymentCursor, frames: list[bytes]) -> bool:
        """Append the payment at the socket's place, or move it to the next. False if the slice was over first."""
        if cursor.ahead is not None:
            frames.append(cursor.take().frame(cursor.subscriber.form))
            return True
        while not self._payments.look(cursor, self._height):
            if self.shares.is_slice_over:
                return False
        return True

    def _refuse_pruned(self, subscriber: Subscriber, height: int) -> None:
        """It must get every block from its height on, so it must not continue with later ones."""
        subscriber.next_height = None
        self._end_payments(subscriber)
        subscriber.connection.close(
            CloseCode.TRY_AGAIN_LATER, f"block {height} is not kept: the oldest is {self._source.base}"
        )


def encode_confirmed(tx_hash: TxHash, height: int) -> bytes:
    return encode_frame(Confirmed("0x" + tx_hash.hex(), height))
