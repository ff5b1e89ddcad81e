"""What left the mempool and may still be confirmed: found by hash, settled by nonce, within limits."""

import pytest

from cairn.board import Board
from cairn.mempool import unheld as unheld_module
from cairn.mempool.pool import Mempool, PoolLimits
from cairn.mempool.unheld import Unheld, UnheldTx
from tests.support.transfers import RULES, Accounts, transfer
from tests.unit.mempool.pools import NOW


def left(sender: int, nonce: int, gas_price: int = 10) -> UnheldTx:
    return UnheldTx(transfer(sender, nonce, gas_price=gas_price), NOW, True, "replaced")


def test_a_used_nonce_settles_those_before_it_and_no_others() -> None:
    unheld = Unheld()
    for each in (left(1, 0), left(1, 1), left(2, 0)):
        assert unheld.add(each) == []
    assert unheld.settle(left(1, 0).tx.sender, 1) == [left(1, 0).tx.hash]
    assert unheld.settle(left(1, 0).tx.sender, 1) == []
    assert unheld.by_hash.get(left(1, 0).tx.hash) is None
    assert unheld.by_hash.get(left(1, 1).tx.hash) == left(1, 1)
    assert unheld.senders() == [left(1, 1).tx.sender, left(2, 0).tx.sender]


def test_beyond_the_limit_of_a_sender_its_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unheld_module, "MOST_OF_SENDER", 2)
    unheld = Unheld()
    other = left(2, 0)
    unheld.add(other)
    ours = [left(1, 0, gas_price) for gas_price in (10, 20, 30)]
    assert [unheld.add(each) for each in ours] == [[], [], [ours[0].tx.hash]]
    assert unheld.by_hash.get(other.tx.hash) == other


def test_beyond_the_limit_of_all_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unheld_module, "MOST", 2)
    unheld = Unheld()
    each = [left(sender, 0) for sender in (1, 2, 3)]
    assert [unheld.add(one) for one in each] == [[], [], [each[0].tx.hash]]
    assert unheld.senders() == [each[1].tx.sender, each[2].tx.sender]


def test_each_that_comes_or_goes_is_a_change_of_its_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unheld_module, "MOST", 2)
    board = Board()
    unheld = Unheld(board)
    each = [left(sender, 0) for sender in (1, 2, 3)]
    for one in each:
        unheld.add(one)
    # The first one had to go for the third.
    assert [board.changes_of(one.tx.sender) for one in each] == [2, 1, 1]
    unheld.settle(each[1].tx.sender, 1)
    assert [board.changes_of(one.tx.sender) for one in each] == [2, 2, 1]
    assert not any(board.holds(one.tx.sender) for one in each), "the next nonce does not depend on them"


def shared_pool(size: int = 10) -> tuple[Mempool, Accounts]:
    state = Accounts()
    for number in range(1, 5):
        state.put(transfer(number, 0).sender, 10**9, 0)
    return Mempool(RULES, PoolLimits(size=size), state, is_shared=True), state


def test_a_transaction_evicted_by_a_spent_balance_is_unheld() -> None:
    pool, state = shared_pool()
    tx = transfer(1, 1)
    pool.admit(transfer(1, 0), NOW)
    pool.admit(tx, NOW)
    state.put(tx.sender, 0, 1)
    assert pool.confirm([transfer(1, 0)]) == [(tx.hash, "evicted")]
    assert tx.hash in pool.unheld.by_hash
    assert pool.drops == {}


def test_an_unheld_transaction_admitted_again_is_dropped_once() -> None:
    pool, state = shared_pool()
    tx = transfer(1, 0)
    pool.admit(tx, NOW, local=False)
    assert pool.remove(tx.hash) == [(tx.hash, "evicted")]
    pool.admit(tx, NOW, local=False)
    state.put(tx.sender, 10**9, 1)
    assert pool.confirm([transfer(1, 0, gas_price=20)]) == [(tx.hash, "nonce used")]
    assert (len(pool.order.entries), tx.hash in pool.unheld.by_hash) == (0, False)


def test_a_forgotten_transaction_is_neither_held_nor_unheld() -> None:
    pool, _ = shared_pool()
    old, new = transfer(1, 0), transfer(1, 0, gas_price=20)
    pool.admit(old, NOW)
    pool.admit(new, NOW)
    for tx in (old, new):
        pool.forget(tx.hash)
        assert (pool.find(tx.hash), pool.unheld.by_hash.get(tx.hash)) == (None, None)
    assert pool.drops == {}
