"""The error tree: every class is drawn, and every code is its own."""

import errno

import pytest

from cairn.domain import errors
from cairn.domain.errors import (
    ANSWERED,
    BY_CODE,
    ApiError,
    InvalidField,
    Limited,
    NodeError,
    TxDropped,
    Unavailable,
    reason_of,
    received_error,
)

CLASSES = [item for item in vars(errors).values() if isinstance(item, type) and issubclass(item, NodeError)]


@pytest.mark.parametrize("error", CLASSES)
def test_the_tree_at_the_top_shows_every_class(error: type[NodeError]) -> None:
    assert errors.__doc__ is not None
    assert error.__name__ in errors.__doc__


def test_codes_never_change() -> None:
    # Clients go by them. A new class gets a line here; no line is ever changed.
    assert {error.__name__: (error.code, error.status) for error in BY_CODE.values()} == {
        "MalformedJson": ("MALFORMED_JSON", 400),
        "InvalidField": ("INVALID_FIELD", 400),
        "InvalidHash": ("INVALID_HASH", 400),
        "InvalidQuery": ("INVALID_QUERY", 400),
        "MalformedRequest": ("MALFORMED_REQUEST", 400),
        "ForbiddenHost": ("FORBIDDEN_HOST", 403),
        "ForbiddenOrigin": ("FORBIDDEN_ORIGIN", 403),
        "NotFound": ("NOT_FOUND", 404),
        "TxNotFound": ("TX_NOT_FOUND", 404),
        "TxNotKept": ("TX_NOT_KEPT", 404),
        "TxDropped": ("TX_DROPPED", 404),
        "BlockNotFound": ("BLOCK_NOT_FOUND", 404),
        "BlockNotKept": ("BLOCK_NOT_KEPT", 404),
        "NotSignedYet": ("NOT_SIGNED_YET", 404),
        "NotADevChain": ("NOT_A_DEV_CHAIN", 404),
        "MethodNotAllowed": ("METHOD_NOT_ALLOWED", 405),
        "RequestTimeout": ("REQUEST_TIMEOUT", 408),
        "NonceTooLow": ("NONCE_TOO_LOW", 409),
        "ReplacementUnderpriced": ("REPLACEMENT_UNDERPRICED", 409),
        "BodyTooLarge": ("BODY_TOO_LARGE", 413),
        "UnsupportedMediaType": ("UNSUPPORTED_MEDIA_TYPE", 415),
        "InvalidSignature": ("INVALID_SIGNATURE", 422),
        "InsufficientFunds": ("INSUFFICIENT_FUNDS", 422),
        "GasTooLow": ("GAS_TOO_LOW", 422),
        "GasTooHigh": ("GAS_TOO_HIGH", 422),
        "DataTooLong": ("DATA_TOO_LONG", 422),
        "GasPriceTooLow": ("GAS_PRICE_TOO_LOW", 422),
        "NonceTooHigh": ("NONCE_TOO_HIGH", 422),
        "UpdateRefused": ("UPDATE_REFUSED", 422),
        "IdempotencyKeyReused": ("IDEMPOTENCY_KEY_REUSED", 422),
        "StatementTooLong": ("STATEMENT_TOO_LONG", 422),
        "UpgradeRequired": ("UPGRADE_REQUIRED", 426),
        "RateLimited": ("RATE_LIMITED", 429),
        "SenderLimit": ("SENDER_LIMIT", 429),
        "FollowLimit": ("FOLLOW_LIMIT", 429),
        "HeadersTooLarge": ("HEADERS_TOO_LARGE", 431),
        "Internal": ("INTERNAL", 500),
        "Starting": ("STARTING", 503),
        "ShuttingDown": ("SHUTTING_DOWN", 503),
        "MempoolFull": ("MEMPOOL_FULL", 503),
        "StoreUnavailable": ("STORE_UNAVAILABLE", 503),
        "EngineUnavailable": ("ENGINE_UNAVAILABLE", 503),
        "TooManyConnections": ("TOO_MANY_CONNECTIONS", 503),
        "TooManyUnansweredBytes": ("TOO_MANY_UNANSWERED_BYTES", 503),
    }


def test_numbers_for_cometbft_never_change() -> None:
    # They are part of consensus: a block's results carry them.
    numbered = {error.__name__: error.abci_code for error in CLASSES if "abci_code" in vars(error)}
    assert numbered == {
        "NodeError": 1,
        "InvalidField": 2,
        "InvalidSignature": 3,
        "GasTooLow": 4,
        "GasTooHigh": 5,
        "GasPriceTooLow": 6,
        "NonceTooLow": 7,
        "NonceTooHigh": 8,
        "InsufficientFunds": 9,
        "ReplacementUnderpriced": 10,
        "SenderLimit": 11,
        "MempoolFull": 12,
        "UpdateRefused": 13,
        "InvalidBlock": 14,
        "DataTooLong": 15,
    }
    assert errors.NotReplayProtected.abci_code == errors.InvalidSignature.abci_code


def test_a_code_means_one_class() -> None:
    named = [error for error in CLASSES if issubclass(error, ApiError) and "code" in vars(error)]
    assert len({error.code for error in named}) == len(named) == len(BY_CODE) + 1


@pytest.mark.parametrize("error", [error for error in CLASSES if not error.__subclasses__()])
def test_whatever_a_client_can_meet_has_a_code_and_a_title(error: type[NodeError]) -> None:
    # The others stop the node, or keep it from starting: no client is there to read them.
    if issubclass(error, ApiError):
        assert error.code in BY_CODE
        assert error.title
    else:
        assert error.code == "INTERNAL"


def test_two_answers_with_one_code_have_different_titles() -> None:
    assert len({(error.code, error.title) for error in ANSWERED}) == len(ANSWERED)


def test_an_error_says_what_is_wrong() -> None:
    error = InvalidField("gas", "missing")
    assert (error.field, error.why, error.detail, reason_of(error)) == (
        "gas",
        "missing",
        "gas: missing",
        "gas: missing",
    )
    assert str(error) == "INVALID_FIELD: gas: missing"
    assert reason_of(ValueError("no number")) == "no number"
    assert reason_of(OSError("no number")) == "no number"
    assert reason_of(FileNotFoundError(errno.ENOENT, "No such file or directory", "/x")) == "No such file or directory"
    denied = reason_of(PermissionError(errno.EACCES, "Permission denied", "/x"))
    assert denied == "Permission denied; run it as the user that owns the files"


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_a_received_code_becomes_its_class_whatever_that_takes_to_be_made(code: str) -> None:
    error = received_error(code, "why", field="to")
    assert type(error) is BY_CODE[code]
    assert (error.code, error.status, error.detail, str(error)) == (code, BY_CODE[code].status, "why", f"{code}: why")
    assert (error.field, error.retry_after_s) == ("to", BY_CODE[code].retry_after_s)


def test_a_received_reason_and_field_are_kept() -> None:
    dropped = received_error("TX_DROPPED", "gone", reason="replaced")
    assert isinstance(dropped, TxDropped)
    assert dropped.reason == "replaced"
    invalid = received_error("INVALID_FIELD", "to: no", field="to")
    assert isinstance(invalid, InvalidField)
    assert (invalid.field, invalid.why) == ("to", "no")


@pytest.mark.parametrize(("status", "base"), [(429, Limited), (503, Unavailable), (None, Unavailable), (599, ApiError)])
def test_an_unknown_code_becomes_the_base_of_its_status(status: int | None, base: type[ApiError]) -> None:
    assert type(received_error("FROM_THE_FUTURE", "why", status)) is base
