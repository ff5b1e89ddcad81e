"""Each refusal of the node, as geth words it."""

import pytest

from cairn.api.rpc.errors import WORDING, rpc_error_of
from cairn.domain import errors
from cairn.domain.errors import NodeError, TxRejected


def test_every_refusal_of_a_transaction_has_its_wording() -> None:
    # An update of validators comes by REST only.
    refusals = set(TxRejected.__subclasses__()) - {errors.UpdateRefused}
    assert refusals <= WORDING.keys()


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (errors.InsufficientFunds("why"), -32000, "insufficient funds for gas * price + value: why"),
        (errors.MempoolFull("why"), -32000, "txpool is full: why"),
        (errors.InvalidField("to", "why"), -32602, "invalid argument: to: why"),
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
