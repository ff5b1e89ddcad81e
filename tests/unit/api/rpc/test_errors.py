"""Each refusal of the node, as geth words it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.api import rpc
from cairn.api.rpc.values import rpc_error_of
from cairn.domain import errors
from cairn.domain.errors import ANSWERED, ApiError, NodeError, SenderLimit, TxRejected
from tests.support.pages import ROOT


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
def test_codes_and_messages(error: NodeError, code: int, message: str) -> None:
    found = rpc_error_of(error)
    assert (found.code, found.message) == (code, message)
    assert found.data == (None if code == -32603 else {"code": error.code})
