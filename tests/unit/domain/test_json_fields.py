import pytest

from cairn.domain.json_fields import MAX_AMOUNT_DIGITS, MAX_EXACT_DOUBLE, find_bytes, find_decimal, find_integer


def test_hexadecimal_digits_of_either_case_give_their_bytes() -> None:
    assert find_bytes("0x00aBcD", 3) == b"\x00\xab\xcd"
    assert find_bytes("0x", 0) == b""


@pytest.mark.parametrize(
    "text", ["", "0x", "00abcd", "0X00abcd", "0x00abc", "0x00abcd00", "0x00abcg", None, 1, b"0x00"]
)
def test_text_that_is_not_so_many_bytes_in_hexadecimal_gives_none(text: object) -> None:
    assert find_bytes(text, 3) is None


@pytest.mark.parametrize("text", ["0x00 abc", "0x 0abcd", "0x00ab  ", "0x00ab\n\n", "0x\uff10\uff10abcd"])
def test_white_space_and_other_digits_are_no_hexadecimal_digits(text: str) -> None:
    assert find_bytes(text, 3) is None


def test_decimal_digits_in_a_string_give_their_number_up_to_the_longest_amount() -> None:
    assert find_decimal("007") == 7
    assert find_decimal("9" * MAX_AMOUNT_DIGITS) == 10**MAX_AMOUNT_DIGITS - 1
    assert find_decimal("9" * (MAX_AMOUNT_DIGITS + 1)) is None
    assert find_decimal("100", 2) is None


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", "1e3", "0x1", " 1", "1_0", "\u0661", 1, None, b"1"])
def test_text_that_is_not_decimal_digits_gives_none(text: object) -> None:
    assert find_decimal(text) is None


@pytest.mark.parametrize(("number", "found"), [(0, 0), (-3, -3), (2**256, 2**256), (10.0, 10), (2.0**53, 2**53)])
def test_an_integer_is_found_also_where_it_is_written_as_an_exact_double(number: object, found: int) -> None:
    assert find_integer(number) == found
    assert type(find_integer(number)) is int


@pytest.mark.parametrize("number", [1.5, 2.0 * MAX_EXACT_DOUBLE, float("inf"), float("nan"), True, False, "1", None])
def test_a_boolean_a_fraction_or_an_inexact_double_gives_none(number: object) -> None:
    assert find_integer(number) is None
