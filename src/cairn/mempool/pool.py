"""The mempool: what is taken in, in which order it is mined, and what leaves when."""

import contextlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import chain, islice, takewhile
from typing import NamedTuple

import msgspec

from cairn.domain.errors import InvalidQuery, MempoolFull, SenderLimit, TxRejected
from cairn.domain.rules import validate_tx
from cairn.domain.transition import StateView
from cairn.domain.types import MAX_UINT64, TRANSFER_GAS, Account, Address, DropReason, Rules, Tx, TxHash
from cairn.mempool.cursor import Cursor, decode_cursor, encode_cursor
from cairn.mempool.entry import WAITING, Entry
from cairn.mempool.order import Order, SenderLane, bid_of, pays_more
from cairn.mempool.policy import PoolLimits
from cairn.mempool.unlisted import Unlisted

DROPS_REMEMBERED = 100_000

Drop = tuple[TxHash, DropReason]


class Admitted(msgspec.Struct, frozen=True, gc=False):
    added: bool
    """False when the very same transaction was here already."""
    queued: bool
    """It waits for a missing nonce."""
    dropped: tuple[Drop, ...] = ()
    """What had to go for it."""


class Page(NamedTuple):
    entries: list[Entry]
    total: int
    """How many the listing holds, on all pages together."""
    next: str | None


class Mempool:
    """Transactions in mining order, each of them affordable after those of its sender before it.

    `state` may change only together with `confirm`: both must show the same confirmed nonces at every admission.
    """

    def __init__(self, rules: Rules, limits: PoolLimits, state: StateView) -> None:
        self._rules = rules
        self._limits = limits
        self._state = state
        self._entries: dict[TxHash, Entry] = {}
        self._order = Order()
        self._noted = Unlisted()
        self._dropped: OrderedDict[TxHash, DropReason] = OrderedDict()
        self._next_seq = 0
        self.up_s = 0
        """How many seconds the node has been up, in all its lives: whoever has a clock keeps it so."""

    # Questions.

    @property
    def pending_count(self) -> int:
        """How many can be mined as things stand."""
        self.list_noted()
        return self._order.ready_count

    @property
    def queued_count(self) -> int:
        """How many wait for a missing nonce."""
        self.list_noted()
        return self._order.waiting_count

    @property
    def has_waiting(self) -> bool:
        """Whether anything that is listed waits for a missing nonce."""
        return self._order.waiting_count > 0

    @property
    def held_count(self) -> int:
        """All that is here, listed or not: what the limit is for."""
        return len(self._entries) + self._noted.count

    @property
    def next_seq(self) -> int:
        """What the next one to come in gets."""
        return self._next_seq

    def next_nonce(self, sender: Address) -> int:
        """The nonce after the sender's confirmed transactions and those that can be mined."""
        lane = self._find_lane(sender)
        return self._state.account(sender).nonce if lane is None else lane.next_nonce

    def reserved(self, sender: Address) -> int:
        """What the sender's transactions here will cost."""
        lane = self._find_lane(sender)
        return 0 if lane is None else lane.cost

    def _find_lane(self, sender: Address) -> SenderLane | None:
        if sender in self._noted.by_sender:
            self._list([sender])
        return self._order.lanes.get(sender)

    def find(self, tx_hash: TxHash) -> Entry | None:
        entry = self._entries.get(tx_hash)
        if entry is None and self._noted.count:
            self.list_noted()
            return self._entries.get(tx_hash)
        return entry

    def find_listed(self, tx_hash: TxHash) -> Entry | None:
        """Like `find`, but what is only noted stays so, and is not found."""
        return self._entries.get(tx_hash)

    def reason_dropped(self, tx_hash: TxHash) -> DropReason | None:
        """Why a transaction left without being confirmed; only the latest drops are remembered."""
        return self._dropped.get(tx_hash)

    def select(self, gas_limit: int) -> list[Tx]:
        """The transactions of the next block, in order."""
        self.list_noted()
        return [entry.tx for entry in islice(self._order.mining_order(), gas_limit // TRANSFER_GAS)]

    def mining_order(self) -> Iterator[Entry]:
        """All that is listed and can be mined as things stand; the pool must not change meanwhile."""
        return self._order.mining_order()

    def entries_since(self, seq: int) -> list[Entry]:
        """What was listed with `seq` or later, the newest first."""
        return list(takewhile(lambda entry: entry.seq >= seq, reversed(self._entries.values())))

    def ready_from(self, sender: Address, nonce: int) -> Iterator[Entry]:
        """What of a sender is listed and can be mined, by nonce, from `nonce` on."""
        lane = self._order.lanes.get(sender)
        if lane is None:
            return iter(())
        return islice(lane.ready, max(0, nonce - lane.nonce), None)

    def page(self, limit: int, after: str | None = None, sender: Address | None = None) -> Page:
        """In mining order, then what waits by sender and nonce. Raises `InvalidQuery` if `after` does not fit."""
        if sender is not None:
            return self._page_of_sender(limit, after, sender)
        self.list_noted()
        shown = list(islice(self._entries_after(after), limit + 1))
        cursor = self._cursor_at(shown[limit - 1]) if len(shown) > limit else None
        return Page(shown[:limit], len(self._entries), cursor)

    def _entries_after(self, cursor: str | None) -> Iterator[Entry]:
        order = self._order
        if cursor is None:
            return chain(order.mining_order(), order.waiting_order())
        listing, place, nonce = decode_cursor(cursor)
        if listing == "ready":
            return chain(order.mining_order(place, nonce + 1), order.waiting_order())
        if listing == "waiting":
            return order.waiting_order(place, nonce + 1)
        raise InvalidQuery("after: is a cursor of the listing of one sender")

    def _cursor_at(self, entry: Entry) -> str:
        nonce = entry.tx.nonce
        if entry.lead == WAITING:
            return encode_cursor(Cursor("waiting", self._order.lane_of(entry).arrival, nonce))
        return encode_cursor(Cursor("ready", entry.lead, nonce))

    def _page_of_sender(self, limit: int, after: str | None, sender: Address) -> Page:
        first_nonce = 0
        if after is not None:
            cursor = decode_cursor(after)
            if cursor.listing != "sender":
                raise InvalidQuery("after: is a cursor of the listing of all senders")
            first_nonce = cursor.nonce + 1
        lane = self._find_lane(sender)
        if lane is None:
            return Page([], 0, None)
        shown = lane.entries_from(first_nonce)[: limit + 1]
        next_cursor = encode_cursor(Cursor("sender", 0, shown[limit - 1].tx.nonce)) if len(shown) > limit else None
        return Page(shown[:limit], len(lane), next_cursor)

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
        """Take `tx` in. When it raises `TxRejected` or `MempoolFull`, nothing has changed.

        If it has to wait for a missing nonce, it does so from now on, unless `waits_since` names an earlier moment.
        """
        if tx.sender in self._noted.by_sender:
            self._list([tx.sender])
        known = self._entries.get(tx.hash)
        if known is not None:
            return Admitted(added=False, queued=known.lead == WAITING)
        validate_tx(tx, self._rules)
        account = self._state.account(tx.sender)
        lane = self._order.lanes.get(tx.sender)
        if lane is None:
            lane = self._order.new_lane(tx.sender, account)
        else:
            # It may have received something since.
            lane.balance = account.balance
        old = lane.find(tx.nonce)
        self._check(tx, lane, None if old is None else old.tx, nonce_gap)
        if old is None and self._noted.count and self.held_count >= self._limits.size:
            # Before the newcomer gets its number: each of these takes one too.
            self.list_noted()
        entry = Entry(tx, received_at, bid_of(tx.gas_price, self._next_seq), WAITING, local)
        entry.waits_since = self.up_s if waits_since is None else waits_since
        dropped: tuple[Drop, ...] = ()
        if old is not None:
            self._order.replace(lane, old, entry)
            dropped = (self._forget(old, "replaced"),)
        else:
            if len(self._entries) >= self._limits.size:
                dropped = (self._make_room(lane, entry),)
            self._order.add(lane, entry)
        self._next_seq += 1
        self._entries[tx.hash] = entry
        self._dropped.pop(tx.hash, None)
        return Admitted(added=True, queued=entry.lead == WAITING, dropped=dropped)

    def restore(self, tx: Tx, received_at: int, waits_since: int | None = None) -> Admitted:
        """Take `tx` in after a restart: like `admit`, however far ahead its nonce is.

        It was near enough once; those before it may have been written to the journal again, after it. `waits_since`
        is when it began to wait, if it did before the restart.
        """
        return self.admit(tx, received_at, waits_since=waits_since, nonce_gap=MAX_UINT64)

    def note(self, tx: Tx, received_at: int) -> Sequence[Drop]:
        """Take in a transaction that another node answers for, with a nonce that its sender has not used yet.

        It is listed when somebody asks, as far as the rules here let it. Returns what had to go for it.
        """
        if tx.hash in self._entries:
            return ()
        has_room = self.held_count < self._limits.size
        if has_room and self._order.lanes.get(tx.sender) is None and self._noted.add(tx, received_at, self.up_s):
            return ()
        with contextlib.suppress(TxRejected, MempoolFull):
            return self.admit(tx, received_at, local=False).dropped
        return ()

    def list_noted(self, up_s: int | None = None) -> None:
        """Give others' transactions their places: all, or only those of senders whose first one came by then."""
        if self._noted.count:
            self._list(self._noted.senders(up_s))

    def _list(self, senders: Iterable[Address]) -> None:
        """There is room for all that is noted, and no two have the same place: nothing has to go for it."""
        for _, received_at, up_s, tx in self._noted.take(senders):
            with contextlib.suppress(TxRejected, MempoolFull):
                self.admit(tx, received_at, local=False, waits_since=up_s)

    def _check(self, tx: Tx, lane: SenderLane, old: Tx | None, nonce_gap: int | None) -> None:
        limits = self._limits
        lane.check_place(tx, old, limits.price_bump_percent, limits.nonce_gap if nonce_gap is None else nonce_gap)
        if old is None and len(lane) >= limits.per_sender:
            raise SenderLimit(f"{limits.per_sender} transactions of this sender are pending, as many as are held")
        lane.check_funds(tx, old)

    def _make_room(self, lane: SenderLane, newcomer: Entry) -> Drop:
        """Drop the worst that waits, or else the last in mining order; the newcomer must be better than it."""
        queued = newcomer.tx.nonce != lane.next_nonce
        victim = self._order.find_worst_waiting()
        if victim is not None:
            better = not queued or pays_more(newcomer.bid, victim.bid)
        else:
            victim = self._order.find_last_ready()
            lead = max(newcomer.bid, lane.ready[-1].lead) if lane.ready else newcomer.bid
            better = victim is not None and not queued and pays_more(lead, victim.lead)
        if victim is None or not better:
            why = "waits for a missing nonce" if queued else "pays no more than the last"
            raise MempoolFull(f"{self._limits.size} transactions are pending, and this one {why}")
        self._remove(victim)
        return self._forget(victim, "evicted")

    # What goes out.

    def confirm(self, txs: Sequence[Tx]) -> list[Drop]:
        """Let a block's transactions go, and those whose nonces it used. `state` must show the block by now."""
        for tx in txs:
            if self._entries.pop(tx.hash, None) is None:
                self._dropped.pop(tx.hash, None)
        dropped: list[Drop] = []
        confirmed = {tx.hash for tx in txs}
        for sender in {tx.sender: None for tx in txs}:
            lane = self._order.lanes.get(sender)
            if lane is not None:
                dropped += self._settle(lane, self._state.account(sender))
            elif sender in self._noted.by_sender:
                dropped += self._settle_noted(sender, confirmed)
        return dropped

    def _settle_noted(self, sender: Address, confirmed: Set[TxHash] = frozenset()) -> list[Drop]:
        passed = self._noted.settle(sender, self._state.account(sender).nonce)
        return [self.note_dropped(tx.hash, "nonce used") for tx in passed if tx.hash not in confirmed]

    def settle_all(self) -> list[Drop]:
        """Let go what the state has no place for, after it moved on by more than a block."""
        dropped = [drop for sender in self._noted.senders() for drop in self._settle_noted(sender)]
        senders = {entry.tx.sender: None for entry in self._entries.values()}
        lanes = [lane for sender in senders if (lane := self._order.lanes.get(sender)) is not None]
        return dropped + [drop for lane in lanes for drop in self._settle(lane, self._state.account(lane.sender))]

    def _settle(self, lane: SenderLane, account: Account) -> list[Drop]:
        departed = self._order.advance(lane, account.nonce)
        dropped = [self._forget(entry, "nonce used") for entry in departed if entry.tx.hash in self._entries]
        lane.balance = account.balance
        return dropped + self._drop_unpaid(lane) if lane.is_overdrawn else dropped

    def _drop_unpaid(self, lane: SenderLane) -> list[Drop]:
        """Only a block of others' making can take what was reserved here. The end of the lane goes: no new hole."""
        dropped = []
        for entry in reversed(lane.entries_from(lane.nonce)):
            if not lane.is_overdrawn:
                break
            self._remove(entry)
            dropped.append(self._forget(entry, "evicted"))
        return dropped

    def remove(self, tx_hash: TxHash) -> list[Drop]:
        """Let one go that no block will take."""
        entry = self.find(tx_hash)
        if entry is None:
            return []
        self._remove(entry)
        return [self._forget(entry, "evicted")]

    def expire(self) -> list[Drop]:
        """Drop what has waited for a missing nonce for `lifetime_s`. What can be mined stays, however old it is."""
        up_s = self.up_s - self._limits.lifetime_s
        self.list_noted(up_s)
        expired = self._order.waiting_since(up_s)
        for entry in expired:
            self._remove(entry)
        return [self._forget(entry, "expired") for entry in expired]

    def _remove(self, entry: Entry) -> None:
        self._order.remove(self._order.lane_of(entry), entry, self.up_s)

    def note_dropped(self, tx_hash: TxHash, reason: DropReason) -> Drop:
        """Remember a drop, also one that was made before a restart."""
        self._dropped[tx_hash] = reason
        if len(self._dropped) > DROPS_REMEMBERED:
            self._dropped.popitem(last=False)
        return tx_hash, reason

    def _forget(self, entry: Entry, reason: DropReason) -> Drop:
        del self._entries[entry.tx.hash]
        return self.note_dropped(entry.tx.hash, reason)
