"""Values as the specification demands them, blocks by every name that they have, and refusals as geth words them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.api import rpc
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
    rpc_error_of,
)
from cairn.domain import errors
from cairn.domain.errors import ANSWERED, ApiError, NodeError, SenderLimit, TxRejected
from cairn.domain.types import MAX_UINT256, BlockHash
from tests.support.pages import ROOT

HASH = "0x" + "ab" * 32


@pytest.mark.parametrize(("text", "number"), [("0x0", 0), ("0x41", 65), ("0x400", 1024), ("0xfF", 255)])
def test_a_quantity_is_read_and_written(text: str, number: int) -> None:
    assert parse_quantity(text, "it") == number
    assert quantity(number) == text.lower()


@pytest.mark.parametrize("rubbish", ["0x", "0x0400", "ff", "", "0xg", "-0x1", "0x 1", 5, None, 1.5, True, [], "0x1\n"])
def test_a_malformed_quantity_is_refused(rubbish: object) -> None:
    with pytest.raises(InvalidParams, match="^it: "):
        parse_quantity(rubbish, "it")


def test_a_quantity_above_its_width_is_refused() -> None:
    assert parse_quantity(hex(2**64 - 1), "it") == 2**64 - 1
    with pytest.raises(InvalidParams, match="hex number > 64 bits"):
        parse_quantity(hex(2**64), "it")
    assert parse_quantity(hex(MAX_UINT256), "it", MAX_UINT256) == MAX_UINT256
    for text in (hex(MAX_UINT256 + 1), "0x" + "f" * 100_000):
        with pytest.raises(InvalidParams, match="hex number > 256 bits"):
            parse_quantity(text, "it", MAX_UINT256)


def test_hex_bytes_are_read_and_malformed_ones_refused() -> None:
    assert parse_data("0x", "it") == b""
    assert parse_data("0xABcd", "it") == b"\xab\xcd"
    for rubbish in ("0x1", "abcd", "0xzz", 5, None, "0x ab", "0xab  ", "0x\uff10\uff10"):
        with pytest.raises(InvalidParams):
            parse_data(rubbish, "it")


def test_hashes_accounts_and_flags_are_read_and_malformed_ones_refused() -> None:
    assert parse_hash(HASH, "it") == b"\xab" * 32
    assert parse_account("0x" + "5a" * 20, "it") == b"\x5a" * 20
    assert [parse_flag(value, "it") for value in (None, True, False)] == [False, True, False]
    for parse, rubbish in ((parse_hash, "0x1"), (parse_hash, 1), (parse_account, 1), (parse_flag, "true")):
        with pytest.raises(InvalidParams):
            parse(rubbish, "it")
    with pytest.raises(InvalidParams, match="checksum"):
        parse_account("0x" + "aB" * 20, "it")


def test_a_block_is_named_by_number_tag_hash_or_object() -> None:
    assert parse_block(None, "it") == LATEST
    for tag in ("latest", "earliest", "pending", "safe", "finalized"):
        assert parse_block(tag, "it") == parse_block({"blockNumber": tag}, "it") == BlockName(tag=tag)
    assert parse_block("0x10", "it") == parse_block({"blockNumber": "0x10"}, "it") == BlockName(height=16)
    named = BlockName(hash=BlockHash(b"\xab" * 32))
    assert parse_block(HASH, "it") == parse_block({"blockHash": HASH, "requireCanonical": False}, "it") == named


@pytest.mark.parametrize(
    "rubbish", [{}, {"blockNumber": "0x1", "blockHash": HASH}, {"blockHash": "0x1"}, [], 1, "newest", "LATEST"]
)
def test_a_malformed_block_name_is_refused(rubbish: object) -> None:
    with pytest.raises(InvalidParams):
        parse_block(rubbish, "it")


def test_a_hash_instead_of_a_block_number_is_refused() -> None:
    with pytest.raises(InvalidParams):
        parse_block_number(HASH, "it")


def worded() -> Iterator[str]:
    """What each text begins with that is spelled out where a method refuses."""
    for module in Path(*rpc.__path__).glob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("RpcError", "refusal"):
                text = node.args[0 if getattr(node.func, "id", None) == "refusal" else 1]
                first = text.values[0] if isinstance(text, ast.JoinedStr) else text
                if isinstance(first, ast.Constant):
                    yield str(first.value).split(":")[0].split(" (have")[0].strip()


def test_every_refusal_is_on_the_page() -> None:
    page = (ROOT / "docs" / "json-rpc.md").read_text()
    texts = {*worded(), *(error.rpc_text for error in ANSWERED)} - {""}
    assert len(texts) > 30, "the source is read in another way than it is written"
    assert sorted(text for text in texts if f"`{text}" not in page) == []


def test_every_refusal_of_a_transaction_has_its_wording() -> None:
    # An update of validators comes by REST only.
    refusals: set[type[ApiError]] = {*TxRejected.__subclasses__(), SenderLimit} - {errors.UpdateRefused}
    assert [error for error in refusals if not error.rpc_text] == []


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (errors.InsufficientFunds("why"), -32000, "insufficient funds for gas * price + value: why"),
        (errors.MempoolFull("why"), -32000, "txpool is full: why"),
        (errors.InvalidField("to", "why"), -32602, "invalid argument: to: why"),
        (errors.SenderLimit("why"), -32000, "account limit exceeded: why"),
        (errors.InvalidHash("why"), -32602, "invalid argument: why"),
        (errors.BlockNotKept("why"), -32000, "historical state is not available: why"),
        (errors.Internal("why"), -32603, "internal error: see the node's log"),
        (errors.BlockNotFound("why"), -32000, "historical state is not available: why"),
        (errors.StoreUnavailable("why"), -32002, "resource unavailable: why"),
        (errors.TxNotFound("why"), -32000, "why"),
        (errors.Corrupt("why"), -32603, "internal error: see the node's log"),
    ],
)
def test_an_error_has_its_code_and_wording(error: NodeError, code: int, message: str) -> None:
    found = rpc_error_of(error)
    assert (found.code, found.message) == (code, message)
    assert found.data == (None if code == -32603 else {"code": error.code})
