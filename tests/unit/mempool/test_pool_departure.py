"""What leaves the mempool, with which reason, and what becomes of the rest."""

import pytest

from cairn.mempool import pool as pool_module
from cairn.mempool.pool import PoolLimits
from tests.support.transfers import address, transfer
from tests.unit.mempool.pools import NOW, PoolWithState


def test_confirmed_transactions_leave_without_a_drop() -> None:
    pools = PoolWithState()
    chain = pools.admit_chain(1, [10] * 4)
    assert pools.commit(*chain[:2]) == []
    assert pools.order() == chain[2:]
    assert pools.pool.find(chain[0].hash) is None
    assert pools.pool.drops.get(chain[0].hash) is None
    assert pools.pool.next_nonce(address(1)) == 4


def test_a_sender_whose_last_transaction_is_confirmed_is_removed() -> None:
    pools = PoolWithState()
    chain = pools.admit_chain(1, [10] * 2)
    pools.commit(*chain)
    assert pools.pool.page(10) == pools.pool.page(10, None, address(1)) == ([], 0, None)
    assert pools.pool.next_nonce(address(1)) == 2


def test_a_block_of_other_senders_changes_nothing() -> None:
    pools = PoolWithState()
    chain = pools.admit_chain(1, [10] * 2)
    assert pools.commit(transfer(5, 0), transfer(5, 1)) == []
    assert pools.order() == chain


def test_an_unknown_transaction_in_a_block_drops_the_one_with_its_nonce() -> None:
    pools = PoolWithState()
    ours, next_one = pools.admit_chain(1, [10] * 2)
    foreign = transfer(1, 0, gas_price=50)
    assert pools.commit(foreign) == [(ours.hash, "nonce used")]
    assert pools.pool.drops.get(ours.hash) == "nonce used"
    assert pools.order() == [next_one]


def test_unknown_transactions_in_a_block_close_a_gap() -> None:
    pools = PoolWithState()
    overtaken, waiting = transfer(1, 1), transfer(1, 2)
    pools.admit(overtaken, waiting)
    assert pools.commit(transfer(1, 0, value=5), transfer(1, 1, value=5)) == [(overtaken.hash, "nonce used")]
    assert pools.order() == [waiting]
    assert pools.pool.queued_count == 0


def test_a_block_can_overtake_all_of_a_sender() -> None:
    pools = PoolWithState()
    pending, queued = transfer(1, 0), transfer(1, 2)
    pools.admit(pending, queued)
    dropped = pools.commit(*(transfer(1, nonce, value=7) for nonce in range(4)))
    assert dropped == [(pending.hash, "nonce used"), (queued.hash, "nonce used")]
    assert pools.pool.next_nonce(address(1)) == 4


def test_a_dropped_transaction_in_a_block_is_no_longer_dropped() -> None:
    pools = PoolWithState()
    old = transfer(1, 0, gas_price=10)
    new = transfer(1, 0, gas_price=20)
    pools.admit(old, new)
    assert pools.commit(old) == [(new.hash, "nonce used")]
    assert pools.pool.drops.get(old.hash) is None


def test_transactions_beyond_a_reduced_balance_are_dropped_from_the_last_nonce() -> None:
    pools = PoolWithState()
    chain = pools.admit_chain(1, [10] * 4)
    waiting = transfer(1, 6)
    pools.admit(waiting)
    pools.state.put(address(1), 3 * chain[0].cost, 0)
    pools.state.apply(chain[0])
    assert pools.pool.confirm([chain[0]]) == [(waiting.hash, "evicted"), (chain[3].hash, "evicted")]
    assert pools.order() == chain[1:3]
    pools.state.put(address(1), 0, 2)
    assert pools.pool.confirm([chain[1]]) == [(chain[2].hash, "evicted")]
    assert pools.pool.page(10) == ([], 0, None)


def test_a_transaction_queued_for_its_lifetime_expires() -> None:
    pools = PoolWithState(PoolLimits(lifetime_s=100))
    old, young = transfer(1, 1), transfer(2, 1)
    pools.pool.up_s = 7
    pools.admit(old)
    pools.pool.up_s = 8
    pools.admit(young)
    assert pools.expire(106) == []
    assert pools.expire(107) == [(old.hash, "expired")]
    assert pools.pool.drops.get(old.hash) == "expired"
    assert pools.listed() == [young]
    assert pools.expire(108) == [(young.hash, "expired")]
    assert pools.expire(10**6) == []


def test_a_pending_transaction_never_expires() -> None:
    pools = PoolWithState()
    chain = pools.admit_chain(1, [10] * 3)
    pools.pool.admit(transfer(2, 0), NOW, local=False)
    assert pools.expire(10**9) == []
    assert pools.order() == [*chain, transfer(2, 0)]


def test_expiry_does_not_depend_on_the_wall_clock() -> None:
    pools = PoolWithState()
    pools.admit(transfer(1, 1), at=0)
    assert pools.expire(10_799) == []


def test_expiry_counts_from_when_a_transaction_was_queued() -> None:
    pools = PoolWithState(PoolLimits(lifetime_s=100))
    first, second, third = pools.admit_chain(1, [10] * 3)
    assert pools.expire(1_000) == []
    pools.pool.remove(second.hash)
    assert pools.expire(1_099) == []
    pools.admit(second)
    assert pools.order() == [first, second, third]
    pools.pool.up_s = 2_000
    pools.pool.remove(first.hash)
    assert pools.expire(2_099) == []
    assert set(pools.expire(2_100)) == {(second.hash, "expired"), (third.hash, "expired")}


def test_a_restored_transaction_keeps_its_time_in_the_queue() -> None:
    pools = PoolWithState(PoolLimits(lifetime_s=100))
    waited, ready = transfer(1, 1), transfer(2, 1)
    pools.pool.up_s = 90
    pools.pool.restore(waited, NOW, 0)
    # It could be mined before the restart, thanks to another node's transaction.
    pools.pool.restore(ready, NOW, None)
    assert pools.expire(100) == [(waited.hash, "expired")]
    assert pools.expire(190) == [(ready.hash, "expired")]


def test_a_replacement_of_a_queued_transaction_begins_its_own_time() -> None:
    pools = PoolWithState(PoolLimits(lifetime_s=100))
    pools.admit(transfer(1, 1, gas_price=10))
    pools.pool.up_s = 60
    new = transfer(1, 1, gas_price=20)
    pools.admit(new)
    assert pools.expire(159) == []
    assert pools.expire(160) == [(new.hash, "expired")]


def test_a_drop_from_before_a_restart_is_remembered() -> None:
    pools = PoolWithState()
    tx = transfer(1, 0)
    assert pools.pool.drops.get(tx.hash) is None
    pools.pool.drops.add(tx.hash, "evicted")
    assert pools.pool.drops.get(tx.hash) == "evicted"


def test_the_number_of_remembered_drops_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "DROPS_REMEMBERED", 2)
    pools = PoolWithState()
    txs = [transfer(1, nonce) for nonce in range(3)]
    for tx in txs:
        pools.pool.drops.add(tx.hash, "expired")
    assert [pools.pool.drops.get(tx.hash) for tx in txs] == [None, "expired", "expired"]


def test_after_a_jump_of_the_state_every_sender_is_looked_at() -> None:
    pools = PoolWithState()
    used, kept, poor = (pools.admit_chain(sender, [10] * 3) for sender in (1, 2, 3))
    waiting = pools.admit_chain(4, [10], first_nonce=5)
    pools.state.put(address(1), 10**18, 2)
    pools.state.put(address(3), poor[0].cost, 0)
    pools.state.put(address(4), 10**18, 6)
    dropped = dict(pools.pool.settle_all())
    assert dropped == {
        used[0].hash: "nonce used",
        used[1].hash: "nonce used",
        poor[1].hash: "evicted",
        poor[2].hash: "evicted",
        waiting[0].hash: "nonce used",
    }
    assert set(pools.order()) == {used[2], *kept, poor[0]}
    assert pools.pool.settle_all() == []
