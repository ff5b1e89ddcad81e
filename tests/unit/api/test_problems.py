"""Every failure has its status and code, and says nothing that is not the client's business."""

import json
import re
from pathlib import Path

import pytest

from cairn.api.problems import encode_problem, problem_of
from cairn.domain import errors
from cairn.domain.errors import ANSWERED, InvalidField, MethodNotAllowed, NodeError, TxDropped

CONTRACT = {
    400: {"MALFORMED_JSON", "INVALID_FIELD", "INVALID_HASH", "INVALID_QUERY"},
    404: {"TX_NOT_FOUND", "TX_DROPPED", "BLOCK_NOT_FOUND", "NOT_FOUND"},
    405: {"METHOD_NOT_ALLOWED"},
    409: {"NONCE_TOO_LOW", "REPLACEMENT_UNDERPRICED"},
    413: {"BODY_TOO_LARGE"},
    415: {"UNSUPPORTED_MEDIA_TYPE"},
    422: {
        "INVALID_SIGNATURE", "INSUFFICIENT_FUNDS", "GAS_TOO_LOW", "GAS_TOO_HIGH", "GAS_PRICE_TOO_LOW", "NONCE_TOO_HIGH"
    },
    429: {"RATE_LIMITED", "SENDER_LIMIT"},
    503: {"STARTING", "SHUTTING_DOWN", "MEMPOOL_FULL", "STORE_UNAVAILABLE"},
}  # fmt: skip
EXTRA = {
    400: {"MALFORMED_REQUEST"},
    403: {"FORBIDDEN_HOST", "FORBIDDEN_ORIGIN"},
    404: {"BLOCK_NOT_KEPT", "NOT_A_DEV_CHAIN", "TX_NOT_KEPT"},
    408: {"REQUEST_TIMEOUT"},
    422: {"UPDATE_REFUSED"},
    426: {"UPGRADE_REQUIRED"},
    429: {"FOLLOW_LIMIT"},
    431: {"HEADERS_TOO_LARGE"},
    500: {"INTERNAL"},
    503: {"TOO_MANY_CONNECTIONS", "TOO_MANY_UNANSWERED_BYTES", "ENGINE_UNAVAILABLE"},
}


def test_the_table_is_the_contract_and_the_extras_of_the_adr() -> None:
    served: dict[int, set[str]] = {}
    for error in ANSWERED:
        served.setdefault(error.status, set()).add(error.code)
    assert served == {status: CONTRACT.get(status, set()) | EXTRA.get(status, set()) for status in CONTRACT | EXTRA}


def test_the_adr_lists_the_extras() -> None:
    page = Path(__file__).parents[3].joinpath("docs/adr/008-refusals-beyond-the-table.md").read_text()
    listed = {(int(status), code) for status, code in re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", page, re.MULTILINE)}
    assert listed == {(status, code) for status, codes in EXTRA.items() for code in codes}


def test_later_errors_say_when_to_try_again() -> None:
    for error in ANSWERED:
        assert (error.retry_after_s is not None) == (error.status in (429, 503)), error


def test_a_revert_is_over_sooner_than_a_full_disk() -> None:
    assert dict(encode_problem(errors.Reverting("a moment"))[1])[b"retry-after"] == b"1"
    assert dict(encode_problem(errors.StoreUnavailable("full"))[1])[b"retry-after"] == b"5"


def test_problem_document() -> None:
    status, headers, body = encode_problem(InvalidField("value", "must be a whole number"))
    assert status == 400
    assert dict(headers) == {b"content-type": b"application/problem+json"}
    assert json.loads(body) == {
        "type": "urn:cairn:problem:INVALID_FIELD",
        "title": "A field is missing, unknown or malformed",
        "status": 400,
        "detail": "value: must be a whole number",
        "code": "INVALID_FIELD",
        "field": "value",
    }


def test_dropped_names_the_reason() -> None:
    problem = problem_of(TxDropped("nonce used"))
    assert (problem.status, problem.code, problem.reason) == (404, "TX_DROPPED", "nonce used")


def test_headers_that_belong_to_a_status() -> None:
    assert (b"allow", b"GET, HEAD") in encode_problem(MethodNotAllowed("PUT", "GET, HEAD"))[1]
    assert (b"retry-after", b"5") in encode_problem(errors.MempoolFull("full"))[1]
    assert (b"upgrade", b"websocket") in encode_problem(errors.UpgradeRequired("ws only"))[1]


@pytest.mark.parametrize("failure", [errors.Corrupt("block 7 at /secret/path"), errors.Internal("a traceback")])
def test_what_went_wrong_inside_stays_inside(failure: NodeError) -> None:
    status, _, body = encode_problem(failure)
    assert status == 500
    assert json.loads(body)["code"] == "INTERNAL"
    assert failure.detail.encode() not in body


def test_a_base_class_that_no_client_knows_is_a_failure_of_the_node() -> None:
    assert problem_of(errors.TxRejected("why")).code == "INTERNAL"


def test_a_refined_error_is_answered_as_its_parent() -> None:
    class Refined(errors.NonceTooLow):
        pass

    assert problem_of(Refined("used")).status == 409
