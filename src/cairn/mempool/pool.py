"""The mempool: what is admitted, the mining order, and what is dropped."""

import contextlib
from collections.abc import Callable, Iterable, Sequence, Set
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
from cairn.mempool.unheld import Unheld, UnheldTx
from cairn.mempool.unlisted import Unlisted


class Admitted(msgspec.Struct, frozen=True, gc=False):
    added: bool
    """False if the same transaction was already here."""
    queued: bool
    """It is queued: an earlier nonce is missing."""
    dropped: tuple[Drop, ...] = ()
    """What left the mempool for it."""


class Mempool:
    """Transactions in mining order, each of them affordable after those of its sender before it.

    `state` may change only together with `confirm`: both must show the same confirmed nonces at every admission.

    Transactions of other nodes are unlisted until somebody asks for them. Reading `listed` directly does not show them
    and changes nothing; the methods here that look for something list them first, as far as they need them.
    """

    def __init__(self, rules: Rules, limits: PoolLimits, state: StateView, *, is_shared: bool = False) -> None:
        """`is_shared`: other nodes make blocks too, and may confirm what is no longer here.

        What leaves a shared mempool is `unheld`. It has ended only when its nonce is used.
        """
        self.is_shared = is_shared
        self._rules = rules
        self._limits = limits
        self._state = state
        self.listed = Order()
        """The transactions in the mining order; changed only here."""
        self._noted = Unlisted()
        self.unheld = Unheld()
        self.drops = RecentDrops()
        """Those that can no longer be confirmed."""
        self.forgotten: list[TxHash] = []
        """Those about which nothing more can be said. The owner clears the list."""
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

    def find_replacement(self, tx: Tx) -> TxHash | None:
        """What is here with the sender and the nonce of `tx`."""
        lane = self._find_lane(tx.sender)
        entry = None if lane is None else lane.find(tx.nonce)
        return None if entry is None else entry.tx.hash

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
            dropped = (self._leave(old, "replaced"),)
        else:
            if len(order.entries) >= self._limits.size:
                dropped = (self._make_room(lane, entry),)
            order.add(lane, entry)
        self.next_seq += 1
        self.drops.pop(tx.hash, None)
        if self.unheld.by_hash:
            self.unheld.pop(tx.hash)
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
        senders = {tx.sender: None for tx in txs}
        return [drop for sender in senders for drop in self._settle(sender, self._end, confirmed)]

    def settle_all(self) -> list[Drop]:
        """Drop what is no longer valid, after the state has changed by more than a block."""
        return [drop for sender in self._senders() for drop in self._settle(sender, self._end)]

    def jump(self) -> list[Drop]:
        """The same, after blocks that were never seen here: they may have confirmed what has lost its nonce."""
        return [drop for sender in self._senders() for drop in self._settle(sender, self._forget_passed)]

    def _senders(self) -> dict[Address, None]:
        return dict.fromkeys([*self._noted.senders(), *self.listed.lanes, *self.unheld.senders()])

    def _settle(
        self,
        sender: Address,
        end: Callable[[Iterable[TxHash]], list[Drop]],
        confirmed: Set[TxHash] = frozenset(),
    ) -> list[Drop]:
        """Call `end` with those of the sender whose nonces are used, except the confirmed ones."""
        lane = self.listed.lanes.get(sender)
        if lane is None and sender not in self._noted.by_sender and not self.unheld.by_hash:
            return []
        account = self._state.account(sender)
        if lane is not None:
            passed = [entry.tx.hash for entry in self.listed.advance(lane, account.nonce)]
        else:
            passed = [tx.hash for tx in self._noted.settle(sender, account.nonce)]
        if self.unheld.by_hash:
            # Another node may have sent one of these again, which then is unlisted, too.
            passed = list(dict.fromkeys([*passed, *self.unheld.settle(sender, account.nonce)]))
        dropped = end([tx_hash for tx_hash in passed if tx_hash not in confirmed])
        if lane is not None:
            lane.balance = account.balance
            if lane.is_overdrawn:
                dropped += self._drop_unpaid(lane)
        return dropped

    def _end(self, passed: Iterable[TxHash]) -> list[Drop]:
        return [self.drops.note(tx_hash, "nonce used") for tx_hash in passed]

    def _forget_passed(self, passed: Iterable[TxHash]) -> list[Drop]:
        self.forgotten += passed
        return []

    def _drop_unpaid(self, lane: SenderLane) -> list[Drop]:
        """A block of another node may have spent the balance. Drop from the end of the lane, so that no gap arises."""
        dropped = []
        for entry in reversed(lane.entries_from(lane.nonce)):
            if not lane.is_overdrawn:
                break
            dropped.append(self._drop(entry, "evicted"))
        return dropped

    def remove(self, tx_hash: TxHash, reason: DropReason = "evicted") -> list[Drop]:
        """Drop one that no block can include."""
        entry = self.find(tx_hash)
        return [] if entry is None else [self._drop(entry, reason)]

    def forget(self, tx_hash: TxHash) -> None:
        """Remove one that must no longer be shown."""
        entry = self.find(tx_hash)
        if entry is not None:
            self.listed.remove(entry, self.up_s)
        self.unheld.pop(tx_hash)

    def expire(self) -> list[Drop]:
        """Drop transactions that were queued for `lifetime_s`. What can be mined stays, however old it is."""
        up_s = self.up_s - self._limits.lifetime_s
        self.list_noted(up_s)
        return [self._drop(entry, "expired") for entry in self.listed.waiting_since(up_s)]

    def _drop(self, entry: Entry, reason: DropReason) -> Drop:
        self.listed.remove(entry, self.up_s)
        return self._leave(entry, reason)

    def _leave(self, entry: Entry, reason: DropReason) -> Drop:
        return self.leave(UnheldTx(entry.tx, entry.received_at, entry.local, reason))

    def leave(self, left: UnheldTx) -> Drop:
        """It is no longer in the mempool. That is its end only where no other node could confirm it."""
        if not self.is_shared:
            return self.drops.note(left.tx.hash, left.reason)
        self.forgotten += self.unheld.add(left)
        return left.tx.hash, left.reason
