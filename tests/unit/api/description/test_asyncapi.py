"""The AsyncAPI document is well formed, and describes the very messages that the code sends and takes."""

from typing import Any, get_args

import jsonschema
import msgspec
import pytest

from cairn.api.description.asyncapi import ANSWERS, EVENTS, asyncapi_document
from cairn.api.events.messages import ServerMessage, parse_command

DOCUMENT = asyncapi_document()
MESSAGES: dict[str, Any] = DOCUMENT["components"]["messages"]

MAY_BE_LEFT_OUT = {
    "followTransaction": {"queued"},
    "subscribeBlocks": {"fromHeight"},
    "followAddresses": {"fromHeight"},
    "unfollowAddresses": {"addresses"},
    "payment": {"data", "reference"},
}


def resolve(reference: dict[str, str]) -> Any:
    found: Any = DOCUMENT
    for part in reference["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return resolve(found) if isinstance(found, dict) and "$ref" in found else found


def listed(operation: dict[str, Any]) -> list[str]:
    return [resolve(reference)["name"] for reference in operation["messages"]]


def test_the_document_is_complete() -> None:
    assert DOCUMENT["asyncapi"] == "3.0.0"
    assert DOCUMENT["info"]["version"] == "1.0.0"
    (channel,) = DOCUMENT["channels"].values()
    assert channel["address"] == "/events"
    ask, tell = DOCUMENT["operations"]["ask"], DOCUMENT["operations"]["tell"]
    assert resolve(ask["channel"]) == resolve(ask["reply"]["channel"]) == resolve(tell["channel"]) == channel
    assert listed(ask) + listed(ask["reply"]) + listed(tell) == list(MESSAGES) == list(channel["messages"])
    msgspec.json.encode(DOCUMENT)


@pytest.mark.parametrize("name", MESSAGES)
def test_each_example_fits_its_schema(name: str) -> None:
    payload = MESSAGES[name]["payload"]
    jsonschema.Draft7Validator.check_schema(payload)
    for example in MESSAGES[name]["examples"]:
        jsonschema.validate(example["payload"], payload)


def test_every_message_of_the_node_is_described_and_no_other() -> None:
    described = {type(example) for examples in (ANSWERS | EVENTS).values() for example in examples}
    assert described == {kind for cls in get_args(ServerMessage) for kind in (cls.__subclasses__() or [cls])}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_with_a_field_too_many_or_too_few_does_not_fit_its_schema(name: str) -> None:
    payloads = jsonschema.Draft7Validator(MESSAGES[name]["payload"])
    may_be_left_out = {"id"} | MAY_BE_LEFT_OUT.get(name, set())
    for example in MESSAGES[name]["examples"]:
        said = example["payload"]
        assert not payloads.is_valid(said | {"other": 1})
        for left_out in said:
            rest = {field: value for field, value in said.items() if field != left_out}
            assert payloads.is_valid(rest) == (left_out in may_be_left_out)


def test_every_described_request_is_accepted() -> None:
    for reference in DOCUMENT["operations"]["ask"]["messages"]:
        for example in resolve(reference)["examples"]:
            parse_command(example["payload"])
