"""What the values say about themselves."""

from datetime import UTC, datetime

import pytest

from cairn.domain.types import (
    ACCESS_LIST,
    DYNAMIC_FEE,
    EMPTY_ACCOUNT,
    LATEST_TIME,
    LEGACY,
    MAX_UINT64,
    MAX_UINT256,
    TRANSFER_GAS,
    ZERO_ADDRESS,
    ZERO_HASH,
    Account,
    Draft,
    Tx,
    TxHash,
    intrinsic_gas,
)


def test_numeric_constants_have_their_values() -> None:
    assert TRANSFER_GAS == 21_000
    assert (LEGACY, ACCESS_LIST, DYNAMIC_FEE) == (0, 1, 2)
    assert f"{MAX_UINT64:x}" == "f" * 16
    assert f"{MAX_UINT256:x}" == "f" * 64
    assert datetime.fromtimestamp(LATEST_TIME, UTC) == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert (ZERO_HASH.hex(), ZERO_ADDRESS.hex()) == ("0" * 64, "0" * 40)


def test_a_transfer_pays_for_21_000_gas_whatever_it_allows() -> None:
    tx = Tx(TxHash(bytes(32)), ZERO_ADDRESS, ZERO_ADDRESS, 0, 90_000, 3, 5, bytes(65))
    assert tx.fee == 63_000
    assert tx.debit == 63_005


def test_a_transfer_with_data_pays_for_each_byte() -> None:
    tx = Tx(TxHash(bytes(32)), ZERO_ADDRESS, ZERO_ADDRESS, 0, 90_000, 3, 5, bytes(65), data=b"ab\0")
    assert tx.gas_used == intrinsic_gas(tx.data) == 21_036
    assert (tx.fee, tx.debit, tx.cost) == (63_108, 63_113, 270_005)


@pytest.mark.parametrize(
    ("kind", "gas_price", "max_fee", "cost"),
    [(LEGACY, 3, 0, 270_005), (ACCESS_LIST, 3, 0, 270_005), (DYNAMIC_FEE, 3, 7, 630_005)],
)
def test_a_transfer_costs_its_value_and_all_of_its_gas_at_its_highest_price(
    kind: int, gas_price: int, max_fee: int, cost: int
) -> None:
    """What geth wants the sender to own."""
    places = (TxHash(bytes(32)), ZERO_ADDRESS, ZERO_ADDRESS)
    assert Tx(*places, 0, 90_000, gas_price, 5, bytes(65), kind, max_fee, 1).cost == cost


def test_caps_are_0_unless_given() -> None:
    tx = Tx(TxHash(bytes(32)), ZERO_ADDRESS, ZERO_ADDRESS, 0, 21_000, 3, 5, bytes(65))
    draft = Draft(ZERO_ADDRESS, ZERO_ADDRESS, 5, 21_000, 3, None)
    assert (tx.max_fee, tx.max_tip) == (draft.max_fee, draft.max_tip) == (0, 0)


def test_an_account_is_immutable() -> None:
    with pytest.raises(AttributeError):
        Account(1, 0).balance = 2  # type: ignore[misc]


def test_an_account_is_empty_without_balance_and_nonce() -> None:
    assert EMPTY_ACCOUNT.is_empty
    assert not Account(1, 0).is_empty
    assert not Account(0, 1).is_empty
