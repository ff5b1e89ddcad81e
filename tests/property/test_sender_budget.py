"""One sender's queue does what a plain list of its transactions says, whatever comes and goes."""

from fractions import Fraction

from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cairn.domain.errors import InsufficientFunds, NonceTooHigh, NonceTooLow, ReplacementUnderpriced, TxRejected
from cairn.domain.rules import SenderBudget
from cairn.domain.types import Account, Tx
from tests.support.transfers import transfer
from tests.support.tx_data import gas_of

# Neighbours around the bump, ties, and no price at all.
PRICES = st.sampled_from([0, 1, 2, 10, 10, 11, 12, 13])
VALUES = st.sampled_from([0, 1, 2, 100_000, 2**256 - 1])
transfers = st.builds(
    lambda ahead, gas_price, value: (ahead, gas_price, value), st.sampled_from([0, 0, 0, -1, 1, 2, -3]), PRICES, VALUES
)


class SenderBudgetMachine(RuleBasedStateMachine):
    @initialize(
        balance=st.integers(0, 2_000_000),
        nonce=st.sampled_from([0, 5]),
        gap=st.sampled_from([0, 2]),
    )
    def start(self, balance: int, nonce: int, gap: int) -> None:
        self.queue = SenderBudget(balance, nonce, nonce)
        self.first, self.gap = nonce, gap
        self.balance = balance
        self.txs: list[Tx] = []

    # The model: nothing is remembered but the transactions.

    @property
    def next_nonce(self) -> int:
        return self.first + len(self.txs)

    def can_pay(self, txs: list[Tx]) -> bool:
        return sum(tx.value + gas_of(tx.data) * tx.gas_price for tx in txs) <= self.balance

    def after(self) -> Account:
        balance, nonce = self.balance, self.first
        for tx in self.txs:
            balance, nonce = balance - tx.value - gas_of(tx.data) * tx.gas_price, nonce + 1
        return Account(balance, nonce)

    def reason_in_block(self, tx: Tx) -> type[TxRejected] | None:
        if tx.nonce < self.next_nonce:
            return NonceTooLow
        if not self.can_pay([*self.txs, tx]):
            return InsufficientFunds
        return NonceTooHigh if tx.nonce > self.next_nonce else None

    def reason_in_queue(self, tx: Tx) -> type[TxRejected] | None:
        old = self.find(tx.nonce)
        others = [other for other in self.txs if other.nonce != tx.nonce]
        if tx.nonce < self.first:
            return NonceTooLow
        if tx.nonce - self.next_nonce > self.gap:
            return NonceTooHigh
        if old is not None and old.hash != tx.hash and not self.outbids(tx, old):
            return ReplacementUnderpriced
        return None if self.can_pay([*others, tx]) else InsufficientFunds

    def outbids(self, tx: Tx, old: Tx) -> bool:
        more = Fraction(10, 100) * old.gas_price
        return tx.gas_price > old.gas_price and tx.gas_price >= old.gas_price + more

    def find(self, nonce: int) -> Tx | None:
        return next((tx for tx in self.txs if tx.nonce == nonce), None)

    # What comes and goes.

    @rule(fields=transfers)
    def take(self, fields: tuple[int, int, int]) -> None:
        """As a block does it."""
        ahead, gas_price, value = fields
        tx = transfer(1, max(0, self.next_nonce + ahead), gas_price=gas_price, value=value)
        expected = self.reason_in_block(tx)
        event(f"taken: {expected.__name__ if expected else 'yes'}")
        if expected is not None:
            assert type(self.queue.refusal(tx)) is expected
        assert self.queue.take(tx, tx.cost) is (expected is None)
        if expected is None:
            self.txs.append(tx)

    @rule(data=st.data(), gas_price=PRICES, value=VALUES)
    def put(self, data: st.DataObject, gas_price: int, value: int) -> None:
        """As a mempool does it: one in the queue, behind it, or beside it."""
        nonce = data.draw(st.integers(max(0, self.first - 1), self.next_nonce + self.gap + 1))
        tx = transfer(1, nonce, gas_price=gas_price, value=value)
        old = self.find(nonce)
        reason: type[TxRejected] | None = None
        try:
            self.queue.check_nonce(tx, old, self.gap)
            self.queue.check_funds(tx, old)
        except TxRejected as refusal:
            reason = type(refusal)
        assert reason is self.reason_in_queue(tx)
        where = "in place of another" if old else "next" if nonce == self.next_nonce else "ahead"
        event(f"put {where}: {reason.__name__ if reason else 'yes'}")
        if reason is None and old is not None:
            self.queue.cost += tx.cost - old.cost
            self.txs[nonce - self.first] = tx
        elif reason is None and nonce == self.next_nonce:
            assert self.queue.take(tx, tx.cost)
            self.txs.append(tx)

    @rule(value=st.integers(0, 300_000))
    def receive(self, value: int) -> None:
        self.queue.balance += value
        self.balance += value

    @precondition(lambda self: self.txs)
    @rule()
    def lose_the_last(self) -> None:
        self.queue.cost -= self.txs.pop().cost
        self.queue.next_nonce -= 1

    @invariant()
    def it_comes_to_the_same(self) -> None:
        assert self.queue.account == self.after()
        assert (self.queue.nonce, self.queue.next_nonce) == (self.first, self.next_nonce)
        assert not self.queue.is_overdrawn


TestSenderQueue = SenderBudgetMachine.TestCase
