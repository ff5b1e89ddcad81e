"""What the mempool takes in, what it refuses, and what a replacement does."""

import pytest

from cairn.domain.errors import (
    GasPriceTooLow,
    GasTooHigh,
    GasTooLow,
    InsufficientFunds,
    NonceTooHigh,
    NonceTooLow,
    ReplacementUnderpriced,
    SenderLimit,
)
from cairn.domain.types import MAX_UINT64, Rules, Tx
from cairn.mempool.pool import Admitted, Mempool, PoolLimits
from tests.support.transfers import RULES, address, dynamic, transfer
from tests.unit.mempool.pools import NOW, RICH, PoolWithState


def test_the_next_nonce_is_pending() -> None:
    pools = PoolWithState()
    tx = transfer(1, 0)
    assert pools.pool.admit(tx, NOW) == Admitted(added=True, queued=False)
    entry = pools.pool.find(tx.hash)
    assert entry is not None
    assert (entry.tx, entry.received_at) == (tx, NOW)
    assert (pools.pool.pending_count, pools.pool.queued_count) == (1, 0)


def test_a_transaction_after_a_gap_is_queued_until_the_gap_closes() -> None:
    pools = PoolWithState()
    later, between, first = transfer(1, 2), transfer(1, 1), transfer(1, 0)
    assert pools.pool.admit(later, NOW) == Admitted(added=True, queued=True)
    assert pools.pool.admit(between, NOW).queued
    assert (pools.pool.next_nonce(address(1)), pools.order(), pools.pool.queued_count) == (0, [], 2)
    assert not pools.pool.admit(first, NOW).queued
    assert (pools.pool.next_nonce(address(1)), pools.order(), pools.pool.queued_count) == (
        3,
        [first, between, later],
        0,
    )


def test_a_closed_gap_makes_pending_only_up_to_the_next_gap() -> None:
    pools = PoolWithState()
    pools.admit(transfer(1, 1), transfer(1, 3), transfer(1, 0))
    assert [tx.nonce for tx in pools.order()] == [0, 1]
    assert pools.pool.queued_count == 1


def test_a_transaction_in_the_mempool_is_known() -> None:
    pools = PoolWithState()
    pending, queued = transfer(1, 0), transfer(1, 5)
    pools.admit(pending, queued)
    assert pools.pool.admit(pending, NOW + 9) == Admitted(added=False, queued=False)
    assert pools.pool.admit(queued, NOW + 9) == Admitted(added=False, queued=True)
    entry = pools.pool.find(pending.hash)
    assert entry is not None
    assert entry.received_at == NOW


def test_a_known_transaction_is_known_without_reading_the_account() -> None:
    pools = PoolWithState()
    tx = transfer(1, 0)
    pools.admit(tx)
    pools.state.put(address(1), 0, 7)
    assert not pools.pool.admit(tx, NOW).added


@pytest.mark.parametrize(
    ("tx", "error"),
    [
        (transfer(1, 5, gas=20_999), GasTooLow),
        (transfer(1, 5, gas=RULES.block_gas_limit + 1), GasTooHigh),
        (transfer(1, 5, gas_price=9), GasPriceTooLow),
        (transfer(1, 4), NonceTooLow),
        (transfer(1, 5 + 65), NonceTooHigh),
        (transfer(1, MAX_UINT64), NonceTooHigh),
        (transfer(1, 5, value=RICH), InsufficientFunds),
        (transfer(77, 0), InsufficientFunds),
    ],
)
def test_a_refused_transaction_changes_nothing(tx: Tx, error: type[Exception]) -> None:
    pools = PoolWithState()
    pools.state.put(address(1), RICH, 5)
    with pytest.raises(error):
        pools.pool.admit(tx, NOW)
    assert pools.pool.page(10) == ([], 0, None)
    assert pools.pool.next_nonce(address(1)) == 5


def test_the_furthest_nonce_is_64_after_the_next_executable_one() -> None:
    pools = PoolWithState()
    pools.admit_chain(1, [10, 10])
    with pytest.raises(NonceTooHigh, match="nonce is 67; the next one is 2, and 64 ahead is the most"):
        pools.pool.admit(transfer(1, 67), NOW)
    assert pools.pool.admit(transfer(1, 66), NOW).queued


def test_restore_admits_any_nonce_ahead() -> None:
    pools = PoolWithState()
    tx = transfer(1, 500)
    assert pools.pool.restore(tx, NOW) == Admitted(added=True, queued=True)
    with pytest.raises(InsufficientFunds):
        pools.pool.restore(transfer(77, 0), NOW)


def test_exactly_the_balance_is_enough() -> None:
    pools = PoolWithState()
    tx = transfer(1, 0, value=500)
    pools.state.put(address(1), tx.cost - 1, 0)
    with pytest.raises(InsufficientFunds):
        pools.pool.admit(tx, NOW)
    pools.state.put(address(1), tx.cost, 0)
    pools.admit(tx)


@pytest.mark.parametrize(
    "tx",
    [
        dynamic(1, 0, max_fee=1_000, max_tip=1, value=500),
        dynamic(1, 0, max_fee=1_000, max_tip=1_000, value=500),
        transfer(1, 0, value=500, gas=90_000),
    ],
)
def test_funds_must_cover_all_gas_at_the_highest_price_as_in_geth(tx: Tx) -> None:
    pools = PoolWithState()
    assert tx.cost == 500 + (21_000 * 1_000 if tx.max_fee else 90_000 * 10)
    pools.state.put(address(1), tx.cost - 1, 0)
    with pytest.raises(InsufficientFunds, match=f"the account holds {tx.cost - 1}; .* this one cost {tx.cost}"):
        pools.pool.admit(tx, NOW)
    pools.state.put(address(1), tx.cost, 0)
    pools.admit(tx)
    assert pools.pool.reserved(address(1)) == tx.cost
    # Once it is in a block the rest is free again.
    pools.state.apply(tx)
    assert pools.pool.confirm([tx]) == []
    pools.admit(transfer(1, 1, value=tx.cost - tx.debit - 210_000))


def test_funds_must_cover_all_that_is_pending_with_gaps_too() -> None:
    pools = PoolWithState()
    first, gapped, next_one = transfer(1, 0), transfer(1, 2), transfer(1, 1)
    pools.state.put(address(1), first.cost + gapped.cost, 0)
    pools.admit(first, gapped)
    with pytest.raises(
        InsufficientFunds, match=f"the sender's pending transactions and this one cost {3 * first.cost}"
    ):
        pools.pool.admit(next_one, NOW)
    pools.state.put(address(1), 3 * first.cost, 0)
    pools.admit(next_one)


def test_a_sender_over_its_limit_is_refused() -> None:
    pools = PoolWithState(PoolLimits(per_sender=2))
    pools.admit(transfer(1, 0), transfer(1, 5))
    with pytest.raises(SenderLimit):
        pools.pool.admit(transfer(1, 1), NOW)
    # A replacement takes no more room, and other senders have their own share.
    pools.admit(transfer(1, 5, gas_price=11), transfer(2, 0))


@pytest.mark.parametrize(("old", "new", "enough"), [(10, 10, False), (10, 11, True), (15, 16, False), (15, 17, True)])
def test_a_replacement_pays_ten_per_cent_more(old: int, new: int, enough: bool) -> None:
    pools = PoolWithState()
    held, replacement = transfer(1, 0, gas_price=old, value=1), transfer(1, 0, gas_price=new, value=2)
    pools.admit(held)
    if enough:
        admitted = pools.pool.admit(replacement, NOW)
        assert admitted == Admitted(added=True, queued=False, dropped=((held.hash, "replaced"),))
        assert pools.pool.drops.get(held.hash) == "replaced"
        assert pools.order() == [replacement]
    else:
        with pytest.raises(ReplacementUnderpriced):
            pools.pool.admit(replacement, NOW)
        assert pools.order() == [held]


def test_on_a_free_chain_a_replacement_still_pays_more() -> None:
    pools = PoolWithState()
    pool = Mempool(Rules(1, 0, 10**9), PoolLimits(), pools.state)
    pool.admit(transfer(1, 0, gas_price=0), NOW)
    with pytest.raises(ReplacementUnderpriced):
        pool.admit(transfer(1, 0, gas_price=0, value=2), NOW)
    assert pool.admit(transfer(1, 0, gas_price=1), NOW).added


def test_a_replacement_beyond_the_balance_leaves_the_old_one() -> None:
    pools = PoolWithState()
    first, second = transfer(1, 0), transfer(1, 1)
    pools.state.put(address(1), first.cost + second.cost, 0)
    pools.admit(first, second)
    with pytest.raises(InsufficientFunds):
        pools.pool.admit(transfer(1, 0, gas_price=11), NOW)
    assert pools.order() == [first, second]
    assert pools.pool.drops.get(first.hash) is None


def test_a_replacement_frees_what_the_old_one_reserved() -> None:
    pools = PoolWithState()
    old = transfer(1, 0, value=10_000_000)
    pools.state.put(address(1), old.cost, 0)
    pools.admit(old, transfer(1, 0, gas_price=11, value=0), transfer(1, 1, value=1_000_000))


def test_a_queued_transaction_is_replaced_in_its_place() -> None:
    pools = PoolWithState()
    pools.admit(transfer(1, 1))
    assert pools.pool.admit(transfer(1, 1, gas_price=20), NOW).queued
    pools.admit(transfer(1, 0))
    assert [(tx.nonce, tx.gas_price) for tx in pools.order()] == [(0, 10), (1, 20)]


def test_a_dropped_transaction_can_be_admitted_again() -> None:
    pools = PoolWithState()
    cheap, dear = transfer(1, 1, gas_price=10), transfer(1, 1, gas_price=20)
    pools.admit(cheap, dear)
    with pytest.raises(ReplacementUnderpriced):
        pools.pool.admit(cheap, NOW)
    pools.expire(10_800)
    pools.admit(cheap)
    assert pools.pool.drops.get(cheap.hash) is None
    assert pools.pool.drops.get(dear.hash) == "expired"


def test_the_next_nonce_of_a_sender_without_transactions_is_the_confirmed_one() -> None:
    pools = PoolWithState()
    pools.state.put(address(3), 5, 9)
    assert (pools.pool.next_nonce(address(3)), pools.pool.next_nonce(address(77))) == (9, 0)


def test_a_restored_transaction_is_local() -> None:
    pools = PoolWithState()
    tx = transfer(1, 0)
    assert pools.pool.restore(tx, NOW).added
    entry = pools.pool.find(tx.hash)
    assert entry is not None
    assert entry.local
