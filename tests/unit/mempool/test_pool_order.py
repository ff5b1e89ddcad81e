"""The order in which transactions are mined, and who has to make room."""

import pytest

from cairn.domain.errors import MempoolFull
from cairn.domain.types import TRANSFER_GAS
from cairn.mempool.pool import PoolLimits
from tests.support.transfers import address, transfer
from tests.unit.mempool.pools import NOW, PoolWithState


def test_the_highest_price_is_first_then_the_earliest_arrival() -> None:
    pools = PoolWithState()
    txs = [transfer(sender, 0, gas_price=price) for sender, price in [(1, 10), (2, 30), (3, 10), (4, 30)]]
    pools.admit(*txs)
    assert pools.order() == [txs[1], txs[3], txs[0], txs[2]]


def test_transactions_of_a_sender_are_ordered_by_nonce() -> None:
    pools = PoolWithState()
    low, high = pools.admit_chain(1, [10, 90])
    (middle,) = pools.admit_chain(2, [50])
    assert pools.order() == [middle, low, high]


def test_a_transaction_behind_a_cheaper_one_comes_right_after_it() -> None:
    pools = PoolWithState()
    chain = pools.admit_chain(1, [20, 90, 80])
    same_price = pools.admit_chain(2, [20])
    assert pools.order() == chain + same_price


def test_selects_up_to_the_gas_limit() -> None:
    pools = PoolWithState()
    chain = pools.admit_chain(1, [10] * 5)
    assert pools.select(3 * TRANSFER_GAS) == chain[:3]
    assert pools.select(4 * TRANSFER_GAS - 1) == chain[:3]
    assert pools.select(TRANSFER_GAS - 1) == []


def test_a_block_ends_before_the_first_transaction_whose_data_has_no_room_in_it() -> None:
    pools = PoolWithState()
    txs = [transfer(1, 0), transfer(2, 0, data=b"\xff" * 256), transfer(3, 0, data=bytes(256)), transfer(4, 0)]
    pools.admit(*txs)
    gas = [21_000, 21_000 + 256 * 16, 21_000 + 256 * 4, 21_000]
    for count in range(5):
        assert pools.select(sum(gas[:count])) == txs[:count]
        assert pools.select(sum(gas[: count + 1]) - 1) == txs[: min(count, 3)]


def test_select_does_not_change_the_mempool() -> None:
    pools = PoolWithState()
    chain = pools.admit_chain(1, [10] * 3)
    assert pools.order() == pools.order() == chain


def test_replacing_the_first_transaction_moves_its_successors() -> None:
    pools = PoolWithState()
    pools.admit_chain(1, [10, 90])
    pools.admit_chain(2, [50])
    pools.admit(transfer(1, 0, gas_price=60))
    assert [tx.gas_price for tx in pools.order()] == [60, 90, 50]


def test_replacing_a_middle_transaction_moves_its_successors() -> None:
    pools = PoolWithState()
    pools.admit_chain(1, [70, 10, 90, 40])
    pools.admit_chain(2, [50])
    assert [tx.gas_price for tx in pools.order()] == [70, 50, 10, 90, 40]
    pools.admit(transfer(1, 1, gas_price=60))
    assert [tx.gas_price for tx in pools.order()] == [70, 60, 90, 50, 40]


def test_a_replacement_that_is_still_behind_a_cheaper_one_moves_nothing() -> None:
    pools = PoolWithState()
    pools.admit_chain(1, [10, 20, 30])
    pools.admit_chain(2, [15])
    pools.admit(transfer(1, 1, gas_price=99))
    assert [tx.gas_price for tx in pools.order()] == [15, 10, 99, 30]


def test_a_replacement_comes_after_earlier_ones_of_the_same_price() -> None:
    pools = PoolWithState()
    pools.admit_chain(1, [10])
    (other,) = pools.admit_chain(2, [20])
    replacement = transfer(1, 0, gas_price=20)
    pools.admit(replacement)
    assert pools.order() == [other, replacement]


def test_after_the_first_is_mined_the_next_is_ranked_by_its_own_price() -> None:
    pools = PoolWithState()
    low, high = pools.admit_chain(1, [10, 90])
    pools.commit(low)
    (middle,) = pools.admit_chain(2, [50])
    assert pools.order() == [high, middle]


def test_a_queued_transaction_keeps_its_arrival_when_the_gap_closes() -> None:
    pools = PoolWithState()
    early = transfer(1, 1, gas_price=10)
    pools.admit(early)
    (other,) = pools.admit_chain(2, [10])
    closing = transfer(1, 0, gas_price=90)
    pools.admit(closing)
    assert pools.order() == [closing, early, other]


def test_a_full_mempool_evicts_the_worst_queued_first() -> None:
    pools = PoolWithState(PoolLimits(size=4))
    pools.admit_chain(1, [10])
    dear, cheap, cheap_and_late = (transfer(2, nonce, gas_price=price) for nonce, price in [(5, 90), (6, 50), (7, 50)])
    pools.admit(dear, cheap, cheap_and_late)
    newcomer = transfer(3, 0, gas_price=10)
    assert pools.pool.admit(newcomer, NOW).dropped == ((cheap_and_late.hash, "evicted"),)
    assert pools.pool.find(cheap_and_late.hash) is None
    assert pools.pool.drops.get(cheap_and_late.hash) == "evicted"
    assert pools.listed() == [*pools.order(), dear, cheap]


def test_a_queued_newcomer_must_pay_more_than_the_worst_queued() -> None:
    pools = PoolWithState(PoolLimits(size=2))
    held = transfer(1, 5, gas_price=20)
    pools.admit(transfer(2, 0, gas_price=10), held)
    with pytest.raises(MempoolFull):
        pools.pool.admit(transfer(3, 5, gas_price=20), NOW)
    assert pools.pool.admit(transfer(3, 5, gas_price=21), NOW).dropped == ((held.hash, "evicted"),)


def test_a_queued_newcomer_never_evicts_a_pending_transaction() -> None:
    pools = PoolWithState(PoolLimits(size=2))
    pools.admit_chain(1, [10, 10])
    with pytest.raises(MempoolFull):
        pools.pool.admit(transfer(2, 1, gas_price=99), NOW)


def test_a_full_mempool_evicts_the_last_in_mining_order_for_a_higher_price() -> None:
    pools = PoolWithState(PoolLimits(size=3))
    first, tail = pools.admit_chain(1, [20, 10])
    (other,) = pools.admit_chain(2, [15])
    with pytest.raises(MempoolFull):
        pools.pool.admit(transfer(3, 0, gas_price=10), NOW)
    newcomer = transfer(3, 0, gas_price=11)
    assert pools.pool.admit(newcomer, NOW).dropped == ((tail.hash, "evicted"),)
    assert pools.order() == [first, other, newcomer]


def test_a_transaction_behind_a_cheap_one_ranks_no_higher_for_eviction() -> None:
    pools = PoolWithState(PoolLimits(size=3))
    low, high = pools.admit_chain(1, [10, 99])
    (other,) = pools.admit_chain(2, [10])
    # Its own price is good, but it could be mined only after one of its sender that is as cheap as the last.
    with pytest.raises(MempoolFull):
        pools.pool.admit(transfer(2, 1, gas_price=99), NOW)
    newcomer = transfer(3, 0, gas_price=11)
    assert pools.pool.admit(newcomer, NOW).dropped == ((other.hash, "evicted"),)
    assert pools.pool.admit(transfer(4, 0, gas_price=11), NOW).dropped == ((high.hash, "evicted"),)
    assert pools.order()[-1] == low


def test_a_replacement_is_admitted_to_a_full_mempool() -> None:
    pools = PoolWithState(PoolLimits(size=2))
    first, second = pools.admit_chain(1, [10, 10])
    replacement = transfer(1, 0, gas_price=11)
    assert pools.pool.admit(replacement, NOW).dropped == ((first.hash, "replaced"),)
    assert pools.order() == [replacement, second]


def test_a_mempool_of_size_zero_admits_nothing() -> None:
    pools = PoolWithState(PoolLimits(size=0))
    with pytest.raises(MempoolFull):
        pools.pool.admit(transfer(1, 0), NOW)


def test_an_eviction_may_take_the_last_of_the_same_sender() -> None:
    pools = PoolWithState(PoolLimits(size=1))
    waiting, newcomer = transfer(1, 3), transfer(1, 0)
    pools.admit(waiting)
    assert pools.pool.admit(newcomer, NOW).dropped == ((waiting.hash, "evicted"),)
    assert pools.listed() == [newcomer]
    assert pools.pool.next_nonce(address(1)) == 1


def test_closing_a_gap_counts_the_queued_as_pending() -> None:
    pools = PoolWithState()
    pools.admit(transfer(1, 1), transfer(1, 2), transfer(1, 4))
    assert (pools.pool.pending_count, pools.pool.queued_count) == (0, 3)
    pools.admit(transfer(1, 0))
    assert (pools.pool.pending_count, pools.pool.queued_count) == (3, 1)
    pools.commit(*(transfer(1, nonce) for nonce in range(3)))
    assert (pools.pool.pending_count, pools.pool.queued_count) == (0, 1)


def test_a_transaction_no_longer_queued_is_not_evicted_as_queued() -> None:
    pools = PoolWithState(PoolLimits(size=3))
    pools.admit(transfer(1, 1, gas_price=10), transfer(1, 0, gas_price=12), transfer(2, 1, gas_price=11))
    assert pools.pool.admit(transfer(3, 0, gas_price=10), NOW).dropped == (
        (transfer(2, 1, gas_price=11).hash, "evicted"),
    )


def test_a_replacement_reserves_what_it_costs() -> None:
    pools = PoolWithState()
    pools.admit(transfer(1, 0), transfer(1, 0, gas_price=11, value=5))
    assert pools.pool.reserved(address(1)) == transfer(1, 0, gas_price=11, value=5).cost


def test_a_replacement_after_confirmed_transactions_keeps_its_place() -> None:
    pools = PoolWithState()
    pools.state.put(address(1), 10**18, 5)
    chain = pools.admit_chain(1, [10, 10, 10], first_nonce=5)
    better = transfer(1, 6, gas_price=11)
    pools.admit(better)
    assert pools.order() == [chain[0], better, chain[2]]


def test_a_replaced_transaction_leaves_no_trace_in_the_order() -> None:
    pools = PoolWithState()
    better = transfer(1, 0, gas_price=11)
    pools.admit(transfer(1, 0), better)
    pools.commit(better)
    pools.admit(transfer(2, 0))
    assert pools.order() == [transfer(2, 0)]


def test_the_longest_queued_expires_first() -> None:
    pools = PoolWithState(PoolLimits(lifetime_s=100))
    pools.pool.up_s = 90
    pools.admit(transfer(1, 1))
    pools.pool.restore(transfer(2, 1), NOW, queued_since=0)
    assert pools.expire(100) == [(transfer(2, 1).hash, "expired")]
    assert pools.expire(189) == []
    assert pools.expire(190) == [(transfer(1, 1).hash, "expired")]


def test_a_full_mempool_refuses_with_the_reason() -> None:
    pools = PoolWithState(PoolLimits(size=1))
    pools.admit(transfer(1, 0))
    with pytest.raises(MempoolFull, match="this one waits for a missing nonce"):
        pools.pool.admit(transfer(2, 1, gas_price=99), NOW)
    with pytest.raises(MempoolFull, match="this one pays no more than the last"):
        pools.pool.admit(transfer(2, 0), NOW)
