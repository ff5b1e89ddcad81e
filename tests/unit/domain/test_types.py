"""What the values say about themselves."""

import pytest

from cairn.domain.types import EMPTY_ACCOUNT, ZERO_ADDRESS, Account, Tx, TxHash


def test_a_transfer_pays_for_21_000_gas_whatever_it_allows() -> None:
    tx = Tx(TxHash(bytes(32)), ZERO_ADDRESS, ZERO_ADDRESS, 0, 90_000, 3, 5, bytes(65))
    assert tx.fee == 63_000
    assert tx.cost == 63_005


def test_values_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Account(1, 0).balance = 2  # type: ignore[misc]


def test_an_account_is_empty_without_balance_and_nonce() -> None:
    assert EMPTY_ACCOUNT.is_empty
    assert not Account(1, 0).is_empty
    assert not Account(0, 1).is_empty
