"""Paths and query strings: what they may say."""

import re
from collections.abc import Callable, Mapping

import pytest

from cairn.api.parameters import (
    address_of,
    check_one_of,
    choice_of,
    find_number,
    height_after,
    limit_of,
    number_of,
    page_links,
    parse_hash,
    parse_query,
    position_in,
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
    assert position_in({"after": "12-3"}, "before") is None
    assert position_in({"before": "12-3"}, "before") == (12, 3)


@pytest.mark.parametrize(
    ("read", "name", "texts"),
    [
        (limit_of, "limit", ["0", "1001", "-1", "", "x", "1.5", "1e2", "٣"]),
        (wait_of, "wait", ["60.1", "61", "-1", "", "x", "nan", "inf", "1e1000", "1_0", " 1", "1" * 41]),
        (height_after, "after", ["", "x", "-1", "1-1", str(2**64)]),
        (lambda query: position_in(query, "after"), "after", ["", "x", "1", "-1-1", "1-", f"{2**64}-0", f"1-{2**32}"]),
        (lambda query: number_of(query, "height"), "height", ["", "x", "-1", "1.0"]),
        (lambda query: choice_of(query, "order", {"asc": 1}, 0), "order", ["", "ASC", "desc"]),
        (lambda query: address_of(query, "from"), "from", ["", "0x12", "0xF39Fd6e51aad88F6F4ce6aB8827279cffFb92266"]),
    ],
)
def test_a_malformed_parameter_is_refused(
    read: Callable[[Mapping[str, str]], object], name: str, texts: list[str]
) -> None:
    for text in texts:
        with pytest.raises(InvalidQuery):
            read({name: text})


def test_a_sender_is_read() -> None:
    assert address_of({}, "from") is None
    assert address_of({"from": "0x" + "11" * 20}, "from") == b"\x11" * 20


def test_a_number_beyond_every_height_and_time_is_refused() -> None:
    assert number_of({"height": str(2**63 - 1)}, "height") == 2**63 - 1
    for beyond in (str(2**63), "9" * 30):
        with pytest.raises(InvalidQuery, match=re.escape("from 0 to 2^63-1")):
            number_of({"height": beyond}, "height")


def test_two_ways_to_say_the_same_are_refused_together() -> None:
    check_one_of({"height": "1"}, "height", "time")
    with pytest.raises(InvalidQuery, match="give height or time, not both"):
        check_one_of({"height": "1", "time": "1"}, "height", "time")


def test_links_keep_the_query_but_for_the_cursor() -> None:
    query = {"reference": "a&b", "after": "9-0"}
    assert page_links("/p", query, None) == {}
    assert page_links("/p", query, "7-0", "8-1") == {
        "Link": '</p?reference=a%26b&after=7-0>; rel="next", </p?reference=a%26b&before=8-1>; rel="prev"'
    }
