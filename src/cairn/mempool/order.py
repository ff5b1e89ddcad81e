"""The sender queues (lanes), the mining order over all of them, and an index by hash, kept consistent."""

from collections.abc import Iterator
from itertools import islice, takewhile

import msgspec
from sortedcontainers import SortedList

from cairn.domain.rules import SenderQueue
from cairn.domain.types import MAX_UINT256, Account, Address, TxHash
from cairn.mempool.entry import WAITING, Entry


def bid_of(gas_price: int, seq: int) -> int:
    return (MAX_UINT256 - gas_price) << 64 | seq


def pays_more(bid: int, other: int) -> bool:
    """Whether the price in `bid` is higher, whatever the arrival."""
    return bid >> 64 < other >> 64


class SenderLane(SenderQueue, gc=True, kw_only=True):
    """One sender's transactions: those that can be mined, and the queued ones, which wait for a missing nonce.

    nonce             next_nonce
      |                   |
      [ ready: no gaps   ] gap  [ waiting ] gap  [ waiting ]
    """

    sender: Address
    arrival: int
    """Order of arrival among the senders."""
    ready: list[Entry] = msgspec.field(default_factory=list)
    waiting: dict[int, Entry] = msgspec.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ready) + len(self.waiting)

    def find(self, nonce: int) -> Entry | None:
        if self.nonce <= nonce < self.next_nonce:
            return self.ready[nonce - self.nonce]
        return self.waiting.get(nonce)

    def append(self, entry: Entry) -> None:
        """Move the one with `next_nonce` from waiting to ready."""
        self.ready.append(entry)
        self.next_nonce += 1

    def cut(self, nonce: int) -> list[Entry]:
        """Remove the ready ones from `nonce` on."""
        position = nonce - self.nonce
        taken = self.ready[position:]
        del self.ready[position:]
        self.next_nonce = nonce
        return taken

    def advance(self, nonce: int) -> list[Entry]:
        """The account's nonce is now `nonce`: remove the ready ones before it."""
        passed = self.ready[: nonce - self.nonce]
        del self.ready[: len(passed)]
        self.nonce = nonce
        self.next_nonce = nonce + len(self.ready)
        return passed

    def entries_from(self, nonce: int) -> list[Entry]:
        """The entries from `nonce` on, by nonce: first the ready ones, then the waiting ones."""
        waiting = sorted(later for later in self.waiting if later >= nonce)
        return [*self.ready[max(0, nonce - self.nonce) :], *(self.waiting[later] for later in waiting)]


class Ranking:
    """Entries sorted by a unique number.

    The numbers are in a sorted list and the entries in a dict: comparing plain integers keeps insertion cheap.
    """

    def __init__(self) -> None:
        self._order: SortedList[int] = SortedList()
        self._entries: dict[int, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, number: int, entry: Entry) -> None:
        self._order.add(number)
        self._entries[number] = entry

    def remove(self, number: int) -> None:
        self._order.remove(number)
        del self._entries[number]

    def entries_from(self, number: int) -> Iterator[Entry]:
        """The entries from `number` on, which need not exist."""
        return map(self._entries.__getitem__, self._order.irange(number))

    def find_last(self) -> Entry | None:
        return self._entries[self._order[-1]] if self._entries else None


class Order:
    def __init__(self) -> None:
        self.lanes: dict[Address, SenderLane] = {}
        """By sender, for all that have a transaction here; changed only here."""
        self.entries: dict[TxHash, Entry] = {}
        """In the order of arrival; changed only here."""
        self._arrivals = 0
        # Only the first entry of each run is sorted, so a replacement in front of ten thousand others moves one number.
        self._leaders = Ranking()
        self._waiting = Ranking()
        # The waiting ones again, by bid: the worst is found at once when room is needed.
        self._waiting_bids = Ranking()
        # And by waiting time, the longest first.
        self._waiting_times = Ranking()
        self.ready_count = 0

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    # Lanes.

    def lane_of(self, entry: Entry) -> SenderLane:
        return self.lanes[entry.tx.sender]

    def new_lane(self, sender: Address, account: Account) -> SenderLane:
        """A sender's lane; a new one is stored only when something is added."""
        self._arrivals += 1
        return SenderLane(account.balance, account.nonce, account.nonce, sender=sender, arrival=self._arrivals)

    def ready_from(self, sender: Address, nonce: int) -> Iterator[Entry]:
        """A sender's transactions that can be mined, from `nonce` on."""
        lane = self.lanes.get(sender)
        return iter(()) if lane is None else islice(lane.ready, max(0, nonce - lane.nonce), None)

    # The order over all lanes.

    def entries_since(self, seq: int) -> list[Entry]:
        """The entries that arrived with `seq` or later, newest first."""
        return list(takewhile(lambda entry: entry.seq >= seq, reversed(self.entries.values())))

    def mining_order(self, lead: int = 0, nonce: int = 0) -> Iterator[Entry]:
        """What can be mined now, from `lead` and `nonce` on. Nothing may change during the iteration."""
        for leader in self._leaders.entries_from(lead):
            ready, start = self._run_at(leader)
            if leader.bid == lead:
                start = max(start, start + nonce - leader.tx.nonce)
            for position in range(start, len(ready)):
                entry = ready[position]
                if entry.lead != leader.bid:
                    break
                yield entry

    def waiting_order(self, arrival: int = 0, nonce: int = 0) -> Iterator[Entry]:
        """The queued ones, by the sender's arrival and nonce, from these on."""
        return self._waiting.entries_from(_place(arrival, nonce))

    def find_last_ready(self) -> Entry | None:
        # The last run of all is also the last of its lane.
        leader = self._leaders.find_last()
        return None if leader is None else self.lane_of(leader).ready[-1]

    def find_worst_waiting(self) -> Entry | None:
        return self._waiting_bids.find_last()

    def waiting_since(self, up_s: int) -> list[Entry]:
        """The transactions that have been queued since `up_s` or longer, the longest first."""
        return list(takewhile(lambda entry: entry.waits_since <= up_s, self._waiting_times.entries_from(0)))

    def _run_at(self, leader: Entry) -> tuple[list[Entry], int]:
        lane = self.lane_of(leader)
        return lane.ready, leader.tx.nonce - lane.nonce

    # Changes.

    def add(self, lane: SenderLane, entry: Entry) -> None:
        self.lanes[lane.sender] = lane
        self.entries[entry.tx.hash] = entry
        lane.cost += entry.tx.cost
        if entry.tx.nonce != lane.next_nonce:
            self._queue(lane, entry)
        else:
            first = len(lane.ready)
            lane.append(entry)
            self.ready_count += 1
            if lane.waiting:
                self._take_waiting(lane)
            self._lead(lane, first)

    def replace(self, lane: SenderLane, old: Entry, new: Entry) -> None:
        del self.entries[old.tx.hash]
        self.entries[new.tx.hash] = new
        lane.cost += new.tx.cost - old.tx.cost
        if old.lead == WAITING:
            self._unqueue(lane, old)
            self._queue(lane, new)
        else:
            self._unlead(old)
            position = new.tx.nonce - lane.nonce
            lane.ready[position] = new
            self._lead(lane, position)

    def remove(self, entry: Entry, up_s: int) -> None:
        """Remove one. Later ones of its sender are queued from now on; `up_s` is now."""
        lane = self.lane_of(entry)
        del self.entries[entry.tx.hash]
        lane.cost -= entry.tx.cost
        if entry.lead == WAITING:
            self._unqueue(lane, entry)
        else:
            cut = lane.cut(entry.tx.nonce)
            self.ready_count -= len(cut)
            for successor in cut:
                self._unlead(successor)
            for successor in cut[1:]:
                successor.waits_since = up_s
                self._queue(lane, successor)
        self._close_if_empty(lane)

    def advance(self, lane: SenderLane, nonce: int) -> list[Entry]:
        """Remove all before `nonce`, the account's confirmed nonce."""
        departed = lane.advance(nonce)
        self.ready_count -= len(departed)
        for entry in departed:
            self._unlead(entry)
        if lane.waiting:
            overtaken = [entry for entry in lane.waiting.values() if entry.tx.nonce < nonce]
            for entry in overtaken:
                self._unqueue(lane, entry)
            departed += overtaken
            self._take_waiting(lane)
        for entry in departed:
            del self.entries[entry.tx.hash]
            lane.cost -= entry.tx.cost
        self._lead(lane, 0)
        self._close_if_empty(lane)
        return departed

    def _close_if_empty(self, lane: SenderLane) -> None:
        if not lane.ready and not lane.waiting:
            del self.lanes[lane.sender]

    def _lead(self, lane: SenderLane, first: int) -> None:
        """Compute the leads again, from position `first` of `lane.ready` on."""
        ready = lane.ready
        lead = ready[first - 1].lead if first else 0
        for position in range(first, len(ready)):
            entry = ready[position]
            lead = max(lead, entry.bid)
            if lead == entry.lead:
                # The ones after it have the same lead.
                return
            if entry.lead != WAITING:
                self._unlead(entry)
            entry.lead = lead
            if lead == entry.bid:
                self._leaders.add(lead, entry)

    def _unlead(self, entry: Entry) -> None:
        if entry.lead == entry.bid:
            self._leaders.remove(entry.bid)

    def _take_waiting(self, lane: SenderLane) -> None:
        """Move the ones that no longer miss a nonce to ready."""
        while lane.waiting:
            entry = lane.waiting.get(lane.next_nonce)
            if entry is None:
                return
            self._unqueue(lane, entry)
            lane.append(entry)
            self.ready_count += 1

    def _queue(self, lane: SenderLane, entry: Entry) -> None:
        entry.lead = WAITING
        lane.waiting[entry.tx.nonce] = entry
        self._waiting.add(_place(lane.arrival, entry.tx.nonce), entry)
        self._waiting_bids.add(entry.bid, entry)
        self._waiting_times.add(_time_place(entry), entry)

    def _unqueue(self, lane: SenderLane, entry: Entry) -> None:
        del lane.waiting[entry.tx.nonce]
        self._waiting.remove(_place(lane.arrival, entry.tx.nonce))
        self._waiting_bids.remove(entry.bid)
        self._waiting_times.remove(_time_place(entry))


def _place(arrival: int, nonce: int) -> int:
    """The place of a queued transaction among those of all senders."""
    return (arrival << 64) + nonce


def _time_place(entry: Entry) -> int:
    return entry.waits_since << 64 | entry.seq
