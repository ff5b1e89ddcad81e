"""The checks of one transaction, at and beside each bound."""

import msgspec
import pytest

from cairn.domain.errors import GasPriceTooLow, GasTooHigh, GasTooLow, InvalidField, NonceTooHigh
from cairn.domain.rules import check_caps, price_terms, validate_tx
from cairn.domain.types import (
    ACCESS_LIST,
    DYNAMIC_FEE,
    LEGACY,
    MAX_UINT64,
    MAX_UINT256,
    ZERO_ADDRESS,
    Rules,
    Tx,
    TxHash,
)

RULES = Rules(chain_id=1337, gas_price=10, block_gas_limit=42_000)


def tx_with(gas: int = 21_000, gas_price: int = 10, nonce: int = 3, value: int = 5) -> Tx:
    return Tx(TxHash(bytes(32)), ZERO_ADDRESS, ZERO_ADDRESS, nonce, gas, gas_price, value, bytes(65))


@pytest.mark.parametrize("gas", [21_000, 42_000])
@pytest.mark.parametrize("gas_price", [10, MAX_UINT256])
@pytest.mark.parametrize("nonce", [0, MAX_UINT64 - 1])
def test_the_bounds_themselves_are_taken(gas: int, gas_price: int, nonce: int) -> None:
    validate_tx(tx_with(gas=gas, gas_price=gas_price, nonce=nonce), RULES)


def test_too_little_gas() -> None:
    with pytest.raises(GasTooLow, match="gas is 20999; a transfer takes 21000"):
        validate_tx(tx_with(gas=20_999), RULES)


def test_more_gas_than_a_block_has() -> None:
    with pytest.raises(GasTooHigh, match="gas is 42001; a block has 42000"):
        validate_tx(tx_with(gas=42_001), RULES)


def test_too_low_a_price() -> None:
    with pytest.raises(GasPriceTooLow, match="gasPrice is 9; this chain takes 10 or more"):
        validate_tx(tx_with(gas_price=9), RULES)


def test_too_low_a_cap() -> None:
    tx = msgspec.structs.replace(tx_with(gas_price=9), kind=DYNAMIC_FEE, max_fee=9, max_tip=2)
    with pytest.raises(GasPriceTooLow, match=r"max fee per gas less than .*: maxFeePerGas: 9, baseFee: 10$"):
        validate_tx(tx, RULES)


def test_the_nonce_after_the_last_one_would_not_fit() -> None:
    with pytest.raises(NonceTooHigh, match=str(MAX_UINT64)):
        validate_tx(tx_with(nonce=MAX_UINT64), RULES)


@pytest.mark.parametrize(
    ("kind", "gas_price", "max_fee", "max_tip", "terms"),
    [
        (None, None, None, None, (10, LEGACY, 0, 0)),
        (None, 7, None, None, (7, LEGACY, 0, 0)),
        (LEGACY, 0, None, None, (0, LEGACY, 0, 0)),
        (ACCESS_LIST, None, None, None, (10, ACCESS_LIST, 0, 0)),
        (ACCESS_LIST, 7, None, None, (7, ACCESS_LIST, 0, 0)),
        (DYNAMIC_FEE, None, None, None, (10, DYNAMIC_FEE, 10, 0)),
        (None, None, 30, None, (10, DYNAMIC_FEE, 30, 0)),
        (None, None, 0, None, (0, DYNAMIC_FEE, 0, 0)),
        (None, None, None, 4, (14, DYNAMIC_FEE, 14, 4)),
        (None, None, None, 0, (10, DYNAMIC_FEE, 10, 0)),
        (None, None, 30, 4, (14, DYNAMIC_FEE, 30, 4)),
        (DYNAMIC_FEE, None, 13, 4, (13, DYNAMIC_FEE, 13, 4)),
    ],
)
def test_what_is_left_out_of_a_price(
    kind: int | None, gas_price: int | None, max_fee: int | None, max_tip: int | None, terms: tuple[int, ...]
) -> None:
    assert price_terms(kind, gas_price, max_fee, max_tip, 10) == terms


@pytest.mark.parametrize(
    ("kind", "gas_price", "max_fee", "max_tip", "field"),
    [
        (DYNAMIC_FEE, 7, None, None, "gasPrice"),
        (None, 7, 30, None, "gasPrice"),
        (None, 7, None, 4, "gasPrice"),
        (LEGACY, None, 30, 4, "maxFeePerGas"),
        (LEGACY, 7, 30, None, "maxFeePerGas"),
        (ACCESS_LIST, 7, None, 4, "maxPriorityFeePerGas"),
    ],
)
def test_a_price_of_another_type_is_refused_by_name(
    kind: int | None, gas_price: int | None, max_fee: int | None, max_tip: int | None, field: str
) -> None:
    with pytest.raises(InvalidField) as refusal:
        price_terms(kind, gas_price, max_fee, max_tip, 10)
    assert refusal.value.field == field


def test_a_tip_is_part_of_what_is_paid_at_most() -> None:
    check_caps(5, 5)
    with pytest.raises(InvalidField) as refusal:
        check_caps(5, 6)
    assert refusal.value.field == "maxPriorityFeePerGas"
