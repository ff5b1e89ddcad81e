"""The clients of the event hub: what each socket has subscribed to, and which sockets follow which transactions."""

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from cairn.api.bodies import Form, as_integers
from cairn.api.events.payment_search import FoundPayment, Step
from cairn.api.server.client_budgets import ClientBudget
from cairn.domain.errors import FollowLimit
from cairn.domain.types import Address, TxHash
from cairn.store.keys import Location, split_hashes

MAX_FOLLOWED = 100_000
"""Transactions that all sockets of a worker follow, shared by its clients: as many as a mempool holds."""


class Connection(Protocol):
    """One client's socket. Writing never blocks; a write to a closed one does nothing."""

    @property
    def paused(self) -> bool:
        """Its buffer is full, or it is closing: write nothing more until it resumes."""

    def on_resume(self, listener: Callable[[], None]) -> None: ...

    def write(self, data: bytes) -> None: ...

    def close(self, code: int, reason: str) -> None: ...


class Subscriber:
    """One socket's next height, and the transactions and addresses that it follows."""

    __slots__ = (
        "block_text", "client", "connection", "due", "enclose", "followed", "form", "is_queued", "next_height",
        "payments", "replies",
    )  # fmt: skip

    def __init__(
        self,
        connection: Connection,
        client: str,
        block_text: Callable[[int], bytes],
        enclose: Callable[[bytes], bytes] | None = None,
        form: Form = as_integers,
    ) -> None:
        self.connection = connection
        self.client = client
        self.form = form
        """How amounts are written."""
        self.block_text = block_text
        """Reads what is told of a block from its height. Sockets that are told the same share it."""
        self.enclose = enclose
        """Makes this socket's own frame of that text, if it is not a frame already."""
        self.next_height: int | None = None
        """The next height whose newBlock is due; None without a subscription to blocks."""
        self.followed: set[TxHash] = set()
        """Followed transactions whose event is not written yet; this limits `due`, too."""
        self.due: list[tuple[int, int, TxHash, bytes]] = []
        """A heap of (height, position, hash, frame): events of followed transactions that are due."""
        self.payments: PaymentCursor | None = None
        self.replies: list[bytes] = []
        self.is_queued = False

    @property
    def waits_for_nothing_else(self) -> bool:
        """Whether nothing is to be written but new blocks."""
        return not (self.due or self.replies) and (self.payments is None or self.payments.place is None)

    def block_frame(self, text: bytes) -> bytes:
        """The frame of this socket for what is told of a block."""
        return text if self.enclose is None else self.enclose(text)

    @property
    def followed_addresses(self) -> int:
        """How many addresses it follows."""
        return 0 if self.payments is None else len(self.payments)

    def flush_replies(self) -> None:
        replies, self.replies = self.replies, []
        self.connection.write(b"".join(replies))


class PaymentCursor:
    """The addresses that one socket follows, and how far it has been told of their payments."""

    __slots__ = ("addresses", "ahead", "joining", "joins_at", "live_from", "place", "steps", "subscriber")

    def __init__(self, subscriber: Subscriber, next_height: int) -> None:
        self.subscriber = subscriber
        self.addresses: set[Address] = set()
        self.joining: set[Address] = set()
        """Followed from the height `joins_at` on: they came while a block before it was being sent."""
        self.joins_at = 0
        self.place: Location | None = (next_height, 0)
        """Every payment before it was sent. None if all blocks are done: a payment in a new one sets it again."""
        self.live_from = 0
        """Blocks from this height on are matched with all of its addresses."""
        self.ahead: FoundPayment | None = None
        """The payment at `place`, if it is known."""
        self.steps: Iterator[Step] | None = None
        """A search for the next payment."""

    def __len__(self) -> int:
        return len(self.addresses) + len(self.joining)

    def __contains__(self, address: Address) -> bool:
        return address in self.addresses or address in self.joining

    def move(self, place: Location) -> None:
        """All payments before `place` were sent."""
        self.place = place
        if self.joining and place[0] >= self.joins_at:
            self.join()

    def join(self) -> None:
        self.addresses |= self.joining
        self.joining.clear()
        self.stop_search()

    def stop_search(self) -> None:
        """What is followed, or from where, has changed: what was found ahead must be found again."""
        self.ahead = self.steps = None

    def take(self) -> FoundPayment:
        """The payment that is next; it counts as sent."""
        payment, self.ahead = self.ahead, None
        assert payment is not None
        self.move((payment.height, payment.position + 1))
        return payment


class FollowedTxs:
    """Which sockets of a worker follow which transactions, within the limits per socket and in all.

    A transaction is followed until it is confirmed or dropped, and counts until that event is written.
    """

    def __init__(self, most_per_socket: int) -> None:
        self._most_per_socket = most_per_socket
        self._shares = ClientBudget(MAX_FOLLOWED)
        self._followers: dict[TxHash, set[Subscriber]] = {}

    def __contains__(self, tx_hash: TxHash) -> bool:
        return tx_hash in self._followers

    def __iter__(self) -> Iterator[TxHash]:
        return iter(self._followers)

    def __bool__(self) -> bool:
        return bool(self._followers)

    def add(self, subscriber: Subscriber, tx_hash: TxHash, has_ended: bool) -> None:
        """Follow a transaction. Raises `FollowLimit` when the socket or all sockets follow too many."""
        # Events that are due do not count, unless too many wait for a replay that has not reached them.
        if len(subscriber.due if has_ended else subscriber.followed) >= self._most_per_socket:
            raise FollowLimit(f"a socket follows at most {self._most_per_socket} transactions at once")
        if not self._shares.take(subscriber.client):
            raise FollowLimit("too many transactions are followed on this node; follow fewer, or later")
        subscriber.followed.add(tx_hash)
        if not has_ended:
            self._followers.setdefault(tx_hash, set()).add(subscriber)

    def end(self, tx_hash: TxHash) -> Iterable[Subscriber]:
        """The transaction was confirmed or dropped. Returns its followers."""
        return self._followers.pop(tx_hash, ())

    def release(self, subscriber: Subscriber, tx_hash: TxHash) -> None:
        """Stop counting it: its event is written, or nobody follows it any more."""
        subscriber.followed.remove(tx_hash)
        self._shares.give_back(subscriber.client)

    def remove(self, subscriber: Subscriber, tx_hash: TxHash) -> None:
        """Discard events that are due for the transaction."""
        if tx_hash in subscriber.followed:
            self.release(subscriber, tx_hash)
            self._drop(subscriber, tx_hash)
            subscriber.due = [end for end in subscriber.due if end[2] != tx_hash]
            heapq.heapify(subscriber.due)

    def remove_all(self, subscriber: Subscriber) -> None:
        for tx_hash in subscriber.followed:
            self._drop(subscriber, tx_hash)
        self._shares.give_back(subscriber.client, len(subscriber.followed))
        subscriber.followed.clear()
        subscriber.due.clear()

    def find_in(self, hashes: bytes) -> list[tuple[int, TxHash]]:
        """Which of a block's transactions are followed, each with its position in the block."""
        followers = self._followers
        return [found for found in enumerate(split_hashes(hashes)) if found[1] in followers]

    def _drop(self, subscriber: Subscriber, tx_hash: TxHash) -> None:
        followers = self._followers.get(tx_hash)
        if followers is not None:
            followers.discard(subscriber)
            if not followers:
                del self._followers[tx_hash]
