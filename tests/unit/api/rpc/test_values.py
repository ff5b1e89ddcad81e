"""Hexadecimal as the specification demands it, and blocks by every name that they have."""

import pytest

from cairn.api.rpc.values import (
    LATEST,
    BlockName,
    InvalidParams,
    parse_account,
    parse_block,
    parse_block_number,
    parse_data,
    parse_flag,
    parse_hash,
    parse_quantity,
    quantity,
)
from cairn.domain.types import MAX_UINT256, BlockHash

HASH = "0x" + "ab" * 32


@pytest.mark.parametrize(("text", "number"), [("0x0", 0), ("0x41", 65), ("0x400", 1024), ("0xfF", 255)])
def test_quantities(text: str, number: int) -> None:
    assert parse_quantity(text, "it") == number
    assert quantity(number) == text.lower()


@pytest.mark.parametrize("rubbish", ["0x", "0x0400", "ff", "", "0xg", "-0x1", "0x 1", 5, None, 1.5, True, [], "0x1\n"])
def test_what_is_no_quantity(rubbish: object) -> None:
    with pytest.raises(InvalidParams, match="^it: "):
        parse_quantity(rubbish, "it")


def test_quantities_have_a_width() -> None:
    assert parse_quantity(hex(2**64 - 1), "it") == 2**64 - 1
    with pytest.raises(InvalidParams, match="hex number > 64 bits"):
        parse_quantity(hex(2**64), "it")
    assert parse_quantity(hex(MAX_UINT256), "it", MAX_UINT256) == MAX_UINT256
    for text in (hex(MAX_UINT256 + 1), "0x" + "f" * 100_000):
        with pytest.raises(InvalidParams, match="hex number > 256 bits"):
            parse_quantity(text, "it", MAX_UINT256)


def test_data() -> None:
    assert parse_data("0x", "it") == b""
    assert parse_data("0xABcd", "it") == b"\xab\xcd"
    for rubbish in ("0x1", "abcd", "0xzz", 5, None, "0x ab"):
        with pytest.raises(InvalidParams):
            parse_data(rubbish, "it")


def test_hashes_accounts_and_flags() -> None:
    assert parse_hash(HASH, "it") == b"\xab" * 32
    assert parse_account("0x" + "5a" * 20, "it") == b"\x5a" * 20
    assert [parse_flag(value, "it") for value in (None, True, False)] == [False, True, False]
    for parse, rubbish in ((parse_hash, "0x1"), (parse_hash, 1), (parse_account, 1), (parse_flag, "true")):
        with pytest.raises(InvalidParams):
            parse(rubbish, "it")
    with pytest.raises(InvalidParams, match="checksum"):
        parse_account("0x" + "aB" * 20, "it")


def test_blocks_by_name() -> None:
    assert parse_block(None, "it") == LATEST
    for tag in ("latest", "earliest", "pending", "safe", "finalized"):
        assert parse_block(tag, "it") == parse_block({"blockNumber": tag}, "it") == BlockName(tag=tag)
    assert parse_block("0x10", "it") == parse_block({"blockNumber": "0x10"}, "it") == BlockName(height=16)
    named = BlockName(hash=BlockHash(b"\xab" * 32))
    assert parse_block(HASH, "it") == parse_block({"blockHash": HASH, "requireCanonical": False}, "it") == named


@pytest.mark.parametrize(
    "rubbish", [{}, {"blockNumber": "0x1", "blockHash": HASH}, {"blockHash": "0x1"}, [], 1, "newest", "LATEST"]
)
def test_what_names_no_block(rubbish: object) -> None:
    with pytest.raises(InvalidParams):
        parse_block(rubbish, "it")


def test_a_hash_is_no_number() -> None:
    with pytest.raises(InvalidParams):
        parse_block_number(HASH, "it")
