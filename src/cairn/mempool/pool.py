"""The mempool: what is admitted, the mining order, and what is dropped."""

import contextlib
from collections.abc import Iterable, Sequence, Set
from itertools import islice

import msgspec

from cairn.domain.errors import MempoolFull, SenderLimit, TxRejected
from cairn.domain.rules import validate_tx
from cairn.domain.transition import StateView
from cairn.domain.types import MAX_UINT64, TRANSFER_GAS, Address, DropReason, Rules, Tx, TxHash
from cairn.mempool.drops import Drop, RecentDrops
from cairn.mempool.entry import WAITING, Entry
from cairn.mempool.order import Order, SenderLane, bid_of, pays_more
from cairn.mempool.policy import PoolLimits
from cairn.mempool.pool_pages import Page, page_of_all, page_of_sender
from cairn.mempool.unlisted import Unlisted


class Admitted(msgspec.Struct, frozen=True, gc=False):
    added: bool
    """False if the same transaction was already here."""
    queued: bool
    """It is queued: an earlier nonce is missing."""
    dropped: tuple[Drop, ...] = ()
    """What was dropped to make room for it."""


class Mempool:
    """Transactions in mining order, each of them affordable after those of its sender before it.

    `state` may change only together with `confirm`: both must show the same confirmed nonces at every admission.

    Transactions of other nodes are unlisted until somebody asks for them. Reading `listed` directly does not show them
    and changes nothing; the methods here that look for something list them first, as far as they need them.
    """

    def __init__(self, rules: Rules, limits: PoolLimits, state: StateView) -> None:
        self._rules = rules
        self._limits = limits
        self._state = state
        self.listed = Order()
        """The transactions in the mining order; changed only here."""
        self._noted = Unlisted()
        self.drops = RecentDrops()
        self.next_seq = 0
        """The sequence number of the next one that is listed."""
        self.up_s = 0
        """The node's uptime in seconds, over all restarts. The owner updates it, since the mempool has no clock."""

    # Questions.

    @property
    def pending_count(self) -> int:
        """How many of the listed ones can be mined now."""
        return self.listed.ready_count

    @property
    def queued_count(self) -> int:
        """How many of the listed ones are queued."""
        return self.listed.waiting_count

    @property
    def held_count(self) -> int:
        """The number of transactions, listed or not; the limit applies to it."""
        return len(self.listed.entries) + self._noted.count

    def next_nonce(self, sender: Address) -> int:
        """The nonce after the sender's confirmed transactions and those that can be mined."""
        lane = self._find_lane(sender)
        return self._state.account(sender).nonce if lane is None else lane.next_nonce

    def reserved(self, sender: Address) -> int:
        """The cost of the sender's transactions here."""
        lane = self._find_lane(sender)
        return 0 if lane is None else lane.cost

    def _find_lane(self, sender: Address) -> SenderLane | None:
        if sender in self._noted.by_sender:
            self._list([sender])
        return self.listed.lanes.get(sender)

    def find(self, tx_hash: TxHash) -> Entry | None:
        entry = self.listed.entries.get(tx_hash)
        if entry is None and self._noted.count:
            self.list_noted()
            return self.listed.entries.get(tx_hash)
        return entry

    def select(self, gas_limit: int) -> list[Tx]:
        """The transactions of the next block, in order."""
        self.list_noted()
        return [entry.tx for entry in islice(self.listed.mining_order(), gas_limit // TRANSFER_GAS)]

    def page(self, limit: int, after: str | None = None, sender: Address | None = None) -> Page:
        """A page of all transactions, or of one sender's. Raises `InvalidQuery` if `after` does not fit."""
        if sender is not None:
            return page_of_sender(self._find_lane(sender), limit, after)
        self.list_noted()
        return page_of_all(self.listed, limit, after)

    # What comes in.

    def admit(
        self,
        tx: Tx,
        received_at: int,
        *,
        local: bool = True,
        waits_since: int | None = None,
        nonce_gap: int | None = None,
    ) -> Admitted:
        """Admit `tx`. If it raises `TxRejected` or `MempoolFull`, nothing has changed.

        If it is queued, its waiting time begins now, unless `waits_since` names an earlier moment.
        """
        if tx.sender in self._noted.by_sender:
            self._list([tx.sender])
        order = self.listed
        known = order.entries.get(tx.hash)
        if known is not None:
            return Admitted(added=False, queued=known.lead == WAITING)
        validate_tx(tx, self._rules)
        account = self._state.account(tx.sender)
        lane = order.lanes.get(tx.sender)
        if lane is None:
            lane = order.new_lane(tx.sender, account)
        else:
            # The account may have received coins since.
            lane.balance = account.balance
        old = lane.find(tx.nonce)
        self._check(tx, lane, None if old is None else old.tx, nonce_gap)
        if old is None and self._noted.count and self.held_count >= self._limits.size:
            # Before the new one gets its number: each of these gets one, too.
            self.list_noted()
        entry = Entry(tx, received_at, bid_of(tx.gas_price, self.next_seq), WAITING, local)
        entry.waits_since = self.up_s if waits_since is None else waits_since
        dropped: tuple[Drop, ...] = ()
        if old is not None:
            order.replace(lane, old, entry)
            dropped = (self.drops.note(old.tx.hash, "replaced"),)
        else:
            if len(order.entries) >= self._limits.size:
                dropped = (self._make_room(lane, entry),)
            order.add(lane, entry)
        self.next_seq += 1
        self.drops.pop(tx.hash, None)
        return Admitted(added=True, queued=entry.lead == WAITING, dropped=dropped)

    def restore(self, tx: Tx, received_at: int, waits_since: int | None = None) -> Admitted:
        """Admit `tx` after a restart: like `admit`, but its nonce may be any number ahead.

        It was near enough once; those before it may have been written to the journal again, after it. `waits_since`
        is when it began to wait, if it did before the restart.
        """
        return self.admit(tx, received_at, waits_since=waits_since, nonce_gap=MAX_UINT64)

    def note(self, tx: Tx, received_at: int) -> Sequence[Drop]:
        """Add a transaction that another node answers for, with a nonce that its sender has not used yet.

        It is listed when somebody asks, if the rules allow it then. Returns what was dropped to make room.
        """
        if tx.hash in self.listed.entries:
            return ()
        has_room = self.held_count < self._limits.size
        if has_room and tx.sender not in self.listed.lanes and self._noted.add(tx, received_at, self.up_s):
            return ()
        with contextlib.suppress(TxRejected, MempoolFull):
            return self.admit(tx, received_at, local=False).dropped
        return ()

    def list_noted(self, up_s: int | None = None) -> None:
        """List the unlisted transactions: all, or only those of senders whose first one arrived by then."""
        if self._noted.count:
            self._list(self._noted.senders(up_s))

    def _list(self, senders: Iterable[Address]) -> None:
        """There is room for all unlisted ones, and no two have the same nonce, so nothing is dropped."""
        for _, received_at, up_s, tx in self._noted.take(senders):
            with contextlib.suppress(TxRejected, MempoolFull):
                self.admit(tx, received_at, local=False, waits_since=up_s)

    def _check(self, tx: Tx, lane: SenderLane, old: Tx | None, nonce_gap: int | None) -> None:
        limits = self._limits
        lane.check_place(tx, old, limits.nonce_gap if nonce_gap is None else nonce_gap)
        if old is None and len(lane) >= limits.per_sender:
            raise SenderLimit(f"the sender has {limits.per_sender} transactions in the mempool, which is the most")
        lane.check_funds(tx, old)

    def _make_room(self, lane: SenderLane, newcomer: Entry) -> Drop:
        """Drop the worst queued one, or else the last in mining order. The new one must be better than it."""
        queued = newcomer.tx.nonce != lane.next_nonce
        victim = self.listed.find_worst_waiting()
        if victim is not None:
            better = not queued or pays_more(newcomer.bid, victim.bid)
        else:
            victim = self.listed.find_last_ready()
            lead = max(newcomer.bid, lane.ready[-1].lead) if lane.ready else newcomer.bid
            better = victim is not None and not queued and pays_more(lead, victim.lead)
        if victim is None or not better:
            why = "waits for a missing nonce" if queued else "pays no more than the last"
            raise MempoolFull(f"the mempool is full with {self._limits.size} transactions, and this one {why}")
        return self._drop(victim, "evicted")

    # What goes out.

    def confirm(self, txs: Sequence[Tx]) -> list[Drop]:
        """Remove a block's transactions, and those whose nonces it used. `state` must already include the block."""
        confirmed = {tx.hash for tx in txs}
        for tx_hash in confirmed:
            self.drops.pop(tx_hash, None)
        dropped: list[Drop] = []
        for sender in {tx.sender: None for tx in txs}:
            lane = self.listed.lanes.get(sender)
            if lane is not None:
                dropped += self._settle(lane, confirmed)
            elif sender in self._noted.by_sender:
                dropped += self._settle_noted(sender, confirmed)
        return dropped

    def settle_all(self) -> list[Drop]:
        """Drop what is no longer valid, after the state has changed by more than a block."""
        dropped = [drop for sender in self._noted.senders() for drop in self._settle_noted(sender)]
        return dropped + [drop for lane in list(self.listed.lanes.values()) for drop in self._settle(lane)]

    def _settle_noted(self, sender: Address, confirmed: Set[TxHash] = frozenset()) -> list[Drop]:
        passed = self._noted.settle(sender, self._state.account(sender).nonce)
        return [self.drops.note(tx.hash, "nonce used") for tx in passed if tx.hash not in confirmed]

    def _settle(self, lane: SenderLane, confirmed: Set[TxHash] = frozenset()) -> list[Drop]:
        account = self._state.account(lane.sender)
        departed = self.listed.advance(lane, account.nonce)
        dropped = [self.drops.note(entry.tx.hash, "nonce used") for entry in departed if entry.tx.hash not in confirmed]
        lane.balance = account.balance
        return dropped + self._drop_unpaid(lane) if lane.is_overdrawn else dropped

    def _drop_unpaid(self, lane: SenderLane) -> list[Drop]:
        """A block of another node may have spent the balance. Drop from the end of the lane, so that no gap arises."""
        dropped = []
        for entry in reversed(lane.entries_from(lane.nonce)):
            if not lane.is_overdrawn:
                break
            dropped.append(self._drop(entry, "evicted"))
        return dropped

    def remove(self, tx_hash: TxHash) -> list[Drop]:
        """Drop one that no block can include."""
        entry = self.find(tx_hash)
        return [] if entry is None else [self._drop(entry, "evicted")]

    def expire(self) -> list[Drop]:
        """Drop transactions that were queued for `lifetime_s`. What can be mined stays, however old it is."""
        up_s = self.up_s - self._limits.lifetime_s
        self.list_noted(up_s)
        return [self._drop(entry, "expired") for entry in self.listed.waiting_since(up_s)]

    def _drop(self, entry: Entry, reason: DropReason) -> Drop:
        self.listed.remove(entry, self.up_s)
        return self.drops.note(entry.tx.hash, reason)
