"""The OpenAPI document: valid, complete, and about exactly the routes that are served."""

import json
import re
import time
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from openapi_spec_validator import validate

from cairn.api.app import make_handlers
from cairn.api.bodies import problem_of
from cairn.api.chain_view import ChainView
from cairn.api.description.openapi import encode_openapi, openapi_document
from cairn.api.next_nonces import NextNonces
from cairn.api.rest.submission_fields import REQUIRED
from cairn.api.rest.submissions import parse_submission
from cairn.api.routing import PageRoute, operations_of
from cairn.api.rpc.dispatch import Dispatcher
from cairn.api.server.access import RateLimiter
from cairn.config import Settings
from cairn.domain.errors import ANSWERED, InvalidField, TxDropped, received_error
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.update_json import parse_update_json
from tests.support.described import DOCUMENT, validator
from tests.support.pages import Page
from tests.support.scripted_gateway import ScriptedGateway

DEV_ACCOUNTS = [address for address, _ in DEV_KEYS]


def served() -> set[tuple[str, str]]:
    view = ChainView(Path("unused"))
    settings = Settings()
    limiter = RateLimiter(settings, time.monotonic)
    gateway = ScriptedGateway()
    nonces = NextNonces(gateway, view)
    every = make_handlers(gateway, view, nonces, Dispatcher({}, view.fail), limiter, settings)
    routes = [operation for part in every for operation in operations_of(type(part))]
    # Every GET is answered to HEAD too; the document says so once.
    return {(route.method.lower(), route.path) for route in routes if not isinstance(route, PageRoute)}


def test_pages_for_people_are_no_operations() -> None:
    assert not [path for path in DOCUMENT["paths"] if path == "/" or path.startswith(("/explorer", "/docs"))]
    media_types = {
        media_type
        for _, operation in operations()
        for response in operation["responses"].values()
        for media_type in response.get("content", {})
    }
    assert {name.partition("/")[0] for name in media_types} == {"application"}


def test_served_routes_equal_documented_ones() -> None:
    documented = {(method, path) for path, item in DOCUMENT["paths"].items() for method in item}
    assert documented == served()


@pytest.mark.parametrize("signs_for", [[], DEV_ACCOUNTS])
def test_document_is_valid(signs_for: list[Any]) -> None:
    document = json.loads(encode_openapi(signs_for))
    validate(document)
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["version"] == "1.0.0"


def test_every_code_is_described_under_its_status() -> None:
    for error in ANSWERED:
        response = DOCUMENT["components"]["responses"][str(error.status)]
        assert re.search(rf"\b{error.code}\b", response["description"]), error.code


def test_every_problem_fits_its_schema() -> None:
    problems = validator("/components/schemas/Problem")
    for error in ANSWERED:
        field, reason = "value" if error is InvalidField else None, "evicted" if error is TxDropped else None
        body = problem_of(received_error(error.code, "why", field=field, reason=reason))
        problems.validate(msgspec.to_builtins(body))


def test_examples_are_valid_and_taken() -> None:
    for example in DOCUMENT["components"]["schemas"]["Submission"]["examples"]:
        parse_submission(json.dumps(example).encode(), 1)
    for example in DOCUMENT["components"]["schemas"]["ValidatorUpdate"]["examples"]:
        parse_update_json(json.dumps(example).encode())


@pytest.mark.parametrize("signs_for", [[], DEV_ACCOUNTS])
def test_examples_fit_their_schemas(signs_for: list[Any]) -> None:
    for name, schema in openapi_document(signs_for)["components"]["schemas"].items():
        for example in schema.get("examples", []):
            validator(f"/components/schemas/{name}").validate(example)


def test_on_a_dev_chain_the_first_example_needs_no_signature() -> None:
    """A tool that fills it in must not begin with a refusal."""
    assert "signature" not in DOCUMENT["components"]["schemas"]["Submission"]["examples"][0]


def operations() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{method} {path}", operation)
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
    ]


def examples_of(schema: dict[str, Any]) -> list[Any]:
    """Its own, or those of what it points to or of its first choice."""
    if "$ref" in schema:
        return examples_of(DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    return list(schema.get("examples") or (examples_of(schema["oneOf"][0]) if "oneOf" in schema else []))


@pytest.mark.parametrize(("where", "operation"), operations())
def test_every_operation_has_a_description_and_examples(where: str, operation: dict[str, Any]) -> None:
    assert operation["summary"]
    assert operation["description"]
    needed = [parameter for parameter in operation.get("parameters", []) if parameter["required"]]
    assert [parameter["name"] for parameter in needed if "example" not in parameter] == []
    contents = [operation.get("requestBody"), operation["responses"].get("200")]
    for schema in (content["content"].get("application/json", {}).get("schema", {}) for content in contents if content):
        # What has no name is a document, or a file.
        assert "$ref" not in schema or examples_of(schema)


def test_the_transaction_on_the_first_page_is_valid() -> None:
    [sent] = [
        json.loads(body) for step in Page("README.md").steps() for body in re.findall(r"-d '(\{.*?\})'", step.line)
    ]
    assert sent["from"] != sent["from"].lower(), "a checksummed address, as wallets show it"
    validator("/components/schemas/Submission").validate(sent)


def test_the_schema_of_an_amount_allows_what_is_accepted_and_no_more() -> None:
    amounts = validator("/components/schemas/Amount")
    for taken in (0, 2**256 - 1, "0", str(2**256 - 1), "0" * 78):
        amounts.validate(taken)
        submission = DOCUMENT["components"]["schemas"]["Submission"]["examples"][0] | {"value": taken}
        assert parse_submission(json.dumps(submission).encode(), 1)[0].value == int(taken)
    for refused in (-1, 2**256, 1.5, "", "-1", "0x1", "1e3", "1" * 79, None, True):
        assert not amounts.is_valid(refused), refused


EXCLUDING: dict[str, list[Any]] = {
    "type": [None, 0, 1, 2],
    "gasPrice": [None, 1],
    "maxFeePerGas": [None, 5],
    "maxPriorityFeePerGas": [None, 1],
    "data": [None, "0x00"],
    "reference": [None, "a"],
}


def test_the_schema_refuses_the_same_combinations_of_fields_as_the_node() -> None:
    schema = validator("/components/schemas/Submission")
    plain = DOCUMENT["components"]["schemas"]["Submission"]["examples"][0]
    refused = 0
    for values in product(*EXCLUDING.values()):
        given = {name: value for name, value in zip(EXCLUDING, values, strict=True) if value is not None}
        try:
            parse_submission(json.dumps(plain | given).encode(), 1)
        except InvalidField:
            refused += 1
            assert not schema.is_valid(plain | given), given
        else:
            assert schema.is_valid(plain | given), given
    assert 0 < refused < 128


def test_no_operation_needs_credentials() -> None:
    assert DOCUMENT["security"] == []


def test_on_a_dev_chain_the_signature_may_be_left_out() -> None:
    assert set(DOCUMENT["components"]["schemas"]["Submission"]["required"]) == set(REQUIRED)


def test_without_keys_the_signature_is_always_required() -> None:
    submission = openapi_document([])["components"]["schemas"]["Submission"]
    assert set(submission["required"]) == {*REQUIRED, "signature"}
    assert [example for example in submission["examples"] if "signature" not in example] == []


def parameters() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{method} {path}", parameter)
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
        for parameter in operation.get("parameters", [])
    ]


@pytest.mark.parametrize(("where", "parameter"), parameters())
def test_examples_of_parameters_are_valid(where: str, parameter: dict[str, Any]) -> None:
    schema = parameter["schema"]
    examples = [*schema.get("examples", []), *([parameter["example"]] if "example" in parameter else [])]
    for example in examples:
        if "pattern" in schema:
            assert re.search(schema["pattern"], example), where
        if "enum" in schema:
            assert example in schema["enum"], where


@pytest.mark.parametrize(
    "name", ["BlockPath", "StatePath", "ChangePath", "StatementFile", "VoteSignature", "SetMember"]
)
def test_integers_of_proofs_are_of_64_bits_for_generated_clients(name: str) -> None:
    fields = DOCUMENT["components"]["schemas"][name]["properties"].values()
    assert {field.get("format") for field in fields if field.get("type") == "integer"} <= {"int64"}
