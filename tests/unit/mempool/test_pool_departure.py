"""What leaves the mempool, with which reason, and what becomes of the rest."""

import pytest

from cairn.mempool import pool as pool_module
from cairn.mempool.policy import PoolLimits
from tests.support.transfers import address, transfer
from tests.unit.mempool.pools import NOW, PoolWithState


def test_confirmed_ones_leave_without_a_reason() -> None:
    pools = PoolWithState()
    chain = pools.admit_chain(1, [10] * 4)
    assert pools.commit(*chain[:2]) == []
    assert pools.order() == chain[2:]
    assert pools.pool.find(chain[0].hash) is None
    assert pools.pool.reason_dropped(chain[0].hash) is None
    assert pools.pool.next_nonce(address(1)) == 4


def test_nothing_is_left_of_a_sender_whose_last_one_is_confirmed() -> None:
    pools = PoolWithState()
    chain = pools.admit_chain(1, [10] * 2)
    pools.commit(*chain)
    assert pools.pool.page(10) == pools.pool.page(10, None, address(1)) == ([], 0, None)
    assert pools.pool.next_nonce(address(1)) == 2


def test_a_block_of_strangers_changes_nothing() -> None:
    pools = PoolWithState()
    chain = pools.admit_chain(1, [10] * 2)
    assert pools.commit(transfer(5, 0), transfer(5, 1)) == []
    assert pools.order() == chain


def test_one_never_seen_uses_up_a_nonce() -> None:
    pools = PoolWithState()
    ours, next_one = pools.admit_chain(1, [10] * 2)
    foreign = transfer(1, 0, gas_price=50)
    assert pools.commit(foreign) == [(ours.hash, "nonce used")]
    assert pools.pool.reason_dropped(ours.hash) == "nonce used"
    assert pools.order() == [next_one]


def test_ones_never_seen_close_a_gap() -> None:
    pools = PoolWithState()
    overtaken, waiting = transfer(1, 1), transfer(1, 2)
    pools.admit(overtaken, waiting)
    assert pools.commit(transfer(1, 0, value=5), transfer(1, 1, value=5)) == [(overtaken.hash, "nonce used")]
    assert pools.order() == [waiting]
    assert pools.pool.queued_count == 0


def test_a_block_can_overtake_all_of_a_sender() -> None:
    pools = PoolWithState()
    ready, waiting = transfer(1, 0), transfer(1, 2)
    pools.admit(ready, waiting)
    dropped = pools.commit(*(transfer(1, nonce, value=7) for nonce in range(4)))
    assert dropped == [(ready.hash, "nonce used"), (waiting.hash, "nonce used")]
    assert pools.pool.next_nonce(address(1)) == 4


def test_one_that_was_dropped_and_then_confirmed_elsewhere_is_not_called_dropped() -> None:
    pools = PoolWithState()
    old = transfer(1, 0, gas_price=10)
    new = transfer(1, 0, gas_price=20)
    pools.admit(old, new)
    assert pools.commit(old) == [(new.hash, "nonce used")]
    assert pools.pool.reason_dropped(old.hash) is None


def test_what_a_shrunken_balance_no_longer_pays_for_goes_from_the_end() -> None:
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


def test_what_is_too_old_expires() -> None:
    pools = PoolWithState(PoolLimits(lifetime_s=100))
    old, young = transfer(1, 0), transfer(2, 0)
    pools.admit(old, at=NOW)
    pools.admit(young, at=NOW + 1)
    assert pools.pool.expire(NOW + 99) == []
    assert pools.pool.expire(NOW + 100) == [(old.hash, "expired")]
    assert pools.pool.reason_dropped(old.hash) == "expired"
    assert pools.order() == [young]
    assert pools.pool.expire(NOW + 101) == [(young.hash, "expired")]
    assert pools.pool.expire(NOW + 10**6) == []


def test_age_counts_even_when_the_clock_went_back_in_between() -> None:
    pools = PoolWithState(PoolLimits(lifetime_s=100))
    before, after = transfer(1, 0), transfer(2, 0)
    pools.admit(before, at=NOW)
    pools.admit(after, at=NOW - 50)
    assert pools.pool.expire(NOW + 50) == [(after.hash, "expired")]


def test_what_stood_on_an_expired_one_waits_for_its_nonce() -> None:
    pools = PoolWithState(PoolLimits(lifetime_s=100))
    first, second, third = (transfer(1, nonce) for nonce in range(3))
    pools.admit(first, at=NOW + 1)
    pools.admit(second, at=NOW)
    pools.admit(third, at=NOW + 2)
    assert pools.pool.expire(NOW + 100) == [(second.hash, "expired")]
    assert pools.order() == [first]
    assert (pools.pool.queued_count, pools.pool.next_nonce(address(1))) == (1, 1)
    pools.admit(second)
    assert pools.order() == [first, second, third]


def test_a_whole_chain_expires_at_once() -> None:
    pools = PoolWithState()
    pools.admit_chain(1, [10] * 3 + [30] * 3)
    pools.admit(transfer(1, 0, gas_price=20))
    assert len(pools.pool.expire(NOW + 10_800)) == 6
    assert pools.pool.page(10) == ([], 0, None)


def test_a_drop_from_before_a_restart_is_remembered() -> None:
    pools = PoolWithState()
    tx = transfer(1, 0)
    assert pools.pool.reason_dropped(tx.hash) is None
    pools.pool.note_dropped(tx.hash, "evicted")
    assert pools.pool.reason_dropped(tx.hash) == "evicted"


def test_only_so_many_drops_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "DROPS_REMEMBERED", 2)
    pools = PoolWithState()
    txs = [transfer(1, nonce) for nonce in range(3)]
    for tx in txs:
        pools.pool.note_dropped(tx.hash, "expired")
    assert [pools.pool.reason_dropped(tx.hash) for tx in txs] == [None, "expired", "expired"]


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
