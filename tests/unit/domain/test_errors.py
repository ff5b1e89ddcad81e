"""The error tree: every class is drawn, and every code is its own."""

import pytest

from cairn.domain import errors
from cairn.domain.errors import InvalidField, NodeError, Rejected, Unavailable

CLASSES = [item for item in vars(errors).values() if isinstance(item, type) and issubclass(item, NodeError)]


@pytest.mark.parametrize("error", CLASSES)
def test_the_tree_at_the_top_shows_every_class(error: type[NodeError]) -> None:
    assert errors.__doc__ is not None
    assert error.__name__ in errors.__doc__


def test_codes_never_change() -> None:
    # Clients go by them. A new class gets a line here; no line is ever changed.
    assert {error.__name__: error.code for error in CLASSES if "code" in vars(error)} == {
        "NodeError": "INTERNAL",
        "MalformedJson": "MALFORMED_JSON",
        "InvalidField": "INVALID_FIELD",
        "InvalidHash": "INVALID_HASH",
        "InvalidQuery": "INVALID_QUERY",
        "InvalidSignature": "INVALID_SIGNATURE",
        "InsufficientFunds": "INSUFFICIENT_FUNDS",
        "GasTooLow": "GAS_TOO_LOW",
        "GasTooHigh": "GAS_TOO_HIGH",
        "GasPriceTooLow": "GAS_PRICE_TOO_LOW",
        "NonceTooLow": "NONCE_TOO_LOW",
        "NonceTooHigh": "NONCE_TOO_HIGH",
        "ReplacementUnderpriced": "REPLACEMENT_UNDERPRICED",
        "UpdateRefused": "UPDATE_REFUSED",
        "SenderLimit": "SENDER_LIMIT",
        "NotFound": "NOT_FOUND",
        "TxNotFound": "TX_NOT_FOUND",
        "BlockNotKept": "BLOCK_NOT_KEPT",
        "TxNotKept": "TX_NOT_KEPT",
        "TxDropped": "TX_DROPPED",
        "BlockNotFound": "BLOCK_NOT_FOUND",
        "NotDevChain": "NOT_A_DEV_CHAIN",
        "Starting": "STARTING",
        "ShuttingDown": "SHUTTING_DOWN",
        "MempoolFull": "MEMPOOL_FULL",
        "StoreUnavailable": "STORE_UNAVAILABLE",
        "EngineUnavailable": "ENGINE_UNAVAILABLE",
    }


def test_a_code_means_one_class() -> None:
    named = [error for error in CLASSES if "code" in vars(error)]
    assert len({error.code for error in named}) == len(named)


@pytest.mark.parametrize("error", [error for error in CLASSES if not error.__subclasses__()])
def test_whatever_a_client_can_meet_has_a_code(error: type[NodeError]) -> None:
    # The others stop the node, or keep it from starting: no client is there to read a code.
    assert (error.code != "INTERNAL") == issubclass(error, Rejected | Unavailable)


def test_an_error_says_what_is_wrong() -> None:
    error = InvalidField("gas", "missing")
    assert (error.field, error.detail, str(error)) == ("gas", "gas: missing", "gas: missing")
