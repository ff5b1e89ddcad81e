"""Amounts as strings: each of them, and nothing else, in an answer of any kind."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from cairn.api.amount_forms import FIELDS, amounts_of, as_strings
from cairn.client.transport import AMOUNT_FIELDS as SENT_FIELDS
from cairn.domain.errors import InvalidQuery
from tests.support.described import DOCUMENT

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
    assert set(FIELDS) == amount_fields(DOCUMENT["components"]["schemas"].keys() - REQUESTS)


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


def test_the_query() -> None:
    assert amounts_of({})(b'{"value":1}') == b'{"value":1}'
    assert amounts_of({"amounts": "number"})(b'{"value":1}') == b'{"value":1}'
    assert amounts_of({"amounts": "string"})(b'{"value":1}') == b'{"value":"1"}'
    for wrong in ("", "String", "hex"):
        with pytest.raises(InvalidQuery, match="number or string"):
            amounts_of({"amounts": wrong})
