"""The table of idempotency keys against a list of what happened, whatever comes, fails and expires."""

from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cairn.core import idempotency_keys
from cairn.core.gateway import Admission, KeyedRequest
from cairn.core.idempotency_keys import LIFETIME_S, IdempotencyKeys, KeyedPayment
from cairn.domain.errors import IdempotencyKeyReused
from cairn.domain.types import Tx
from tests.support.transfers import transfer

MOST = 5
PLACES = (None, b"0", b"1", b"2")
keys, requests, places = (
    st.sampled_from([b"a", b"b", b"c", b"d"]),
    st.sampled_from([b"x", b"y"]),
    st.sampled_from(PLACES),
)


class KeysMachine(RuleBasedStateMachine):
    """`known` has the payments of each key; `closed` the keys without an open one, in the order of their closing."""

    @initialize()
    def start(self) -> None:
        self.now = 0.0
        self.table = IdempotencyKeys(lambda: self.now)
        self.known: dict[bytes, dict[bytes | None, KeyedPayment]] = {}
        self.closed: dict[bytes, float] = {}
        self.on_disk: dict[Tx, Admission] = {}
        self.next_nonce = 0

    def forget(self, key: bytes) -> None:
        del self.known[key], self.closed[key]

    def forget_old(self) -> None:
        """What the table does before it looks for a key."""
        for key, closed_at in list(self.closed.items()):
            if closed_at <= self.now - LIFETIME_S:
                self.forget(key)

    def close(self, key: bytes) -> None:
        if not self.known[key]:
            del self.known[key]
        elif all(payment.answer for payment in self.known[key].values()):
            self.closed[key] = self.now
            while sum(len(self.known[each]) for each in self.closed) > MOST:
                self.forget(next(iter(self.closed)))

    @property
    def open_payments(self) -> list[KeyedPayment]:
        return [payment for each in self.known.values() for payment in each.values() if payment.answer is None]

    @rule(key=keys, request=requests, place=places)
    def ask(self, key: bytes, request: bytes, place: bytes | None) -> None:
        keyed = KeyedRequest(key, request, place)
        self.forget_old()
        known = self.known.get(key, {})
        if any(payment.keyed.request != request for payment in known.values()):
            with pytest.raises(IdempotencyKeyReused):
                self.table.find(keyed)
            return
        found = self.table.find(keyed)
        assert found is known.get(place), "paid once, and one answer"
        if found is None:
            payment = self.table.reserve(keyed)
            payment.tx = transfer(1, self.next_nonce)
            self.next_nonce += 1
            if self.closed.pop(key, None) is not None or not known:
                # Behind all others that are open.
                self.known.pop(key, None)
            self.known[key] = {**known, place: payment}

    @precondition(lambda self: self.open_payments)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        payment = data.draw(st.sampled_from(self.open_payments))
        assert payment.tx is not None
        self.on_disk[payment.tx] = Admission(payment.tx.hash)
        self.table.answer(payment, self.on_disk[payment.tx])
        self.close(payment.keyed.key)

    @precondition(lambda self: self.open_payments)
    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        payment = data.draw(st.sampled_from(self.open_payments))
        self.table.release(payment)
        del self.known[payment.keyed.key][payment.keyed.item]
        self.close(payment.keyed.key)

    @rule(seconds=st.sampled_from([1, 60, LIFETIME_S // 2, LIFETIME_S - 1, LIFETIME_S]))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule(data=st.data())
    def reopen(self, data: st.DataObject) -> None:
        """The store fails or is reverted: of open and of answered payments, any may be on disk afterwards."""
        txs = [payment.tx for each in self.known.values() for payment in each.values() if payment.tx is not None]
        kept = data.draw(st.sets(st.sampled_from(txs))) if txs else set()
        self.on_disk = {tx: self.on_disk.get(tx, Admission(tx.hash, confirmed=True)) for tx in txs if tx in kept}
        self.table.match_store(self.on_disk.get)
        was_open = [key for key in self.known if key not in self.closed]
        for key in [*self.closed, *was_open]:
            payments = self.known[key]
            self.known[key] = {place: payment for place, payment in payments.items() if payment.tx in kept}
            if key in was_open:
                self.close(key)
            elif not self.known[key]:
                self.forget(key)

    @invariant()
    def is_bounded(self) -> None:
        assert self.table._closed_payments == sum(len(each.payments) for each in self.table._closed.values()) <= MOST

    @invariant()
    def nothing_open_is_forgotten(self) -> None:
        for payment in self.open_payments:
            assert self.table.find(payment.keyed) is payment
            self.forget_old()


class FewKeys(KeysMachine):
    def __init__(self) -> None:
        super().__init__()
        self.few = patch.object(idempotency_keys, "MOST_PAYMENTS", MOST)
        self.few.start()

    def teardown(self) -> None:
        self.few.stop()


TestIdempotencyKeys = FewKeys.TestCase
TestIdempotencyKeys.settings = settings(max_examples=100, stateful_step_count=40)


def test_of_more_than_a_thousand_keys_the_oldest_go_and_after_an_hour_all() -> None:
    now = 0.0
    table = IdempotencyKeys(lambda: now)

    def keyed(number: int) -> KeyedRequest:
        return KeyedRequest(number.to_bytes(32), bytes(32))

    for number in range(1_500):
        now += 1
        assert table.find(keyed(number)) is None
        table.answer(table.reserve(keyed(number)), Admission(transfer(1, 0).hash))
    assert [number for number in range(1_500) if table.find(keyed(number))] == list(range(500, 1_500))
    # The last 1,000 were answered in the seconds from 501 to 1,500.
    now = 501 + 3_600 + 600
    assert [number for number in range(1_500) if table.find(keyed(number))] == list(range(1_101, 1_500))
    now = 1_500 + 3_600
    assert table.find(keyed(1_499)) is None
    assert not table._closed
