"""Every sender's lane, and the mining order over all of them. Each method leaves both in step."""

from cairn.domain.types import Address
from cairn.mempool.entry import WAITING, Entry, rank_of, worst_bid_of
from cairn.mempool.lane import Lane
from cairn.mempool.ranking import Ranking


class Order:
    def __init__(self) -> None:
        self.ready = Ranking()
        """What can be mined as things stand, by rank."""
        self.waiting = Ranking()
        """What waits for a missing nonce, by arrival of the sender, then nonce."""
        # The same entries by bid, so that the worst is at hand when room is needed.
        self._waiting_bids = Ranking()
        self._lanes: dict[Address, Lane] = {}
        self._arrivals = 0

    def find_lane(self, sender: Address) -> Lane | None:
        return self._lanes.get(sender)

    def new_lane(self, sender: Address, nonce: int) -> Lane:
        """A lane that counts only once something is added to it."""
        self._arrivals += 1
        return Lane(sender, nonce, self._arrivals)

    def find_worst_waiting(self) -> Entry | None:
        return self._waiting_bids.find_last()

    def add(self, lane: Lane, entry: Entry) -> None:
        self._lanes[lane.sender] = lane
        lane.cost += entry.tx.cost
        if entry.tx.nonce != lane.next_nonce:
            self._queue(lane, entry)
        else:
            lane.ready.append(entry)
            self._extend(lane, len(lane.ready) - 1)

    def replace(self, lane: Lane, old: Entry, new: Entry) -> None:
        lane.cost += new.tx.cost - old.tx.cost
        if old.rank == WAITING:
            self._unqueue(lane, old)
            self._queue(lane, new)
        else:
            self.ready.remove(old.rank)
            position = new.tx.nonce - lane.nonce
            lane.ready[position] = new
            self._rerank(lane, position)

    def remove(self, lane: Lane, entry: Entry) -> None:
        """Take one out; those of its sender that stood on it wait from now on."""
        lane.cost -= entry.tx.cost
        if entry.rank == WAITING:
            self._unqueue(lane, entry)
        else:
            position = entry.tx.nonce - lane.nonce
            stranded = lane.ready[position + 1 :]
            del lane.ready[position:]
            self.ready.remove(entry.rank)
            for successor in stranded:
                self.ready.remove(successor.rank)
                self._queue(lane, successor)
        self._close_if_empty(lane)

    def advance(self, lane: Lane, nonce: int) -> list[Entry]:
        """Take out all before `nonce`, which is the sender's next confirmed one."""
        count = nonce - lane.nonce
        departed = lane.ready[:count]
        del lane.ready[:count]
        for entry in departed:
            self.ready.remove(entry.rank)
        lane.nonce = nonce
        if lane.waiting:
            overtaken = [entry for entry in lane.waiting.values() if entry.tx.nonce < nonce]
            for entry in overtaken:
                self._unqueue(lane, entry)
            departed += overtaken
        for entry in departed:
            lane.cost -= entry.tx.cost
        self._extend(lane, 0)
        self._close_if_empty(lane)
        return departed

    def _close_if_empty(self, lane: Lane) -> None:
        if not lane.ready and not lane.waiting:
            del self._lanes[lane.sender]

    def _extend(self, lane: Lane, first: int) -> None:
        """Rank `lane.ready` from position `first` on, with all that no longer waits for a nonce."""
        while lane.waiting:
            entry = lane.waiting.get(lane.next_nonce)
            if entry is None:
                break
            self._unqueue(lane, entry)
            lane.ready.append(entry)
        self._rerank(lane, first)

    def _rerank(self, lane: Lane, first: int) -> None:
        worst_bid = worst_bid_of(lane.ready[first - 1].rank) if first else 0
        for position in range(first, len(lane.ready)):
            entry = lane.ready[position]
            worst_bid = max(worst_bid, entry.bid)
            rank = rank_of(worst_bid, entry.tx.nonce)
            if rank == entry.rank:
                # What follows was ranked after this one, and nothing between them has changed.
                return
            if entry.rank != WAITING:
                self.ready.remove(entry.rank)
            entry.rank = rank
            self.ready.add(rank, entry)

    def _queue(self, lane: Lane, entry: Entry) -> None:
        entry.rank = WAITING
        lane.waiting[entry.tx.nonce] = entry
        self.waiting.add(lane.place_of(entry.tx.nonce), entry)
        self._waiting_bids.add(entry.bid, entry)

    def _unqueue(self, lane: Lane, entry: Entry) -> None:
        del lane.waiting[entry.tx.nonce]
        self.waiting.remove(lane.place_of(entry.tx.nonce))
        self._waiting_bids.remove(entry.bid)
