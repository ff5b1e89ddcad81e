"""The mempool does what a slow and plainly right one does, whatever happens to both."""

from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cairn.board import Board
from cairn.domain import steps
from cairn.domain.errors import MempoolFull, Rejected
from cairn.domain.steps import finish
from cairn.domain.types import TRANSFER_GAS, Tx
from cairn.mempool.pool import Admitted, InTheMaking, Mempool, PoolLimits
from tests.support.mempool_model import MempoolModel
from tests.support.transfers import RULES, Accounts, address, dynamic, transfer
from tests.support.tx_data import gas_of

SENDERS = [1, 2, 3, 4]
# Neighbours around the least bump of 10 %, and ties.
PRICES = st.sampled_from([10, 10, 11, 12, 20, 21, 22, 40, 9])
CAPS = st.tuples(st.sampled_from([9, 10, 11, 12, 22, 40, 44, 45]), st.sampled_from([0, 1, 2, 9]))
TERMS = PRICES | CAPS
"""A legacy price, or the caps of type 2: fee and tip."""
VALUES = st.sampled_from([0, 1, 500_000, 2_500_000])
DATA = st.sampled_from([b"", b"", b"\0", b"\xff" * 256, bytes(257)])
"""None, a zero byte, the longest, and one byte more than that."""
LIMITS = st.builds(
    PoolLimits,
    size=st.sampled_from([2, 6, 9, 12]),
    per_sender=st.sampled_from([3, 6, 6]),
    nonce_gap=st.sampled_from([1, 3, 3]),
    lifetime_s=st.just(10),
)

# One sender is busier than the others: limits of a sender, and long chains, come up.
senders = st.sampled_from([*SENDERS, 1, 1])


def offer(sender: int, nonce: int, terms: int | tuple[int, int], value: int = 1, data: bytes = b"") -> Tx:
    if isinstance(terms, int):
        return transfer(sender, nonce, gas_price=terms, value=value, data=data)
    return dynamic(sender, nonce, *terms, value=value, data=data)


class MempoolMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.state = Accounts()
        for sender in SENDERS:
            self.state.put(address(sender), 3_000_000, 5)
        self.now = 1_000
        self.seen: list[Tx] = []
        self.board = Board()
        self.known: dict[int, tuple[int, object]] = {}
        """What the board and the mempool last said of each sender."""

    @initialize(limits=LIMITS)
    def start(self, limits: PoolLimits) -> None:
        self.limits = limits
        self.pool = Mempool(RULES, limits, self.state, board=self.board)
        self.model = MempoolModel(RULES, limits, self.state)

    # What comes in.

    @rule(batch=st.lists(st.tuples(senders, st.sampled_from([0, 0, 0, 1]), TERMS, DATA), min_size=1, max_size=8))
    def submit_next(self, batch: list[tuple[int, int, int | tuple[int, int], bytes]]) -> None:
        for sender, ahead, terms, data in batch:
            self.submit(offer(sender, self.model.next_nonce(address(sender)) + ahead, terms, data=data))

    @rule(sender=senders, ahead=st.integers(-1, 8), terms=TERMS, value=VALUES, data=DATA)
    def submit_anywhere(self, sender: int, ahead: int, terms: int | tuple[int, int], value: int, data: bytes) -> None:
        self.submit(offer(sender, self.state.account(address(sender)).nonce + ahead, terms, value, data))

    @precondition(lambda self: self.model.items)
    @rule(data=st.data(), terms=TERMS, value=VALUES)
    def replace(self, data: Any, terms: int | tuple[int, int], value: int) -> None:
        old = data.draw(st.sampled_from(self.model.items)).tx
        self.submit(offer(int.from_bytes(old.sender, "big"), old.nonce, terms, value))

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def submit_again(self, data: Any) -> None:
        self.submit(data.draw(st.sampled_from(self.seen)))

    def submit(self, tx: Tx) -> None:
        self.seen.append(tx)
        known = any(item.tx.hash == tx.hash for item in self.model.items)
        expected = outcome = None
        dropped: list[Any] = []
        try:
            dropped = self.model.admit(tx, self.now)
        except (Rejected, MempoolFull) as refusal:
            expected = type(refusal)
        answer: Admitted | None = None
        try:
            answer = self.pool.admit(tx, self.now)
        except (Rejected, MempoolFull) as refusal:
            outcome = type(refusal)
        assert outcome is expected
        event(f"submitted: {expected.__name__ if expected else ', '.join(reason for _, reason in dropped) or 'taken'}")
        if answer is not None:
            assert answer.added is not known
            assert answer.queued is (tx.nonce >= self.model.next_nonce(tx.sender))
            assert list(answer.dropped) == dropped

    # What goes out.

    @rule(
        count=st.integers(0, 5),
        more=st.sampled_from([0, 3, 4, 4_095, 4_096, 8_192]),
        between=st.lists(st.tuples(senders, st.integers(-1, 3), TERMS, VALUES), max_size=4),
    )
    def mine(self, count: int, more: int, between: list[tuple[int, int, int | tuple[int, int], int]]) -> None:
        """The block's transactions are removed in steps; `between` two of them there are submissions."""
        txs = finish(self.pool.take(count * TRANSFER_GAS + more))
        assert txs == self.model.select(count * TRANSFER_GAS + more)
        assert sum(gas_of(tx.data) for tx in txs) <= count * TRANSFER_GAS + more
        for tx in txs:
            with pytest.raises(InTheMaking):
                self.pool.admit(offer(int.from_bytes(tx.sender, "big"), tx.nonce, 10**6), self.now)
        for tx in txs:
            # Whatever was admitted, each is applicable when its turn comes.
            account = self.state.account(tx.sender)
            assert (tx.nonce, tx.cost <= account.balance) == (account.nonce, True)
            self.state.apply(tx)
        self.model.confirm(txs)
        with mock.patch.object(steps, "STEP_ITEMS", 2):
            settling = self.pool.confirm_steps(txs)
            next(settling)
        self.same_order()
        for sender, ahead, terms, value in between:
            self.submit(offer(sender, self.state.account(address(sender)).nonce + ahead, terms, value))
            self.same_order()
        assert finish(settling) == []

    @rule(sender=senders, count=st.integers(1, 3), ours=st.booleans(), value=st.sampled_from([0, 1, 1_000_000]))
    def take_block_of_others(self, sender: int, count: int, ours: bool, value: int) -> None:
        """A block that this pool did not choose: some of its transactions were never here."""
        block: list[Tx] = []
        for _ in range(count):
            nonce = self.state.account(address(sender)).nonce
            held = [item.tx for item in self.model.of_sender(address(sender)) if item.tx.nonce == nonce]
            tx = held[0] if ours and held else transfer(sender, nonce, value=value, to=sender % 4 + 1)
            if tx.cost > self.state.account(tx.sender).balance:
                break
            self.state.apply(tx)
            block.append(tx)
            ours = not ours
        before = dict(self.model.dropped)
        self.model.confirm(block)
        expected = {(hash, reason) for hash, reason in self.model.dropped.items() if hash not in before}
        dropped = self.pool.confirm(block)
        event(f"block of others dropped: {', '.join(sorted({reason for _, reason in dropped})) or 'nothing'}")
        assert len(dropped) == len(expected)
        assert set(dropped) == expected

    @rule(seconds=st.integers(0, 6), clock_step=st.integers(-20, 20))
    def let_time_pass(self, seconds: int, clock_step: int) -> None:
        self.now += seconds + clock_step
        self.pool.up_s += seconds
        before = dict(self.model.dropped)
        self.model.expire(self.pool.up_s)
        expected = {(hash, reason) for hash, reason in self.model.dropped.items() if hash not in before}
        dropped = self.pool.expire()
        event(f"expired: {bool(dropped)}")
        assert len(dropped) == len(expected)
        assert set(dropped) == expected

    @rule(amount=st.sampled_from([1, 400_000, 3_000_000]), sender=senders)
    def credit(self, amount: int, sender: int) -> None:
        account = self.state.account(address(sender))
        self.state.put(address(sender), account.balance + amount, account.nonce)

    @precondition(lambda self: self.model.items)
    @rule(data=st.data())
    def remove(self, data: Any) -> None:
        """One that no block will take: what stood on it waits from then on."""
        item = data.draw(st.sampled_from(self.model.items))
        self.model.drop(item, "evicted")
        self.model.forget_absent_senders()
        assert self.pool.remove(item.tx.hash) == [(item.tx.hash, "evicted")]

    @rule()
    def restart(self) -> None:
        up_s = self.pool.up_s
        self.board.begin()
        self.pool = Mempool(RULES, self.limits, self.state, board=self.board)
        self.pool.up_s = up_s
        for tx_hash, reason in self.model.dropped.items():
            self.pool.drops.add(tx_hash, reason)
        for item in self.model.items:
            queued_since = self.model.queued_since.get(item.tx.hash)
            assert self.pool.restore(item.tx, item.received_at, queued_since).added
        self.model.restart()

    # What must hold at any time.

    @rule(limit=st.integers(1, 4))
    def page_through(self, limit: int) -> None:
        for sender in (None, *map(address, SENDERS)):
            after, shown = None, []
            while True:
                page = self.pool.page(limit, after, sender)
                shown += [entry.tx for entry in page.entries]
                if page.next is None:
                    break
                assert len(page.entries) == limit
                after = page.next
            assert shown == [
                item.tx
                for item in self.model.mining_order() + self.model.queued()
                if sender is None or item.tx.sender == sender
            ]
            assert page.total == len(shown)

    @invariant()
    def same_order(self) -> None:
        self.model.look(self.pool.up_s)
        order, queued = self.model.mining_order(), self.model.queued()
        page = self.pool.page(self.limits.size)
        assert [(entry.tx, entry.received_at) for entry in page.entries] == [
            (item.tx, item.received_at) for item in order + queued
        ]
        assert (self.pool.pending_count, self.pool.queued_count) == (len(order), len(queued))

    @invariant()
    def same_answers(self) -> None:
        for sender in map(address, SENDERS):
            assert self.pool.next_nonce(sender) == self.model.next_nonce(sender)
        held = {item.tx.hash for item in self.model.items}
        for tx in self.seen:
            assert (self.pool.find(tx.hash) is not None) == (tx.hash in held)
            assert self.pool.drops.get(tx.hash) == self.model.dropped.get(tx.hash)

    @invariant()
    def the_board_shows_what_is_held_and_every_change(self) -> None:
        assert self.board.counts == (self.pool.pending_count, self.pool.queued_count)
        for sender in SENDERS:
            who = address(sender)
            entries = self.pool.page(self.limits.size, sender=who).entries
            assert self.board.holds(who) is bool(entries)
            said = [(entry.tx.hash, self.pool.find_missing_nonce(entry)) for entry in entries]
            # Without any, the next nonce is that of the account, which is no part of the mempool.
            changes, before = self.board.changes_of(who), self.known.get(sender)
            assert before is None or before[0] != changes or before[1] == said
            self.known[sender] = changes, said

    def teardown(self) -> None:
        if not hasattr(self, "pool"):
            return
        self.pool.up_s += 100
        self.pool.expire()
        # What can be mined stays, and nothing else.
        assert [entry.tx for entry in self.pool.page(100).entries] == self.model.select(10**9)
        for tx in self.model.select(10**9):
            self.pool.remove(tx.hash)
        self.pool.up_s += 100
        self.pool.expire()
        assert self.pool.page(1) == ([], 0, None)
        assert self.pool.pending_count == self.pool.queued_count == 0


TestMempool = MempoolMachine.TestCase
TestMempool.settings = settings(
    max_examples=200, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow], deadline=None
)
