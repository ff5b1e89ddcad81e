"""Paths and query strings: what they may say."""

from collections.abc import Callable, Mapping

import pytest

from cairn.api.parameters import (
    find_number,
    height_after,
    limit_of,
    parse_hash,
    parse_query,
    position_after,
    sender_of,
    wait_of,
)
from cairn.domain.errors import InvalidHash, InvalidQuery


def test_a_hash_of_either_case_is_read() -> None:
    assert parse_hash("0x" + "aB" * 32, "block") == b"\xab" * 32


@pytest.mark.parametrize(
    "text",
    [
        "", "0x", "ab" * 32, "0x" + "ab" * 31, "0x" + "ab" * 33, "0X" + "ab" * 32, "0x" + "zz" * 32,
        "0x" + "ab" * 32 + "\n", "0x" + "ab" * 31 + "a ", "0x" + "1" * 63 + "１",
    ],
)  # fmt: skip
def test_a_malformed_hash_is_refused(text: str) -> None:
    with pytest.raises(InvalidHash):
        parse_hash(text, "transaction")


def test_a_number_with_a_sign_zeros_or_a_fraction_is_none() -> None:
    assert [find_number(text) for text in ("0", "7", "18446744073709551615")] == [0, 7, 2**64 - 1]
    for text in ("", "-1", "+1", "01", "1.0", "1e3", " 1", "1\n", "٣", "0" * 30, "1" * 30 + "x"):
        assert find_number(text) is None


@pytest.mark.parametrize("digits", [21, 40, 41, 60_000])
def test_a_number_beyond_every_range_is_one_all_the_same(digits: int) -> None:
    assert (find_number("1" * digits) or 0) > 2**64


def test_the_allowed_parameters_of_a_query_are_read() -> None:
    assert parse_query(b"") == {}
    assert parse_query(b"limit=5&from=0x12&after=", "limit", "after", "from") == {
        "limit": "5", "from": "0x12", "after": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    "query", [b"x=1", b"limit=1&limit=2", b"limit=%ff", b"limit=\xff", b"&".join([b"limit=1"] * 99)]
)
def test_a_query_with_an_unknown_double_or_malformed_parameter_is_refused(query: bytes) -> None:
    with pytest.raises(InvalidQuery):
        parse_query(query, "limit")


def test_a_limit_is_read_and_has_a_default() -> None:
    assert [limit_of({}), limit_of({"limit": "1"}), limit_of({"limit": "1000"})] == [100, 1, 1000]


def test_a_wait_is_read_in_seconds() -> None:
    waits = [wait_of({}), *(wait_of({"wait": text}) for text in ("0", "60", "1.5", "1e-05", "2.220446049250313e-16"))]
    assert waits == [0, 0, 60, 1.5, 1e-05, 2.220446049250313e-16]


def test_cursors_are_read() -> None:
    assert height_after({}) is None
    assert height_after({"after": "12"}) == 12
    assert position_after({}) is None
    assert position_after({"after": "12-3"}) == (12, 3)


@pytest.mark.parametrize(
    ("read", "name", "texts"),
    [
        (limit_of, "limit", ["0", "1001", "-1", "", "x", "1.5", "1e2", "٣"]),
        (wait_of, "wait", ["60.1", "61", "-1", "", "x", "nan", "inf", "1e1000", "1_0", " 1", "1" * 41]),
        (height_after, "after", ["", "x", "-1", "1-1", str(2**64)]),
        (position_after, "after", ["", "x", "1", "-1-1", "1-", f"{2**64}-0", f"1-{2**32}"]),
        (sender_of, "from", ["", "0x12", "0xF39Fd6e51aad88F6F4ce6aB8827279cffFb92266"]),
    ],
)
def test_a_malformed_parameter_is_refused(
    read: Callable[[Mapping[str, str]], object], name: str, texts: list[str]
) -> None:
    for text in texts:
        with pytest.raises(InvalidQuery):
            read({name: text})


def test_a_sender_is_read() -> None:
    assert sender_of({}) is None
    assert sender_of({"from": "0x" + "11" * 20}) == b"\x11" * 20
