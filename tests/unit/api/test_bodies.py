"""Bodies of requests, amounts in answers, and errors: what is read, and what is written."""

import asyncio
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.types import Message

from cairn.api import bodies
from cairn.api.bodies import AMOUNT_FIELDS, as_strings, encode_problem, problem_of, read_json_body
from cairn.api.parameters import amounts_of
from cairn.client.transport import AMOUNT_FIELDS as SENT_FIELDS
from cairn.domain import errors
from cairn.domain.errors import (
    ANSWERED,
    BodyTooLarge,
    InvalidField,
    InvalidQuery,
    MethodNotAllowed,
    NodeError,
    TxDropped,
    UnsupportedMediaType,
)
from tests.support.described import DOCUMENT

LIMIT = 10
JSON = ("content-type", "application/json")


class Sender:
    """A client that sends its body in these chunks."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self.left = list(chunks)

    async def receive(self) -> Message:
        if not self.left:
            return {"type": "http.disconnect"}
        body = self.left.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(self.left)}


def read(sender: Sender, *headers: tuple[str, str]) -> bytes:
    raw = [(name.encode(), value.encode()) for name, value in headers]
    request = Request({"type": "http", "method": "POST", "headers": raw}, sender.receive)
    return asyncio.run(read_json_body(request, LIMIT))


def test_a_body_up_to_the_limit_is_read() -> None:
    assert read(Sender([b"0123456789"]), JSON, ("content-length", "10")) == b"0123456789"
    assert read(Sender([b"01234", b"5", b"6789"]), JSON) == b"0123456789"
    assert read(Sender([b""]), JSON) == b""


@pytest.mark.parametrize("length", ["0" * 5_000 + "1", "1 "])
def test_a_length_may_have_zeros_before_it_and_a_space_behind_it(length: str) -> None:
    assert read(Sender([b"0"]), JSON, ("content-length", length)) == b"0"


def test_a_body_that_is_too_large_by_declaration_or_in_chunks_is_refused() -> None:
    for sender, headers in (
        (Sender([b"0123456789x"]), [JSON, ("content-length", "11")]),
        (Sender([b"01234", b"56789", b"x", b"y"]), [JSON]),
    ):
        with pytest.raises(BodyTooLarge, match="more than 10 bytes"):
            read(sender, *headers)
        assert not sender.left, "what was sent is taken in, or the client would see a reset"


def test_a_refused_body_is_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MAX_DISCARDED_BYTES", 100)
    sender = Sender([b"x" * 50] * 10)
    with pytest.raises(BodyTooLarge):
        read(sender, JSON, ("content-length", "500"))
    assert len(sender.left) == 7


def test_a_client_that_expects_100_continue_is_refused_at_once() -> None:
    sender = Sender([b"x" * 50])
    with pytest.raises(BodyTooLarge):
        read(sender, JSON, ("content-length", "50"), ("expect", "100-continue"))
    assert len(sender.left) == 1


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "APPLICATION/JSON", "application/json;charset=utf-8", 'application/json; charset="UTF-8"'],
)
def test_a_body_declared_as_json_is_read(content_type: str) -> None:
    assert read(Sender([b"{}"]), ("content-type", content_type)) == b"{}"


@pytest.mark.parametrize(
    "content_type",
    ["", "json", "text/plain", "text/json", "application/x-www-form-urlencoded", "application/xml",
     "application/problem+json", "application/json; charset=latin-1", "application/jsonp"],
)  # fmt: skip
def test_a_body_declared_as_anything_else_is_refused(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType):
        read(Sender([b"{}"]), ("content-type", content_type))


def test_a_body_without_a_type_or_with_an_encoding_is_refused() -> None:
    with pytest.raises(UnsupportedMediaType, match="Content-Type"):
        read(Sender([b"{}"]))
    with pytest.raises(UnsupportedMediaType, match="gzip"):
        read(Sender([b"{}"]), JSON, ("content-encoding", "gzip"))
    assert read(Sender([b"{}"]), JSON, ("content-encoding", "identity")) == b"{}"


REQUESTS = {"Submission", "FaucetRequest"}


def amount_fields(names: Iterable[str]) -> set[str]:
    """The fields that the document calls amounts, in the schemas with these names."""
    schemas = DOCUMENT["components"]["schemas"]
    return {
        field
        for name in names
        for field, schema in schemas[name].get("properties", {}).items()
        if schema.get("$ref", "").endswith("Amount")
    }


def test_every_amount_of_the_document_is_written_as_asked() -> None:
    assert set(AMOUNT_FIELDS) == amount_fields(DOCUMENT["components"]["schemas"].keys() - REQUESTS)


def test_every_amount_that_the_client_sends_is_written_as_asked() -> None:
    assert amount_fields(REQUESTS) == SENT_FIELDS


def test_only_amounts_change_and_none_is_rounded() -> None:
    answer = {
        "nonce": 7,
        "value": 2**256 - 1,
        "list": [{"gasPrice": 0, "gas": 21_000}],
        "balance": 10**22 + 1,
        "fee": 1,
        "detail": 'a text may say "value":5 too, or "fee":6',
        "value2": 3,
    }
    changed = json.loads(as_strings(json.dumps(answer, separators=(",", ":")).encode()))
    expected: dict[str, Any] = answer | {
        "value": str(2**256 - 1),
        "list": [{"gasPrice": "0", "gas": 21_000}],
        "balance": str(10**22 + 1),
        "fee": "1",
    }
    assert changed == expected


def test_the_query_chooses_the_form_of_amounts() -> None:
    assert amounts_of({})(b'{"value":1}') == b'{"value":1}'
    assert amounts_of({"amounts": "number"})(b'{"value":1}') == b'{"value":1}'
    assert amounts_of({"amounts": "string"})(b'{"value":1}') == b'{"value":"1"}'
    for wrong in ("", "String", "hex"):
        with pytest.raises(InvalidQuery, match="number or string"):
            amounts_of({"amounts": wrong})


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
    404: {"BLOCK_NOT_KEPT", "NOT_A_DEV_CHAIN", "NOT_SIGNED_YET", "TX_NOT_KEPT"},
    408: {"REQUEST_TIMEOUT"},
    422: {"DATA_TOO_LONG", "IDEMPOTENCY_KEY_REUSED", "STATEMENT_TOO_LONG", "UPDATE_REFUSED"},
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


def test_an_error_is_written_as_a_problem_document() -> None:
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


def test_the_problem_of_a_dropped_transaction_has_the_reason() -> None:
    problem = problem_of(TxDropped("nonce used"))
    assert (problem.status, problem.code, problem.reason) == (404, "TX_DROPPED", "nonce used")


def test_a_status_has_the_headers_that_belong_to_it() -> None:
    assert (b"allow", b"GET, HEAD") in encode_problem(MethodNotAllowed("PUT", "GET, HEAD"))[1]
    assert (b"retry-after", b"5") in encode_problem(errors.MempoolFull("full"))[1]
    assert (b"upgrade", b"websocket") in encode_problem(errors.UpgradeRequired("ws only"))[1]


@pytest.mark.parametrize("failure", [errors.Corrupt("block 7 at /secret/path"), errors.Internal("a traceback")])
def test_a_failure_of_the_node_is_answered_without_details(failure: NodeError) -> None:
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
