"""Others' transactions, which nobody has asked about: in the pool they count, and go by the rules, like all others."""

from cairn.mempool.pool import PoolLimits
from tests.support.transfers import address, transfer
from tests.unit.mempool.pools import NOW, PoolWithState


def test_what_is_noted_counts_and_is_listed_when_somebody_asks() -> None:
    pools = PoolWithState()
    first, second = transfer(1, 0), transfer(2, 0)
    for tx in (first, second):
        assert pools.pool.note(tx, NOW) == ()
    assert pools.pool.held_count == 2
    assert pools.pool.listed.entries_since(0) == []
    assert pools.pool.listed.entries.get(first.hash) is None
    assert pools.order() == [first, second]
    assert (pools.pool.pending_count, pools.pool.held_count) == (2, 2)


def test_a_count_alone_lists_nothing() -> None:
    pools = PoolWithState()
    for tx in (transfer(1, 0), transfer(2, 1), transfer(3, 0)):
        pools.pool.note(tx, NOW)
    assert (pools.pool.pending_count, pools.pool.queued_count) == (0, 0)
    pools.pool.list_noted()
    assert (pools.pool.pending_count, pools.pool.queued_count) == (2, 1)
    assert pools.listed() == [transfer(1, 0), transfer(3, 0), transfer(2, 1)]


def test_a_question_about_one_that_is_listed_lists_no_other() -> None:
    pools = PoolWithState()
    listed, noted = transfer(1, 0), transfer(2, 0)
    pools.admit(listed)
    pools.pool.note(noted, NOW)
    found = pools.pool.find(listed.hash)
    assert found is not None
    assert found.tx == listed
    assert pools.pool.listed.entries.get(listed.hash) is found
    assert pools.pool.listed.entries.get(noted.hash) is None


def test_nothing_is_left_of_a_sender_whose_last_one_was_removed() -> None:
    pools = PoolWithState()
    pools.admit(transfer(1, 0))
    pools.pool.remove(transfer(1, 0).hash)
    pools.pool.note(transfer(1, 0), NOW)
    assert pools.pool.listed.entries.get(transfer(1, 0).hash) is None


def test_what_is_listed_already_is_not_noted() -> None:
    pools = PoolWithState()
    tx = transfer(1, 0)
    pools.admit(tx)
    assert pools.pool.note(tx, NOW) == ()
    assert pools.pool.held_count == 1


def test_one_of_a_sender_with_listed_ones_is_listed_at_once() -> None:
    pools = PoolWithState()
    pools.admit(transfer(1, 0))
    assert pools.pool.note(transfer(1, 1), NOW) == ()
    assert [entry.local for entry in pools.pool.listed.entries_since(0)] == [False, True]


def test_what_the_rules_refuse_is_gone_once_it_is_listed() -> None:
    pools = PoolWithState()
    pools.pool.note(transfer(1, 0, gas_price=9), NOW)
    pools.pool.note(transfer(2, 0), NOW)
    assert pools.order() == [transfer(2, 0)]
    assert pools.pool.held_count == 1


def test_what_a_noted_sender_reserves_is_known() -> None:
    pools = PoolWithState()
    txs = [transfer(1, nonce) for nonce in range(2)]
    for tx in txs:
        pools.pool.note(tx, NOW)
    assert pools.pool.reserved(address(1)) == sum(tx.cost for tx in txs)
    assert pools.pool.reserved(address(2)) == 0


def test_a_newcomer_comes_after_what_was_noted() -> None:
    pools = PoolWithState()
    noted = [transfer(1, 0), transfer(1, 1)]
    for tx in noted:
        pools.pool.note(tx, NOW)
    pools.admit(transfer(1, 2))
    assert pools.listed() == [*noted, transfer(1, 2)]
    assert pools.pool.next_seq == 3


def test_a_block_lets_go_what_is_noted_and_tells_of_what_it_did_not_hold() -> None:
    pools = PoolWithState()
    held, passed, left = (transfer(1, nonce) for nonce in range(3))
    for tx in (held, passed, left):
        pools.pool.note(tx, NOW)
    assert pools.commit(held, transfer(1, 1, value=2)) == [(passed.hash, "nonce used")]
    assert pools.pool.drops.get(passed.hash) == "nonce used"
    assert pools.pool.drops.get(held.hash) is None
    assert pools.pool.held_count == 1
    assert pools.order() == [left]


def test_after_a_jump_of_the_state_what_is_noted_goes_too() -> None:
    pools = PoolWithState()
    noted, listed, left = transfer(1, 0), transfer(2, 0), transfer(3, 0)
    pools.pool.note(noted, NOW)
    pools.pool.note(left, NOW)
    pools.admit(listed)
    for sender in (1, 2):
        pools.state.put(address(sender), 10**18, 1)
    assert pools.pool.settle_all() == [(noted.hash, "nonce used"), (listed.hash, "nonce used")]
    assert pools.pool.held_count == 1
    assert pools.order() == [left]


def test_what_is_noted_behind_a_gap_expires_too() -> None:
    pools = PoolWithState(PoolLimits(lifetime_s=100))
    pools.pool.up_s = 50
    waits, ready = transfer(1, 5), transfer(2, 0)
    pools.pool.note(waits, NOW)
    pools.pool.note(ready, NOW)
    assert pools.expire(149) == []
    assert pools.pool.listed.entries.get(ready.hash) is None
    assert pools.expire(150) == [(waits.hash, "expired")]
    assert pools.order() == [ready]


def test_a_full_pool_takes_another_one_only_in_place_of_a_worse_one() -> None:
    pools = PoolWithState(PoolLimits(size=2))
    cheap, other = transfer(1, 0, gas_price=10), transfer(2, 0, gas_price=11)
    pools.pool.note(cheap, NOW)
    pools.pool.note(other, NOW)
    assert pools.pool.note(transfer(3, 0, gas_price=10), NOW) == ()
    assert pools.pool.held_count == 2
    assert pools.pool.note(transfer(3, 0, gas_price=12), NOW) == ((cheap.hash, "evicted"),)
    assert pools.order() == [transfer(3, 0, gas_price=12), other]


def test_room_is_made_for_a_newcomer_among_what_is_noted_too() -> None:
    pools = PoolWithState(PoolLimits(size=2))
    waits, ready = transfer(1, 5), transfer(2, 0)
    pools.pool.note(waits, NOW)
    pools.pool.note(ready, NOW)
    assert pools.pool.admit(transfer(3, 0), NOW).dropped == ((waits.hash, "evicted"),)
    assert pools.order() == [ready, transfer(3, 0)]
