"""Payments of followed addresses: which sockets follow which addresses, and what each is told next.

A new block is matched once for all sockets: each of its transactions is looked up by sender and recipient, and only the
sockets that follow one of them are woken. What was found in the newest blocks is kept for a moment, for all of them
together. A socket that is further behind, or has just subscribed, searches the store for itself.
"""

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from operator import attrgetter

from cairn.api.events.payment_search import FoundPayment, PaymentSearch, PaymentSource, Step
from cairn.api.events.subscribers import PaymentCursor
from cairn.api.server.client_budgets import ClientBudget
from cairn.domain.errors import FollowLimit
from cairn.domain.transactions import decode_record, parties_in_record
from cairn.domain.types import MAX_UINT64, Address
from cairn.store.keys import CHUNK_RECORDS, NEVER, Location
from cairn.time_shares import TimeShares

MAX_ADDRESSES = 200_000
"""Addresses that all sockets of a worker follow, shared by its clients."""
KEPT_BLOCKS = 16
KEPT_PAYMENTS = 10_000
"""What is kept of the newest blocks, at most; of the newest one always all."""
FEW_ADDRESSES = 64
"""The payments of so many are merged; with more, all that were found are looked through."""
FEW_FOLLOWERS = 8
"""So many of an address are in a tuple; more in a dictionary, where one comes or leaves without a look at others."""
RELEASED_AT_ONCE = 512

_position_of = attrgetter("position")


class BlockMatches:
    """The payments of one block to or from a followed address."""

    def __init__(self) -> None:
        self.payments: list[FoundPayment] = []
        self.by_address: dict[Address, list[FoundPayment]] = {}

    def add(self, payment: FoundPayment, address: Address) -> None:
        self.by_address.setdefault(address, []).append(payment)

    def steps(self, addresses: set[Address], place: Location) -> Iterator[Step]:
        """Their payments from `place` on, in order and each once. Where it looked through some others: how far."""
        fewer, more = sorted((self.by_address.keys(), addresses), key=len)
        found = [address for address in fewer if address in more]
        if len(found) > FEW_ADDRESSES:
            for number, payment in enumerate(_from(self.payments, place)):
                if payment.sender in addresses or payment.to in addresses:
                    yield payment
                elif number % CHUNK_RECORDS == 0:
                    yield payment.height, payment.position
            return
        last = None
        for payment in heapq.merge(*(_from(self.by_address[address], place) for address in found), key=_position_of):
            # A transfer between two of them is in the lists of both.
            if payment is not last:
                yield payment
            last = payment


def _from(payments: list[FoundPayment], place: Location) -> Iterator[FoundPayment]:
    return islice(payments, bisect_left(payments, place[1], key=_position_of), None)


class FollowedPayments:
    """The followed addresses of a worker's sockets, within the limits per socket and in all."""

    def __init__(self, source: PaymentSource, most_per_socket: int, shares: TimeShares) -> None:
        self._source = source
        self._most_per_socket = most_per_socket
        self._shares = shares
        self._budget = ClientBudget(MAX_ADDRESSES)
        self.followers: dict[Address, tuple[PaymentCursor, ...] | dict[PaymentCursor, None]] = {}
        """Who follows which address. Mostly it is one, and a tuple takes a quarter of a set's memory."""
        self._waiting: set[PaymentCursor] = set()
        """Those that need a block that is not announced yet, and that may be matched without their addresses."""
        self._begun = -1
        """The newest height that was matched, or is being matched."""
        self._matching: Iterator[None] | None = None
        self._matched: dict[int, BlockMatches] = {}
        """Of the newest blocks, the oldest first."""

    # What is followed.

    def follow(self, cursor: PaymentCursor, addresses: Iterable[Address], from_height: int | None, head: int) -> int:
        """Follow these, too. Returns the height from which their payments come. Raises `FollowLimit`.

        With a height, the payments of all addresses of the socket continue there. Without, those of the added ones
        begin where the socket is. `head` is the height up to which the sockets are served.
        """
        added = {address for address in addresses if address not in cursor}
        if len(cursor) + len(added) > self._most_per_socket:
            raise FollowLimit(f"a socket follows at most {self._most_per_socket} addresses at once")
        if added:
            if not self._budget.take(cursor.subscriber.client, len(added)):
                raise FollowLimit("too many addresses are followed on this node; follow fewer, or later")
            for address in added:
                self._add(cursor, address)
            # A block that is being matched may be matched without them.
            cursor.live_from = max(self._begun, head) + 1
        cursor.joining |= added
        place = (head + 1, 0) if cursor.place is None else cursor.place
        if from_height is not None:
            place = (from_height, 0)
        # Not in the middle of a block: they would get only a part of its payments.
        cursor.joins_at = place[0] if place[1] == 0 else place[0] + 1
        cursor.stop_search()
        cursor.move(place)
        if place[0] > head:
            self._waiting.add(cursor)
        return cursor.joins_at

    def unfollow(self, cursor: PaymentCursor, addresses: Iterable[Address]) -> None:
        """Stop following these."""
        for address in addresses:
            if address in cursor:
                cursor.addresses.discard(address)
                cursor.joining.discard(address)
                self._release(cursor, address)
        cursor.stop_search()

    def end(self, cursor: PaymentCursor) -> None:
        """Stop following all. There may be thousands, so it is done in turns with others."""
        cursor.join()
        # No block wakes it any more.
        cursor.place, cursor.live_from = None, MAX_UINT64
        self._waiting.discard(cursor)
        self._release_some(cursor)

    def _release_some(self, cursor: PaymentCursor) -> None:
        for _ in range(min(RELEASED_AT_ONCE, len(cursor.addresses))):
            self._release(cursor, cursor.addresses.pop())
        if cursor.addresses:
            self._shares.call(cursor.subscriber.client, partial(self._release_some, cursor))

    def _add(self, cursor: PaymentCursor, address: Address) -> None:
        others = self.followers.get(address, ())
        if isinstance(others, dict):
            others[cursor] = None
        elif len(others) < FEW_FOLLOWERS:
            self.followers[address] = (*others, cursor)
        else:
            self.followers[address] = dict.fromkeys((*others, cursor))

    def _release(self, cursor: PaymentCursor, address: Address) -> None:
        self._budget.give_back(cursor.subscriber.client)
        others = self.followers[address]
        if isinstance(others, dict):
            del others[cursor]
        else:
            others = self.followers[address] = tuple(each for each in others if each is not cursor)
        if not others:
            del self.followers[address]

    # New blocks.

    def match(self, height: int, is_over: Callable[[], bool]) -> bool:
        """Match a new block with all followed addresses. False if the time was over first: it must be called again."""
        if height in self._matched:
            return True
        if self._matching is None or self._begun != height:
            self._begun, self._matching = height, self._match(height)
        try:
            for _ in self._matching:
                if is_over():
                    return False
        except BaseException:
            # It must start over.
            self._matching = None
            raise
        self._matching = None
        return True

    def _match(self, height: int) -> Iterator[None]:
        matches, followers = BlockMatches(), self.followers
        for position, record in enumerate(self._source.tx_records(height)):
            sender, to = parties_in_record(record)
            if sender in followers or to in followers:
                payment = FoundPayment(height, position, decode_record(record))
                matches.payments.append(payment)
                for address in {payment.sender, payment.to}:
                    if address in followers:
                        matches.add(payment, address)
            if position % CHUNK_RECORDS == 0:
                yield
        self._matched[height] = matches
        kept = sum(len(each.payments) for each in self._matched.values())
        while len(self._matched) > KEPT_BLOCKS or (len(self._matched) > 1 and kept > KEPT_PAYMENTS):
            kept -= len(self._matched.pop(next(iter(self._matched))).payments)

    def wake(self, height: int) -> Iterator[PaymentCursor]:
        """The cursors that waited for this block, or for one with a payment, as this has."""
        for cursor in [cursor for cursor in self._waiting if cursor.place is None or cursor.place[0] <= height]:
            self._waiting.remove(cursor)
            yield cursor
        matches = self._matched.get(height)
        for address in () if matches is None else matches.by_address:
            for cursor in self.followers.get(address, ()):
                if cursor.place is None and cursor.live_from <= height:
                    cursor.place = (height, 0)
                    yield cursor

    def forget(self, height: int) -> None:
        """The chain was reverted to `height`."""
        self._begun, self._matching = height, None
        self._matched.clear()

    # What a socket is told.

    def look(self, cursor: PaymentCursor, head: int) -> bool:
        """Take one step towards the cursor's next payment. False if more are needed.

        Then the payment is `ahead`, or there is none up to the height `head`.
        """
        if cursor.ahead is not None or cursor.place is None or cursor.place[0] > head:
            return True
        if cursor.steps is None:
            cursor.steps = self._steps(cursor, head)
        try:
            step = next(cursor.steps)
        except BaseException:
            # Whatever it was, the next search begins at `place`.
            cursor.stop_search()
            raise
        if isinstance(step, FoundPayment):
            cursor.place, cursor.ahead = (step.height, step.position), step
            return True
        cursor.move(step)
        if step[0] <= head:
            return False
        cursor.steps = None
        if step[0] >= cursor.live_from:
            cursor.place = None
        else:
            self._waiting.add(cursor)
        return True

    def _steps(self, cursor: PaymentCursor, head: int) -> Iterator[Step]:
        """The payments from the cursor's place up to `head`, and places in between. `look` moves the cursor to each."""
        while (place := cursor.place) is not None:
            height = place[0]
            matched_from = max(cursor.live_from, next(iter(self._matched), NEVER))
            matches = self._matched.get(height) if height >= matched_from else None
            if matches is None:
                until = min(head, cursor.joins_at - 1) if cursor.joining else head
                until = max(height, min(until, matched_from - 1))
                yield from PaymentSearch(self._source, cursor.addresses, place).steps(until)
            else:
                yield from matches.steps(cursor.addresses, place)
                yield height + 1, 0
