"""A mempool that is slow and plainly right: one list, searched from front to back for every question."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from cairn.domain import errors
from cairn.domain.rules import validate_tx
from cairn.domain.types import Address, DropReason, Rules, Tx, TxHash
from cairn.mempool.pool import PoolLimits
from tests.support.transfers import Accounts
from tests.support.tx_data import gas_of


@dataclass(frozen=True)
class Item:
    tx: Tx
    received_at: int
    seq: int


class MempoolModel:
    def __init__(self, rules: Rules, limits: PoolLimits, state: Accounts) -> None:
        self.rules = rules
        self.limits = limits
        self.state = state
        self.items: list[Item] = []
        self.arrivals: list[Address] = []
        """Senders that have items, the first to come first."""
        self.dropped: dict[TxHash, DropReason] = {}
        self.seq = 0
        self.queued_since: dict[TxHash, int] = {}
        """Of each that is queued, as of the last `look`."""

    # Questions.

    def of_sender(self, sender: Address) -> list[Item]:
        return sorted((item for item in self.items if item.tx.sender == sender), key=lambda item: item.tx.nonce)

    def next_nonce(self, sender: Address) -> int:
        nonce = self.state.account(sender).nonce
        while any(item.tx.nonce == nonce for item in self.of_sender(sender)):
            nonce += 1
        return nonce

    def ready_of(self, sender: Address) -> list[Item]:
        return [item for item in self.of_sender(sender) if item.tx.nonce < self.next_nonce(sender)]

    def mining_order(self) -> list[Item]:
        """Take the best among the senders' first transactions, until none is left."""
        chains = [self.ready_of(sender) for sender in self.arrivals]
        order = []
        while chains := [chain for chain in chains if chain]:
            best = min(chains, key=lambda chain: (-chain[0].tx.gas_price, chain[0].seq))
            order.append(best.pop(0))
        return order

    def queued(self) -> list[Item]:
        return [
            item
            for sender in self.arrivals
            for item in self.of_sender(sender)
            if item.tx.nonce >= self.next_nonce(sender)
        ]

    def select(self, gas_limit: int) -> list[Tx]:
        """As many from the first on as fit together."""
        txs = [item.tx for item in self.mining_order()]
        return [tx for count, tx in enumerate(txs, 1) if sum(gas_of(each.data) for each in txs[:count]) <= gas_limit]

    # Changes.

    def admit(self, tx: Tx, received_at: int) -> list[tuple[TxHash, DropReason]]:
        """Returns what was dropped for it."""
        if any(item.tx.hash == tx.hash for item in self.items):
            return []
        validate_tx(tx, self.rules)
        account = self.state.account(tx.sender)
        mine = self.of_sender(tx.sender)
        if tx.nonce < account.nonce:
            raise errors.NonceTooLow("")
        if tx.nonce - self.next_nonce(tx.sender) > self.limits.nonce_gap:
            raise errors.NonceTooHigh("")
        old = next((item for item in mine if item.tx.nonce == tx.nonce), None)
        if old and not self.outbids(tx, old.tx):
            raise errors.ReplacementUnderpriced("")
        if not old and len(mine) >= self.limits.per_sender:
            raise errors.SenderLimit("")
        if sum(item.tx.cost for item in mine if item is not old) + tx.cost > account.balance:
            raise errors.InsufficientFunds("")
        if tx.sender not in self.arrivals:
            self.arrivals.append(tx.sender)
        before = dict(self.dropped)
        if old:
            self.drop(old, "replaced")
        elif len(self.items) >= self.limits.size:
            self.make_room(tx)
        self.items.append(Item(tx, received_at, self.seq))
        self.seq += 1
        self.dropped.pop(tx.hash, None)
        self.forget_absent_senders()
        return [(tx_hash, reason) for tx_hash, reason in self.dropped.items() if tx_hash not in before]

    def outbids(self, new: Tx, old: Tx) -> bool:
        bump = Fraction(10, 100)
        return all(
            after > before and after - before >= before * bump
            for after, before in zip(caps(new), caps(old), strict=True)
        )

    def make_room(self, tx: Tx) -> None:
        executable = tx.nonce == self.next_nonce(tx.sender)
        if queued := self.queued():
            victim = min(queued, key=lambda item: (item.tx.gas_price, -item.seq))
            enough = executable or tx.gas_price > victim.tx.gas_price
        else:
            victim = self.mining_order()[-1]
            # A chain is worth what its cheapest link pays: nothing behind that link can be mined before it.
            offered = min(item.tx.gas_price for item in [*self.ready_of(tx.sender), Item(tx, 0, 0)])
            enough = executable and offered > min(item.tx.gas_price for item in self.ready_of(victim.tx.sender))
        if not enough:
            self.forget_absent_senders()
            raise errors.MempoolFull("")
        self.drop(victim, "evicted")

    def confirm(self, txs: Sequence[Tx]) -> None:
        """The state already shows the block."""
        hashes = {tx.hash for tx in txs}
        for tx_hash in hashes:
            self.dropped.pop(tx_hash, None)
        self.items = [item for item in self.items if item.tx.hash not in hashes]
        for item in list(self.items):
            if item.tx.nonce < self.state.account(item.tx.sender).nonce:
                self.drop(item, "nonce used")
        for sender in self.arrivals:
            mine = self.of_sender(sender)
            while sum(item.tx.cost for item in mine) > self.state.account(sender).balance:
                self.drop(mine.pop(), "evicted")
        self.forget_absent_senders()

    def expire(self, up_s: int) -> None:
        for item in self.queued():
            if up_s - self.queued_since[item.tx.hash] >= self.limits.lifetime_s:
                self.drop(item, "expired")
        self.forget_absent_senders()

    def look(self, up_s: int) -> None:
        """After each change: what is queued now and was not before begins to wait."""
        queued = [item.tx.hash for item in self.queued()]
        self.queued_since = {tx_hash: self.queued_since.get(tx_hash, up_s) for tx_hash in queued}

    def restart(self) -> None:
        """What the journal brings back arrives anew, in the old order."""
        self.arrivals = list(dict.fromkeys(item.tx.sender for item in self.items))

    def drop(self, item: Item, reason: DropReason) -> None:
        self.items.remove(item)
        self.dropped[item.tx.hash] = reason

    def forget_absent_senders(self) -> None:
        present = {item.tx.sender for item in self.items}
        self.arrivals = [sender for sender in self.arrivals if sender in present]


def caps(tx: Tx) -> tuple[int, int]:
    """What it pays at most for a unit of gas, and what of that may be a tip; geth has a legacy price for both."""
    return (tx.max_fee, tx.max_tip) if tx.max_fee else (tx.gas_price, tx.gas_price)
