"""The mempool: what is admitted, the mining order, and what is dropped."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal, NamedTuple

import msgspec

from cairn.board import Board
from cairn.domain.errors import InvalidQuery, MempoolFull, SenderLimit
from cairn.domain.lru_cache import LruCache
from cairn.domain.rules import validate_tx
from cairn.domain.state_tree import StateView
from cairn.domain.steps import Steps, finish, in_groups
from cairn.domain.types import MAX_UINT64, TRANSFER_GAS, Address, DropReason, Rules, Tx, TxHash, intrinsic_gas
from cairn.mempool.order import QUEUED, Entry, Order, SenderTxs, bid_of, pays_more
from cairn.mempool.unheld import Unheld, UnheldTx

DROPS_REMEMBERED = 100_000
TAKEN_AT_ONCE = 256
"""How many transactions are taken for a block in one step."""

Drop = tuple[TxHash, DropReason]


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """How much the mempool holds."""

    size: int = 100_000
    per_sender: int = 10_000
    nonce_gap: int = 64
    """How far ahead of its sender's next nonce a transaction may be."""
    lifetime_s: int = 10_800
    """How long a transaction may be queued, in seconds of the node's uptime."""


class RecentDrops(LruCache[TxHash, DropReason]):
    """Why transactions will not be confirmed; the newest ones only."""

    def add(self, tx_hash: TxHash, reason: DropReason) -> Drop:
        self.keep(tx_hash, reason)
        return tx_hash, reason


class Admitted(msgspec.Struct, frozen=True, gc=False):
    added: bool
    """False if the same transaction was already here."""
    queued: bool
    """It is queued: an earlier nonce is missing."""
    dropped: tuple[Drop, ...] = ()
    """What left the mempool for it."""


class InTheMaking(Exception):
    """What would have to leave the mempool is in a block that is being made. After that block, try again."""


class Mempool:
    """Transactions in mining order, each of them affordable after those of its sender before it.

    `state` may change only together with `confirm`: both must show the same confirmed nonces at every admission.

    A block is made in steps, with admissions in between, and so are its transactions removed when it is on disk.
    What was taken for it does not leave before: whatever would replace or evict it has to wait. And whoever asks
    about a sender, or submits something of his, finds his confirmed transactions removed, whichever step comes next.
    """

    def __init__(
        self, rules: Rules, limits: PoolLimits, state: StateView, *, is_shared: bool = False, board: Board | None = None
    ) -> None:
        """`is_shared`: other nodes make blocks too, and may confirm what is no longer here.

        What leaves a shared mempool is `unheld`. It has ended only when its nonce is used. `board` shows every change.
        """
        self._board = board or Board()
        self.is_shared = is_shared
        self._rules = rules
        self._limits = limits
        self._state = state
        self.order = Order(self._board)
        """The transactions; changed only here."""
        self.unheld = Unheld(self._board)
        self.drops = RecentDrops(DROPS_REMEMBERED)
        """Those that can no longer be confirmed."""
        self.forgotten: list[TxHash] = []
        """Those about which nothing more can be said. The owner clears the list."""
        self.next_seq = 0
        """The sequence number of the next one that is admitted."""
        self.up_s = 0
        """The node's uptime in seconds, over all restarts. The owner updates it, since the mempool has no clock."""
        self._taken: dict[Address, int] = {}
        """The senders of the block that is being made, each with the nonce after its transactions there."""
        self._taken_hashes: set[TxHash] = set()
        """The transactions of that block."""
        self.on_given_back: Callable[[], None] = lambda: None
        """Called when none is being made any more: it is on disk, or was given up. Set by the owner."""
        self._unsettled: dict[Address, None] = {}
        """The senders of the latest block whose confirmed transactions are not removed yet."""
        self._confirmed: Set[TxHash] = frozenset()
        """The transactions of that block."""
        self._confirmed_here = 0
        """How many of them are still listed as pending."""
        self._settled_drops: list[Drop] = []

    # Questions.

    @property
    def pending_count(self) -> int:
        """How many can be mined now."""
        return self.order.pending_count - self._confirmed_here

    @property
    def queued_count(self) -> int:
        """How many are queued."""
        return self.order.queued_count

    def next_nonce(self, sender: Address) -> int:
        """The nonce after the sender's confirmed transactions and those that can be mined."""
        sender_txs = self._txs_of(sender)
        return self._state.account(sender).nonce if sender_txs is None else sender_txs.next_nonce

    def reserved(self, sender: Address) -> int:
        """The cost of the sender's transactions here."""
        sender_txs = self._txs_of(sender)
        return 0 if sender_txs is None else sender_txs.cost

    def find(self, tx_hash: TxHash) -> Entry | None:
        entry = self.order.entries.get(tx_hash)
        if entry is not None and self._unsettled and entry.tx.sender in self._unsettled:
            self._settle_confirmed(entry.tx.sender)
            return self.order.entries.get(tx_hash)
        return entry

    def knows(self, tx_hash: TxHash) -> bool:
        """Whether it was admitted here, and the mempool still knows of it."""
        is_held = self.find(tx_hash) is not None or tx_hash in self.unheld.by_hash
        return is_held or self.drops.get(tx_hash) is not None

    def _txs_of(self, sender: Address) -> SenderTxs | None:
        if sender in self._unsettled:
            self._settle_confirmed(sender)
        return self.order.by_sender.get(sender)

    def find_missing_nonce(self, entry: Entry) -> int | None:
        """The first nonce that a queued transaction waits for; None if it can be mined now."""
        return self.order.txs_of_sender(entry).next_nonce if entry.lead == QUEUED else None

    def find_replacement(self, tx: Tx) -> TxHash | None:
        """The transaction in the mempool with the sender and the nonce of `tx`."""
        sender_txs = self._txs_of(tx.sender)
        entry = None if sender_txs is None else sender_txs.find(tx.nonce)
        return None if entry is None else entry.tx.hash

    def page(self, limit: int, after: str | None = None, sender: Address | None = None) -> "Page":
        """A page of all transactions, or of one sender's. Raises `InvalidQuery` if `after` does not fit."""
        if sender is not None:
            return page_of_sender(self._txs_of(sender), limit, after)
        return page_of_all(self.order, limit, after, self._confirmed, self._confirmed_here)

    # What comes in.

    def admit(
        self,
        tx: Tx,
        received_at: int,
        *,
        local: bool = True,
        queued_since: int | None = None,
        nonce_gap: int | None = None,
    ) -> Admitted:
        """Admit `tx`. If it raises `Rejected`, `MempoolFull` or `InTheMaking`, nothing has changed.

        If it is queued, its time in the queue begins now, unless `queued_since` names an earlier moment.
        """
        order, sender = self.order, tx.sender
        if self._unsettled and sender in self._unsettled:
            self._settle_confirmed(sender)
        known = order.entries.get(tx.hash)
        if known is not None:
            return Admitted(added=False, queued=known.lead == QUEUED)
        validate_tx(tx, self._rules)
        account = self._state.account(sender)
        sender_txs = order.by_sender.get(sender)
        if sender_txs is None:
            sender_txs = order.new_sender(sender, account)
        else:
            # The account may have received coins since.
            sender_txs.balance = account.balance
        # Almost always it is the sender's next one: nothing is wrong with its nonce then, and it replaces none.
        old = None if tx.nonce == sender_txs.next_nonce else self._find_old(tx, sender_txs, nonce_gap)
        if old is None and len(sender_txs) >= self._limits.per_sender:
            most = self._limits.per_sender
            raise SenderLimit(f"the sender has {most} transactions in the mempool, which is the most")
        cost = sender_txs.check_funds(tx, None if old is None else old.tx)
        since = self.up_s if queued_since is None else queued_since
        entry = Entry(tx, received_at, bid_of(tx.gas_price, self.next_seq), cost, QUEUED, local, since)
        dropped: tuple[Drop, ...] = ()
        if old is not None:
            order.replace(sender_txs, old, entry)
            dropped = (self._leave(old, "replaced"),)
        else:
            while self._unsettled and len(order.entries) >= self._limits.size:
                self._settle_confirmed(next(iter(self._unsettled)))
            if len(order.entries) >= self._limits.size:
                dropped = (self._make_room(sender_txs, entry),)
            order.add(sender_txs, entry)
        self.next_seq += 1
        self.drops.pop(tx.hash, None)
        if self.unheld.by_hash:
            self.unheld.pop(tx.hash)
        self._show_counts()
        return Admitted(added=True, queued=entry.lead == QUEUED, dropped=dropped)

    def restore(self, tx: Tx, received_at: int, queued_since: int | None = None) -> Admitted:
        """Admit `tx` after a restart: like `admit`, but its nonce may be any number ahead.

        It was near enough once; those before it may have been written to the journal again, after it. `queued_since`
        is when it began to wait, if it did before the restart.
        """
        return self.admit(tx, received_at, queued_since=queued_since, nonce_gap=MAX_UINT64)

    def _find_old(self, tx: Tx, sender_txs: SenderTxs, nonce_gap: int | None) -> Entry | None:
        """The one that `tx` replaces, if there is one. Raises `TxRejected` or `InTheMaking`."""
        old = sender_txs.find(tx.nonce)
        if old is not None and self._taken and self._is_taken(old):
            raise InTheMaking
        gap = self._limits.nonce_gap if nonce_gap is None else nonce_gap
        sender_txs.check_nonce(tx, None if old is None else old.tx, gap)
        return old

    def _make_room(self, sender_txs: SenderTxs, newcomer: Entry) -> Drop:
        """Drop the worst queued one, or else the last in mining order. The new one must be better than it."""
        queued = newcomer.tx.nonce != sender_txs.next_nonce
        victim = self.order.find_worst_queued()
        if victim is not None:
            better = not queued or pays_more(newcomer.bid, victim.bid)
        else:
            victim = self.order.find_last_pending()
            if victim is not None and self._taken and self._is_taken(victim):
                # After the block there is room.
                raise InTheMaking
            lead = max(newcomer.bid, sender_txs.pending[-1].lead) if sender_txs.pending else newcomer.bid
            better = victim is not None and not queued and pays_more(lead, victim.lead)
        if victim is None or not better:
            why = "waits for a missing nonce" if queued else "pays no more than the last"
            raise MempoolFull(f"the mempool is full with {self._limits.size} transactions, and this one {why}")
        return self._drop(victim, "evicted")

    # What goes out, into a block.

    def take(self, gas_limit: int) -> Steps[list[Tx]]:
        """Take the transactions of the next block, in order, up to the first that has no room in it any more.

        They stay here, and do not leave before `confirm` or `give_back`, unless they are removed by name. In between
        there may be admissions, even between two steps.
        """
        self.give_back()
        txs: list[Tx] = []
        taken, by_sender, hashes = self._taken, self.order.by_sender, self._taken_hashes
        gas_left, lead, nonce = gas_limit, 0, 0
        # Not held over a step: the list of leaders may change there.
        while group := list(islice(self.order.mining_order(lead, nonce), TAKEN_AT_ONCE)):
            for entry in group:
                tx = entry.tx
                sender = tx.sender
                # One before it may have been replaced meanwhile, and then be better than those that were taken.
                if tx.nonce != (taken.get(sender) or by_sender[sender].nonce):
                    continue
                # As `tx.gas_used` does: each transaction of each block passes here.
                gas_left -= intrinsic_gas(tx.data) if tx.data else TRANSFER_GAS
                if gas_left < 0:
                    return txs
                taken[sender] = tx.nonce + 1
                txs.append(tx)
                hashes.add(tx.hash)
            lead, nonce = entry.lead, tx.nonce + 1
            yield
        return txs

    def give_back(self) -> None:
        """No block is being made any more of what was taken."""
        if self._taken:
            self._taken, self._taken_hashes = {}, set()
            self.on_given_back()

    def _is_taken(self, entry: Entry) -> bool:
        return entry.tx.nonce < self._taken.get(entry.tx.sender, 0)

    # What goes out.

    def confirm(self, txs: Sequence[Tx]) -> list[Drop]:
        """Remove a block's transactions, and those whose nonces it used, once the state includes the block."""
        return finish(self.confirm_steps(txs))

    def confirm_steps(self, txs: Sequence[Tx]) -> Steps[list[Drop]]:
        """As `confirm`. The first step must come at once; what was dropped is returned after the last."""
        if self._taken and len(txs) == len(self._taken_hashes):
            # As it mostly is. All that was found out before, since nobody else is served in this step.
            self._confirmed, self._unsettled = self._taken_hashes, dict.fromkeys(self._taken)
        else:
            self._confirmed = {tx.hash for tx in txs}
            self._unsettled = dict.fromkeys([tx.sender for tx in txs])
            for tx_hash in self.drops.keys() & self._confirmed:
                self.drops.pop(tx_hash)
        # What was not taken from here may be from elsewhere, and is not removed in steps.
        self._confirmed_here = len(txs) if self._taken else 0
        self._settled_drops = []
        self._show_counts()
        self.give_back()
        for group in in_groups(list(self._unsettled)):
            for sender in group:
                if sender in self._unsettled:
                    self._settle_confirmed(sender)
            self.order.tidy()
            yield
        self.order.tidy_all()
        self._confirmed, self._confirmed_here = frozenset(), 0
        self._show_counts()
        return self._settled_drops

    def _settle_confirmed(self, sender: Address) -> None:
        del self._unsettled[sender]
        if dropped := self._settle(sender, self._end, self._confirmed):
            self._settled_drops += dropped

    def settle_all(self) -> list[Drop]:
        """Drop what is no longer valid, after the state has changed by more than a block."""
        return self._settle_all(self._senders(), self._end)

    def settle_after_unseen_blocks(self) -> list[Drop]:
        """Forget what is no longer valid, after blocks that were never seen here: they may have confirmed it."""
        return self._settle_all(self._senders(), self._forget_passed)

    def _senders(self) -> dict[Address, None]:
        return dict.fromkeys([*self.order.by_sender, *self.unheld.senders()])

    def _settle_all(
        self,
        senders: Iterable[Address],
        end: Callable[[Iterable[TxHash]], list[Drop]],
        confirmed: Set[TxHash] = frozenset(),
    ) -> list[Drop]:
        dropped = [drop for sender in senders for drop in self._settle(sender, end, confirmed)]
        self.order.tidy_all()
        self._show_counts()
        return dropped

    def _settle(
        self,
        sender: Address,
        end: Callable[[Iterable[TxHash]], list[Drop]],
        confirmed: Set[TxHash],
    ) -> list[Drop]:
        """Call `end` with those of the sender whose nonces are used, except the confirmed ones."""
        sender_txs = self.order.by_sender.get(sender)
        if sender_txs is None and not self.unheld.by_hash:
            return []
        account = self._state.account(sender)
        passed = [] if sender_txs is None else self.order.advance(sender_txs, account.nonce)
        if self._confirmed_here:
            self._confirmed_here -= len(passed)
        used = [entry.tx.hash for entry in passed if entry.tx.hash not in confirmed]
        if self.unheld.by_hash:
            used += [tx_hash for tx_hash in self.unheld.settle(sender, account.nonce) if tx_hash not in confirmed]
        dropped = end(used) if used else []
        if sender_txs is not None:
            sender_txs.balance = account.balance
            if sender_txs.is_overdrawn:
                dropped += self._drop_unpaid(sender_txs)
        return dropped

    def _end(self, passed: Iterable[TxHash]) -> list[Drop]:
        return [self.drops.add(tx_hash, "nonce used") for tx_hash in passed]

    def _forget_passed(self, passed: Iterable[TxHash]) -> list[Drop]:
        self.forgotten += passed
        return []

    def _drop_unpaid(self, sender_txs: SenderTxs) -> list[Drop]:
        """A block of another node may have spent the balance. Drop from the last nonce on, so that no gap arises."""
        dropped = []
        for entry in reversed(sender_txs.entries_from(sender_txs.nonce)):
            if not sender_txs.is_overdrawn:
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
            self.order.remove(entry, self.up_s)
        self.unheld.pop(tx_hash)
        self._show_counts()

    def expire(self) -> list[Drop]:
        """Drop transactions that were queued for `lifetime_s`. What can be mined stays, however old it is."""
        up_s = self.up_s - self._limits.lifetime_s
        return [self._drop(entry, "expired") for entry in self.order.queued_since(up_s)]

    def _show_counts(self) -> None:
        # Not by `pending_count`: each admission passes here.
        order = self.order
        self._board.show_counts(order.pending_count - self._confirmed_here, order.queued_count)

    def _drop(self, entry: Entry, reason: DropReason) -> Drop:
        self.order.remove(entry, self.up_s)
        self._show_counts()
        return self._leave(entry, reason)

    def _leave(self, entry: Entry, reason: DropReason) -> Drop:
        return self.leave(UnheldTx(entry.tx, entry.received_at, entry.local, reason))

    def leave(self, left: UnheldTx) -> Drop:
        """It is no longer in the mempool. That is its end only where no other node could confirm it."""
        if not self.is_shared:
            return self.drops.add(left.tx.hash, left.reason)
        self.forgotten += self.unheld.add(left)
        return left.tx.hash, left.reason


# Pages. A cursor names a place in the order, so it stays valid when its item is gone.

Listing = Literal["pending", "queued", "sender"]

_LETTERS: dict[Listing, str] = {"pending": "r", "queued": "w", "sender": "s"}
_LISTINGS: dict[str, Listing] = {letter: listing for listing, letter in _LETTERS.items()}
_SHAPE = re.compile(r"([rws])([0-9a-f]{1,80})-([0-9a-f]{1,16})")


class Page(NamedTuple):
    entries: list[Entry]
    total: int
    """How many there are on all pages."""
    next: str | None


class Cursor(NamedTuple):
    listing: Listing
    place: int
    """A lead in `pending`, a sender's arrival in `queued`; 0 in the listing of one sender."""
    nonce: int


def encode_cursor(cursor: Cursor) -> str:
    return f"{_LETTERS[cursor.listing]}{cursor.place:x}-{cursor.nonce:x}"


def decode_cursor(text: str) -> Cursor:
    """Read a cursor that a page had for the next one. Raises `InvalidQuery`."""
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise InvalidQuery("after: is not a cursor of this node")
    letter, place, nonce = match.groups()
    return Cursor(_LISTINGS[letter], int(place, 16), int(nonce, 16))


def page_of_all(
    order: Order, limit: int, after: str | None, confirmed: Set[TxHash] = frozenset(), confirmed_here: int = 0
) -> Page:
    """In mining order, then the queued ones by sender and nonce. Raises `InvalidQuery` if `after` does not fit.

    So many of the `confirmed` ones are still in the order, and not shown.
    """
    entries = _entries_after(order, after)
    if confirmed_here:
        entries = (entry for entry in entries if entry.tx.hash not in confirmed)
    shown = list(islice(entries, limit + 1))
    cursor = _cursor_at(order, shown[limit - 1]) if len(shown) > limit else None
    return Page(shown[:limit], len(order.entries) - confirmed_here, cursor)


def page_of_sender(sender_txs: SenderTxs | None, limit: int, after: str | None) -> Page:
    """By nonce. `sender_txs` is None if the sender has none. Raises `InvalidQuery` if `after` does not fit."""
    first_nonce = 0
    if after is not None:
        cursor = decode_cursor(after)
        if cursor.listing != "sender":
            raise InvalidQuery("after: is a cursor of the listing of all senders")
        first_nonce = cursor.nonce + 1
    if sender_txs is None:
        return Page([], 0, None)
    shown = sender_txs.entries_from(first_nonce)[: limit + 1]
    next_cursor = encode_cursor(Cursor("sender", 0, shown[limit - 1].tx.nonce)) if len(shown) > limit else None
    return Page(shown[:limit], len(sender_txs), next_cursor)


def _entries_after(order: Order, cursor: str | None) -> Iterator[Entry]:
    if cursor is None:
        return chain(order.mining_order(), order.queued_order())
    listing, place, nonce = decode_cursor(cursor)
    if listing == "pending":
        return chain(order.mining_order(place, nonce + 1), order.queued_order())
    if listing == "queued":
        return order.queued_order(place, nonce + 1)
    raise InvalidQuery("after: is a cursor of the listing of one sender")


def _cursor_at(order: Order, entry: Entry) -> str:
    nonce = entry.tx.nonce
    if entry.lead == QUEUED:
        return encode_cursor(Cursor("queued", order.txs_of_sender(entry).arrival, nonce))
    return encode_cursor(Cursor("pending", entry.lead, nonce))
