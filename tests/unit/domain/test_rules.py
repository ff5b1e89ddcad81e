"""The checks of one transaction, at and beside each bound."""

import msgspec
import pytest

from cairn.domain.errors import (
    DataTooLong,
    GasPriceTooLow,
    GasTooHigh,
    GasTooLow,
    InsufficientFunds,
    NonceTooHigh,
    NonceTooLow,
    ReplacementUnderpriced,
    TxRejected,
)
from cairn.domain.rules import SenderBudget, check_replacement, least_replacement_price, validate_tx
from cairn.domain.types import DYNAMIC_FEE, MAX_UINT64, MAX_UINT256, ZERO_ADDRESS, Account, Rules, Tx, TxHash
from tests.support.transfers import transfer

RULES = Rules(chain_id=1337, gas_price=10, block_gas_limit=42_000)


def tx_with(gas: int = 21_000, gas_price: int = 10, nonce: int = 3, value: int = 5) -> Tx:
    return Tx(TxHash(bytes(32)), ZERO_ADDRESS, ZERO_ADDRESS, nonce, gas, gas_price, value, bytes(65))


@pytest.mark.parametrize("gas", [21_000, 42_000])
@pytest.mark.parametrize("gas_price", [10, MAX_UINT256])
@pytest.mark.parametrize("nonce", [0, MAX_UINT64 - 1])
def test_gas_price_and_nonce_at_their_bounds_are_accepted(gas: int, gas_price: int, nonce: int) -> None:
    validate_tx(tx_with(gas=gas, gas_price=gas_price, nonce=nonce), RULES)


def test_gas_below_21_000_is_refused() -> None:
    with pytest.raises(GasTooLow, match="gas is 20999; a transfer takes 21000"):
        validate_tx(tx_with(gas=20_999), RULES)


@pytest.mark.parametrize(("data", "needed"), [(b"\0", 21_004), (b"x", 21_016), (b"x\0x", 21_036), (b"x" * 256, 25_096)])
def test_data_needs_16_gas_a_byte_and_4_a_zero_byte(data: bytes, needed: int) -> None:
    validate_tx(msgspec.structs.replace(tx_with(gas=needed), data=data), RULES)
    with pytest.raises(GasTooLow, match=f"gas is {needed - 1}; a transfer with this data takes {needed}"):
        validate_tx(msgspec.structs.replace(tx_with(gas=needed - 1), data=data), RULES)


@pytest.mark.parametrize("most", [0, 1, 255])
def test_more_data_than_the_chain_allows_is_refused(most: int) -> None:
    rules = msgspec.structs.replace(RULES, max_data_bytes=most)
    tx = tx_with(gas=30_000)
    validate_tx(msgspec.structs.replace(tx, data=b"x" * most), rules)
    taken = f"{most} at most" if most else "no data"
    with pytest.raises(DataTooLong, match=f"the data has {most + 1} bytes; this chain takes {taken}"):
        validate_tx(msgspec.structs.replace(tx, data=b"x" * (most + 1)), rules)


def test_gas_above_the_block_gas_limit_is_refused() -> None:
    with pytest.raises(GasTooHigh, match="gas is 42001; a block has 42000"):
        validate_tx(tx_with(gas=42_001), RULES)


def test_a_gas_price_below_the_chains_is_refused() -> None:
    with pytest.raises(GasPriceTooLow, match="gasPrice is 9; this chain takes 10 or more"):
        validate_tx(tx_with(gas_price=9), RULES)


def test_a_max_fee_below_the_base_fee_is_refused() -> None:
    tx = msgspec.structs.replace(tx_with(gas_price=9), kind=DYNAMIC_FEE, max_fee=9, max_tip=2)
    with pytest.raises(GasPriceTooLow, match=r"max fee per gas less than .*: maxFeePerGas: 9, baseFee: 10$"):
        validate_tx(tx, RULES)


def test_the_largest_64_bit_nonce_is_refused() -> None:
    with pytest.raises(NonceTooHigh, match=str(MAX_UINT64)):
        validate_tx(tx_with(nonce=MAX_UINT64), RULES)


# Which transaction of a sender may be next.


COST = transfer(1, 0).cost


def priced(*prices: int) -> Tx:
    """With a gas price, or with a cap and a tip."""
    if len(prices) == 1:
        return transfer(1, 3, gas_price=prices[0])
    max_fee, max_tip = prices
    return msgspec.structs.replace(transfer(1, 3), kind=DYNAMIC_FEE, max_fee=max_fee, max_tip=max_tip)


def queue_of(balance: int, nonce: int = 3) -> SenderBudget:
    return SenderBudget(balance, nonce, nonce)


def take(queue: SenderBudget, tx: Tx) -> bool:
    return queue.take(tx, tx.cost)


def filled(count: int, balance: int) -> SenderBudget:
    queue = queue_of(balance)
    assert all(take(queue, transfer(1, 3 + number)) for number in range(count))
    return queue


# What is taken.


def test_transactions_with_the_next_nonces_are_taken_until_the_balance_is_used() -> None:
    queue = filled(2, balance=2 * COST)
    assert (queue.nonce, queue.next_nonce, queue.cost) == (3, 5, 2 * COST)
    assert queue.account == Account(0, 5)


@pytest.mark.parametrize("balance", [0, COST - 1])
def test_a_transaction_above_the_balance_is_not_taken(balance: int) -> None:
    queue = filled(1, balance=COST + balance)
    assert not take(queue, transfer(1, 4))
    assert queue.account == Account(balance, 4)


@pytest.mark.parametrize("nonce", [2, 3, 5])
def test_a_nonce_that_is_not_the_next_one_is_not_taken(nonce: int) -> None:
    queue = filled(1, balance=10 * COST)
    assert not take(queue, transfer(1, nonce))
    assert queue.account == Account(9 * COST, 4)


def test_a_balance_that_grows_pays_for_more_transactions() -> None:
    queue = filled(1, balance=COST)
    queue.balance += COST
    assert take(queue, transfer(1, 4))
    assert queue.account == Account(0, 5)


# Why not, in a block.


@pytest.mark.parametrize(
    ("nonce", "left", "kind", "words"),
    [
        (3, 10 * COST, NonceTooLow, "nonce is 3; the account's next one is 4"),
        (4, COST - 1, InsufficientFunds, f"the transfer costs {COST} with its fee; the account holds {COST - 1}"),
        (5, COST, NonceTooHigh, "nonce is 5; the account's next one is 4"),
        # Of two reasons, on every node the same one.
        (3, 0, NonceTooLow, "nonce is 3"),
        (5, COST - 1, InsufficientFunds, f"the account holds {COST - 1}"),
    ],
)
def test_the_first_reason_of_a_refusal_in_a_block_is_the_same_on_every_node(
    nonce: int, left: int, kind: type[TxRejected], words: str
) -> None:
    queue = filled(1, balance=COST + left)
    refusal = queue.refusal(transfer(1, nonce))
    assert type(refusal) is kind
    assert words in refusal.detail


def test_a_cost_beyond_256_bits_is_refused_for_insufficient_funds() -> None:
    queue = queue_of(MAX_UINT256)
    dearest = transfer(1, 3, gas_price=MAX_UINT256, value=MAX_UINT256)
    assert not take(queue, dearest)
    assert isinstance(queue.refusal(dearest), InsufficientFunds)


# Where one may stand.


def test_a_used_nonce_is_refused_as_too_low() -> None:
    with pytest.raises(NonceTooLow, match="nonce is 2; the account's next one is 3"):
        filled(2, 10 * COST).check_nonce(transfer(1, 2), None)


def test_a_nonce_further_ahead_than_the_gap_is_refused() -> None:
    queue = filled(2, 10 * COST)
    queue.check_nonce(transfer(1, 5), None)
    with pytest.raises(NonceTooHigh, match="nonce is 6; the sender's next one is 5"):
        queue.check_nonce(transfer(1, 6), None)
    queue.check_nonce(transfer(1, 8), None, nonce_gap=3)
    with pytest.raises(NonceTooHigh, match="nonce is 9; the next one is 5, and 3 ahead is the most"):
        queue.check_nonce(transfer(1, 9), None, nonce_gap=3)


@pytest.mark.parametrize(
    ("price", "least"), [(10, 11), (11, 13), (19, 21), (20, 22), (0, 1), (1, 2), (10**9, 1_100_000_000)]
)
def test_a_replacement_must_pay_ten_percent_more(price: int, least: int) -> None:
    old = transfer(1, 3, gas_price=price)
    assert least_replacement_price(price) == least
    queue = filled(1, 10 * COST)
    queue.check_nonce(transfer(1, 3, gas_price=least), old)
    with pytest.raises(ReplacementUnderpriced, match=f"pays {price}, and a replacement must pay 10 % more"):
        queue.check_nonce(transfer(1, 3, gas_price=least - 1, value=2), old)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (priced(22, 2), priced(20, 1)),
        (priced(22), priced(20, 1)),
        (priced(22, 22), priced(20)),
    ],
)
def test_both_caps_far_enough_above_replace(new: Tx, old: Tx) -> None:
    check_replacement(new, old)


@pytest.mark.parametrize(
    ("new", "old", "words"),
    [
        (priced(21), priced(20), "gasPrice is 21; .* pays 20, and"),
        (priced(21, 2), priced(20, 1), "maxFeePerGas is 21; .* pays 20, and"),
        (priced(22, 1), priced(20, 1), "maxPriorityFeePerGas is 1; .* pays 1, and"),
        (priced(21), priced(20, 1), "gasPrice is 21; .* pays 20 as maxFeePerGas, and"),
        (priced(22, 21), priced(20), "maxPriorityFeePerGas is 21; .* pays 20 as maxPriorityFeePerGas, and"),
    ],
)
def test_a_replacement_with_a_cap_raised_too_little_is_refused_by_that_cap(new: Tx, old: Tx, words: str) -> None:
    with pytest.raises(ReplacementUnderpriced, match=f": {words}"):
        check_replacement(new, old)


def test_the_same_one_again_is_no_replacement() -> None:
    filled(1, 10 * COST).check_nonce(transfer(1, 3), transfer(1, 3))


# Whether all can be paid for.


def test_all_that_is_queued_must_be_paid_for() -> None:
    queue = filled(2, balance=3 * COST)
    queue.check_funds(transfer(1, 5))
    with pytest.raises(InsufficientFunds, match=f"holds {3 * COST}; .* and this one cost {3 * COST + 1}"):
        queue.check_funds(transfer(1, 5, value=2))


def test_a_replacement_is_paid_for_without_the_transaction_that_it_replaces() -> None:
    queue = filled(2, balance=2 * COST)
    queue.check_funds(transfer(1, 4, value=1), transfer(1, 4))
    with pytest.raises(InsufficientFunds):
        queue.check_funds(transfer(1, 4, value=2), transfer(1, 4))


def test_a_block_of_others_can_overdraw_a_queue() -> None:
    queue = filled(2, balance=2 * COST)
    seen = [queue.is_overdrawn]
    queue.balance -= 1
    seen.append(queue.is_overdrawn)
    queue.cost -= COST
    seen.append(queue.is_overdrawn)
    queue.cost += COST
    seen.append(queue.is_overdrawn)
    assert seen == [False, True, False, True]
