"""Amounts: exact, or refused with the way to write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cairn.cli.amounts import format_amount, parse_amount
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import COIN, GWEI
from cairn.domain.types import MAX_UINT256


@pytest.mark.parametrize(
    ("text", "wei"),
    [
        ("0", 0),
        ("1000", 1000),
        ("7wei", 7),
        ("1gwei", GWEI),
        ("0.5gwei", GWEI // 2),
        ("1.5coins", 3 * COIN // 2),
        ("1.50 coins", 3 * COIN // 2),
        ("1coin", COIN),
        ("1ether", COIN),
        ("1.0", 1),
        ("0.000000000000000001coins", 1),
        # As a float it would be 10 wei short.
        ("9007199254740993.000000000000000001coins", 9007199254740993 * COIN + 1),
        (str(MAX_UINT256), MAX_UINT256),
    ],
)
def test_an_amount_with_or_without_a_unit_parses_to_exact_wei(text: str, wei: int) -> None:
    assert parse_amount(text, "AMOUNT") == wei


@pytest.mark.parametrize(
    ("text", "wei"), [("5", 5 * COIN), ("1.5", 3 * COIN // 2), ("7wei", 7), ("5gwei", 5 * GWEI), ("2coins", 2 * COIN)]
)
def test_a_plain_number_may_be_coins(text: str, wei: int) -> None:
    assert parse_amount(text, "--balance", plain_unit="coins") == wei


@pytest.mark.parametrize("text", ["", "1eth", "0.0000000000000000001"])
def test_where_plain_numbers_are_coins_no_error_calls_them_wei(text: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        parse_amount(text, "--balance", plain_unit="coins")
    assert "whole wei" not in refused.value.detail
    assert "a plain number is" not in refused.value.detail


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not an amount; write 1.5coins"),
        ("-1", "is not an amount"),
        ("1e18", "is not an amount"),
        ("0x10", "is not an amount"),
        ("1,000", "is not an amount"),
        ("1eth", "is not an amount"),
        ("coins", "is not an amount"),
        ("1ecoins", "is not an amount"),
        ("1..2coins", "is not an amount"),
        ("٣", "is not an amount"),
        ("1" * 79, "is not an amount"),
        ("1.5", "needs a unit, such as 1.5coins"),
        ("0.5wei", "is not a whole number of wei"),
        ("0.0000000001gwei", "is not a whole number of wei"),
        ("0.0000000000000000001coins", "is not a whole number of wei"),
        (str(MAX_UINT256 + 1), "more than 2^256-1 wei"),
        ("9" * 78 + "coins", "more than 2^256-1 wei"),
    ],
)
def test_a_text_that_is_not_an_amount_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        parse_amount(text, "AMOUNT")
    assert refused.value.detail.startswith("AMOUNT: ")
    assert message in refused.value.detail


@pytest.mark.parametrize(
    ("wei", "text"),
    [
        (0, "0 wei"),
        (999_999_999, "999999999 wei"),
        (GWEI, "1 gwei"),
        (21_000 * GWEI, "21,000 gwei"),
        (21_000 * GWEI + 1, "21,000.000000001 gwei"),
        (COIN // 1000, "0.001 coins"),
        (COIN, "1 coin"),
        (10_000 * COIN + 1, "10,000.000000000000000001 coins"),
    ],
)
def test_amounts_are_formatted_without_rounding(wei: int, text: str) -> None:
    assert format_amount(wei) == text


@given(st.integers(0, MAX_UINT256))
def test_a_formatted_amount_parses_to_the_same_wei(wei: int) -> None:
    assert parse_amount(format_amount(wei).replace(",", ""), "AMOUNT") == wei
