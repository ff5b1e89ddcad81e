"""Each sender's transactions, the mining order over all senders, and an index by hash, kept consistent."""

from collections.abc import Iterator
from enum import Enum, auto
from itertools import islice, takewhile

import msgspec
from sortedcontainers import SortedList

from cairn.board import Board
from cairn.domain.rules import SenderBudget
from cairn.domain.types import MAX_UINT64, MAX_UINT256, Account, Address, Tx, TxHash

# A transaction in the mempool, and the two numbers that give its place in the mining order. Lower is better.
#
#     bid    inverse gas price (256 bits) | seq (64 bits)    its own price, then its arrival
#     lead   the worst bid of its sender up to it             what decides when it is mined
#
# A block repeatedly takes the best bid among the first transactions of all senders. A good bid behind a bad one of the
# same sender is mined right after the bad one. So sorting by lead, then nonce, gives the same order, and a lead depends
# only on the transactions of its sender. A transaction whose lead is its own bid begins a run: itself and those after
# it with the same lead.

QUEUED = -1
"""The lead of a queued transaction: an earlier nonce of its sender is missing."""


class Delivery(Enum):
    """Whether CometBFT has the transaction, on a node that does not make blocks itself."""

    HERE = auto()
    """It has not been sent, or CometBFT has restarted and lost it."""
    SENT = auto()
    RETURNED = auto()
    """CometBFT refused or removed it, and it has not been sent again."""


# Plain names, because access through the class costs five times as much.
HERE, SENT, RETURNED = Delivery.HERE, Delivery.SENT, Delivery.RETURNED


class Entry(msgspec.Struct, gc=False, eq=False):
    """`lead` and `queued_since` change with the sender's other transactions, `delivery` and `sent_at` with sending.

    `local` may become true; the rest never changes.
    """

    tx: Tx
    received_at: int
    """Unix time in whole seconds."""
    bid: int
    cost: int
    """What the transaction costs at most: `tx.cost`, computed once."""
    lead: int = QUEUED
    local: bool = True
    """This node accepted it and answers for it; False if only other nodes did."""
    queued_since: int = 0
    """If it is queued: since when, in seconds of the node's uptime."""
    delivery: Delivery = HERE
    sent_at: float = 0.0
    """When it was last sent, by the sender's clock. For a transaction of another node, when it was first seen."""

    @property
    def seq(self) -> int:
        return self.bid & MAX_UINT64

    def send(self, at: float) -> None:
        self.delivery = SENT
        self.sent_at = at


def bid_of(gas_price: int, seq: int) -> int:
    return (MAX_UINT256 - gas_price) << 64 | seq


def pays_more(bid: int, other: int) -> bool:
    """Whether the price in `bid` is higher, whatever the arrival."""
    return bid >> 64 < other >> 64


class SenderTxs(SenderBudget, gc=True, kw_only=True):
    """One sender's transactions: those that can be mined, and the queued ones, which wait for a missing nonce.

    nonce             next_nonce
      |                   |
      [ pending: no gap  ] gap  [ queued ] gap  [ queued ]
    """

    sender: Address
    arrival: int
    """Order of arrival among the senders."""
    pending: list[Entry] = msgspec.field(default_factory=list)
    queued: dict[int, Entry] = msgspec.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.pending) + len(self.queued)

    def find(self, nonce: int) -> Entry | None:
        if self.nonce <= nonce < self.next_nonce:
            return self.pending[nonce - self.nonce]
        return self.queued.get(nonce)

    def append(self, entry: Entry) -> None:
        """Add the one with `next_nonce` to the pending ones."""
        self.pending.append(entry)
        self.next_nonce += 1

    def cut(self, nonce: int) -> list[Entry]:
        """Remove the pending ones from `nonce` on."""
        position = nonce - self.nonce
        taken = self.pending[position:]
        del self.pending[position:]
        self.next_nonce = nonce
        return taken

    def advance(self, nonce: int) -> list[Entry]:
        """The account's nonce is now `nonce`: remove the pending ones before it."""
        passed = self.pending[: nonce - self.nonce]
        del self.pending[: len(passed)]
        self.nonce = nonce
        self.next_nonce = nonce + len(self.pending)
        return passed

    def entries_from(self, nonce: int) -> list[Entry]:
        """The entries from `nonce` on, by nonce: first the pending ones, then the queued ones."""
        queued = sorted(later for later in self.queued if later >= nonce)
        return [*self.pending[max(0, nonce - self.nonce) :], *(self.queued[later] for later in queued)]


class Ranking:
    """Entries sorted by a unique number.

    The numbers are in a sorted list and the entries in a dict: comparing plain integers keeps insertion cheap.
    """

    def __init__(self) -> None:
        self._order: SortedList[int] = SortedList()
        self._entries: dict[int, Entry] = {}
        self._left: set[int] = set()
        """The numbers in the list whose entries have left."""

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, number: int, entry: Entry) -> None:
        if self._left and number in self._left:
            self._left.remove(number)
        else:
            self._order.add(number)
        self._entries[number] = entry

    def remove(self, number: int) -> None:
        self._order.remove(number)
        del self._entries[number]

    def leave(self, number: int) -> None:
        """As `remove`, for many of which most are the first. `tidy` must follow."""
        # To find a number in the list costs more than all the rest.
        del self._entries[number]
        self._left.add(number)

    def tidy(self) -> None:
        """Take the first numbers out of the list that have left."""
        gone = list(takewhile(self._left.__contains__, self._order))
        pop = self._order.pop
        for _ in gone:
            pop(0)
        self._left.difference_update(gone)

    def tidy_all(self) -> None:
        self.tidy()
        for number in self._left:
            self._order.remove(number)
        self._left.clear()

    def entries_from(self, number: int) -> Iterator[Entry]:
        """The entries from `number` on, which need not exist."""
        numbers = self._order.irange(number)
        if self._left:
            return (self._entries[each] for each in numbers if each not in self._left)
        return map(self._entries.__getitem__, numbers)

    def find_last(self) -> Entry | None:
        while self._order[-1:] and self._order[-1] in self._left:
            self._left.remove(self._order.pop())
        return self._entries[self._order[-1]] if self._entries else None


class Order:
    def __init__(self, board: Board | None = None) -> None:
        self._board = board or Board()
        self.by_sender: dict[Address, SenderTxs] = {}
        """By sender, for all that have a transaction here; changed only here."""
        self.entries: dict[TxHash, Entry] = {}
        """In the order of arrival; changed only here."""
        self._arrivals = 0
        # Only the first entry of each run is sorted, so a replacement in front of ten thousand others moves one number.
        self._leaders = Ranking()
        self._queued = Ranking()
        # The queued ones again, by bid: the worst is found at once when room is needed.
        self._queued_bids = Ranking()
        # And by the time that they were queued for, the longest first.
        self._queued_times = Ranking()
        self.pending_count = 0
        self.queued_count = 0

    # Of one sender.

    def txs_of_sender(self, entry: Entry) -> SenderTxs:
        return self.by_sender[entry.tx.sender]

    def new_sender(self, sender: Address, account: Account) -> SenderTxs:
        """For a sender without transactions here. It is stored only when something is added."""
        self._arrivals += 1
        return SenderTxs(account.balance, account.nonce, account.nonce, sender=sender, arrival=self._arrivals)

    def pending_from(self, sender: Address, nonce: int) -> Iterator[Entry]:
        """A sender's transactions that can be mined, from `nonce` on."""
        sender_txs = self.by_sender.get(sender)
        return iter(()) if sender_txs is None else islice(sender_txs.pending, max(0, nonce - sender_txs.nonce), None)

    # The order over all senders.

    def entries_since(self, seq: int) -> list[Entry]:
        """The entries that arrived with `seq` or later, newest first."""
        return list(takewhile(lambda entry: entry.seq >= seq, reversed(self.entries.values())))

    def mining_order(self, lead: int = 0, nonce: int = 0) -> Iterator[Entry]:
        """What can be mined now, from `lead` and `nonce` on. Nothing may change during the iteration."""
        by_sender = self.by_sender
        for leader in self._leaders.entries_from(lead):
            sender_txs = by_sender[leader.tx.sender]
            pending, start = sender_txs.pending, leader.tx.nonce - sender_txs.nonce
            if leader.bid == lead:
                start = max(start, start + nonce - leader.tx.nonce)
            for position in range(start, len(pending)):
                entry = pending[position]
                if entry.lead != leader.bid:
                    break
                yield entry

    def queued_order(self, arrival: int = 0, nonce: int = 0) -> Iterator[Entry]:
        """The queued ones, by the sender's arrival and nonce, from these on."""
        return self._queued.entries_from(_place(arrival, nonce))

    def find_last_pending(self) -> Entry | None:
        # The last run of all is also the last of its sender.
        leader = self._leaders.find_last()
        return None if leader is None else self.txs_of_sender(leader).pending[-1]

    def find_worst_queued(self) -> Entry | None:
        return self._queued_bids.find_last()

    def queued_since(self, up_s: int) -> list[Entry]:
        """The transactions that have been queued since `up_s` or longer, the longest first."""
        return list(takewhile(lambda entry: entry.queued_since <= up_s, self._queued_times.entries_from(0)))

    # Changes.

    def add(self, sender_txs: SenderTxs, entry: Entry) -> None:
        self._board.note(sender_txs.sender, 1)
        self.by_sender[sender_txs.sender] = sender_txs
        self.entries[entry.tx.hash] = entry
        sender_txs.cost += entry.cost
        if entry.tx.nonce != sender_txs.next_nonce:
            self._queue(sender_txs, entry)
        elif sender_txs.queued:
            first = len(sender_txs.pending)
            sender_txs.append(entry)
            self.pending_count += 1
            self._take_queued(sender_txs)
            self._lead(sender_txs, first)
        else:
            # As `_lead` would do: almost every transaction passes here.
            lead = sender_txs.pending[-1].lead if sender_txs.pending else 0
            sender_txs.append(entry)
            self.pending_count += 1
            if lead < entry.bid:
                entry.lead = entry.bid
                self._leaders.add(entry.bid, entry)
            else:
                entry.lead = lead

    def replace(self, sender_txs: SenderTxs, old: Entry, new: Entry) -> None:
        self._board.note(sender_txs.sender, 0)
        del self.entries[old.tx.hash]
        self.entries[new.tx.hash] = new
        sender_txs.cost += new.cost - old.cost
        if old.lead == QUEUED:
            self._unqueue(sender_txs, old)
            self._queue(sender_txs, new)
        else:
            self._unlead(old)
            position = new.tx.nonce - sender_txs.nonce
            sender_txs.pending[position] = new
            self._lead(sender_txs, position)

    def remove(self, entry: Entry, up_s: int) -> None:
        """Remove one. Later ones of its sender are queued from now on; `up_s` is now."""
        sender_txs = self.txs_of_sender(entry)
        self._board.note(sender_txs.sender, -1)
        del self.entries[entry.tx.hash]
        sender_txs.cost -= entry.cost
        if entry.lead == QUEUED:
            self._unqueue(sender_txs, entry)
        else:
            cut = sender_txs.cut(entry.tx.nonce)
            self.pending_count -= len(cut)
            for successor in cut:
                self._unlead(successor)
            for successor in cut[1:]:
                successor.queued_since = up_s
                self._queue(sender_txs, successor)
        self._close_if_empty(sender_txs)

    def advance(self, sender_txs: SenderTxs, nonce: int) -> list[Entry]:
        """Remove all before `nonce`, the account's confirmed nonce. `tidy` must follow."""
        if nonce == sender_txs.next_nonce and not sender_txs.queued:
            return self._close(sender_txs)
        departed = sender_txs.advance(nonce)
        self.pending_count -= len(departed)
        for entry in departed:
            if entry.lead == entry.bid:
                self._leaders.leave(entry.bid)
        if sender_txs.queued:
            overtaken = [entry for entry in sender_txs.queued.values() if entry.tx.nonce < nonce]
            for entry in overtaken:
                self._unqueue(sender_txs, entry)
            departed += overtaken
            self._take_queued(sender_txs)
        self._board.note(sender_txs.sender, -len(departed))
        for entry in departed:
            del self.entries[entry.tx.hash]
            sender_txs.cost -= entry.cost
        self._lead(sender_txs, 0)
        self._close_if_empty(sender_txs)
        return departed

    def _close(self, sender_txs: SenderTxs) -> list[Entry]:
        """Remove a sender of whom none is queued."""
        # Each transaction of each block passes here.
        departed, entries, leave = sender_txs.pending, self.entries, self._leaders.leave
        for entry in departed:
            del entries[entry.tx.hash]
            if entry.lead == entry.bid:
                leave(entry.bid)
        sender_txs.pending, sender_txs.cost, sender_txs.nonce = [], 0, sender_txs.next_nonce
        self.pending_count -= len(departed)
        self._board.note(sender_txs.sender, -len(departed))
        del self.by_sender[sender_txs.sender]
        return departed

    def tidy(self) -> None:
        """Forget most of those that were removed before others."""
        self._leaders.tidy()

    def tidy_all(self) -> None:
        self._leaders.tidy_all()

    def _close_if_empty(self, sender_txs: SenderTxs) -> None:
        if not sender_txs.pending and not sender_txs.queued:
            del self.by_sender[sender_txs.sender]

    def _lead(self, sender_txs: SenderTxs, first: int) -> None:
        """Compute the leads again, from position `first` of the pending ones on."""
        pending = sender_txs.pending
        lead = pending[first - 1].lead if first else 0
        for position in range(first, len(pending)):
            entry = pending[position]
            lead = max(lead, entry.bid)
            if lead == entry.lead:
                # The ones after it have the same lead.
                return
            if entry.lead != QUEUED:
                self._unlead(entry)
            entry.lead = lead
            if lead == entry.bid:
                self._leaders.add(lead, entry)

    def _unlead(self, entry: Entry) -> None:
        if entry.lead == entry.bid:
            self._leaders.remove(entry.bid)

    def _take_queued(self, sender_txs: SenderTxs) -> None:
        """Move the ones that no longer miss a nonce to the pending ones."""
        while sender_txs.queued:
            entry = sender_txs.queued.get(sender_txs.next_nonce)
            if entry is None:
                return
            self._unqueue(sender_txs, entry)
            sender_txs.append(entry)
            self.pending_count += 1

    def _queue(self, sender_txs: SenderTxs, entry: Entry) -> None:
        entry.lead = QUEUED
        sender_txs.queued[entry.tx.nonce] = entry
        self._queued.add(_place(sender_txs.arrival, entry.tx.nonce), entry)
        self._queued_bids.add(entry.bid, entry)
        self._queued_times.add(_time_place(entry), entry)
        self.queued_count += 1

    def _unqueue(self, sender_txs: SenderTxs, entry: Entry) -> None:
        del sender_txs.queued[entry.tx.nonce]
        self._queued.remove(_place(sender_txs.arrival, entry.tx.nonce))
        self._queued_bids.remove(entry.bid)
        self._queued_times.remove(_time_place(entry))
        self.queued_count -= 1


def _place(arrival: int, nonce: int) -> int:
    """The place of a queued transaction among those of all senders."""
    return (arrival << 64) + nonce


def _time_place(entry: Entry) -> int:
    return entry.queued_since << 64 | entry.seq
