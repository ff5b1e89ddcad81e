"""A validator update as JSON: what is written reads back, and what is wrong is named."""

import json
from typing import Any

import pytest

from cairn.domain.errors import InvalidField, MalformedJson
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.governance import (
    MAX_POWER,
    Admins,
    AdminsUpdate,
    Before,
    ChainIdentity,
    ValidatorRecord,
    ValidatorUpdate,
)
from cairn.domain.update_json import encode_update_json, parse_public_key, parse_update_json
from cairn.domain.updates import sign_update

CHAIN, OTHER = ChainIdentity(1337, bytes(range(32))), ChainIdentity(1, b"\xff" * 32)
UPDATE = ValidatorUpdate(3, ValidatorRecord(bytes(range(32)), 10, DEV_KEYS[0][0], "node 4"), Before(0, 40, 4, 1))
ADMINS = tuple(address for address, _ in DEV_KEYS[:3])
ADMINS_UPDATE = AdminsUpdate(3, Admins(2, ADMINS), Admins(1, ADMINS[:2]))


def text_with(**changes: Any) -> bytes:
    fields = json.loads(encode_update_json(CHAIN, UPDATE))
    for part in ("validator", "before"):
        fields[part] |= changes.pop(part, {})
    return json.dumps(fields | changes).encode()


def test_an_update_encoded_as_json_is_read_back() -> None:
    signed = sign_update(UPDATE, [DEV_KEYS[0][1], DEV_KEYS[1][1]], CHAIN)
    assert parse_update_json(encode_update_json(CHAIN, signed)) == (CHAIN, signed)
    assert parse_update_json(encode_update_json(OTHER, UPDATE)) == (OTHER, UPDATE)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"chainId": -1}, "chainId"),
        ({"genesis": "0x" + "11" * 31}, "genesis"),
        ({"sequence": 2**64}, "sequence"),
        ({"sequence": "1"}, "body"),
        ({"more": 1}, "body"),
        ({"signatures": ["0x12"]}, "signatures"),
        ({"signatures": ["0x" + "11" * 65] * 101}, "signatures"),
        ({"validator": {"publicKey": "AAAA"}}, "publicKey"),
        ({"validator": {"publicKey": "A" * 43 + "=\n"}}, "publicKey"),
        ({"validator": {"power": -1}}, "power"),
        ({"validator": {"power": MAX_POWER + 1}}, "power"),
        ({"validator": {"feeRecipient": "0x12"}}, "feeRecipient"),
        ({"validator": {"name": "n" * 65}}, "name"),
        ({"validator": {"name": "\x1b[31m"}}, "name"),
        ({"before": {"power": -1}}, "before"),
        ({"before": {"totalPower": 2**64}}, "before"),
        ({"before": {"more": 1}}, "body"),
        ({"admins": {"threshold": 1, "addresses": []}}, "body"),
        ({"replaces": {"threshold": 1, "addresses": []}}, "body"),
    ],
)
def test_a_wrong_field_of_a_validator_update_is_refused_by_name(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField) as refusal:
        parse_update_json(text_with(**changes))
    assert refusal.value.field == field


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[" * 5000])
def test_text_that_is_not_json_is_refused(text: bytes) -> None:
    with pytest.raises((MalformedJson, InvalidField)):
        parse_update_json(text)


def test_a_missing_field_is_refused() -> None:
    with pytest.raises(InvalidField, match="missing required field"):
        parse_update_json(b"{}")


@pytest.mark.parametrize(
    "changes",
    [
        {"chainId": 0, "sequence": 0},
        {"chainId": 2**64 - 1, "sequence": 2**64 - 1},
        {"signatures": ["0x" + "11" * 65] * 100},
        {"validator": {"power": 0}},
        {"validator": {"power": MAX_POWER}},
        {"validator": {"name": ""}},
        {"validator": {"name": "n" * 64}},
    ],
)
def test_the_bounds_themselves_are_taken(changes: dict[str, Any]) -> None:
    text = text_with(**changes)
    assert json.loads(encode_update_json(*parse_update_json(text))) == json.loads(text)


@pytest.mark.parametrize("name", ["é", "tab\t", "node3 ", "two  spaces"])
def test_a_name_that_is_not_words_of_printable_ascii_is_refused(name: str) -> None:
    with pytest.raises(InvalidField, match="words of printable ASCII") as refusal:
        parse_update_json(text_with(validator={"name": name}))
    assert refusal.value.field == "name"


def test_a_change_of_the_administrators_reads_back() -> None:
    signed = sign_update(ADMINS_UPDATE, [DEV_KEYS[0][1]], CHAIN)
    assert parse_update_json(encode_update_json(CHAIN, signed)) == (CHAIN, signed)
    assert sorted(json.loads(encode_update_json(CHAIN, signed))) == [
        "admins", "chainId", "genesis", "replaces", "sequence", "signatures"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"admins": {"threshold": 4, "addresses": [f"0x{number:040x}" for number in range(3)]}}, "admins.threshold"),
        ({"admins": {"threshold": 1, "addresses": ["0x" + "11" * 20] * 2}}, "admins.addresses"),
        ({"admins": {"threshold": 1, "addresses": ["0x12"]}}, "admins.addresses[0]"),
        ({"replaces": {"threshold": 1, "addresses": ["0x12"]}}, "replaces.addresses[0]"),
        ({"admins": {"threshold": "1", "addresses": []}}, "body"),
        ({"validator": {}}, "body"),
        ({"replaces": None}, "body"),
    ],
)
def test_a_wrong_field_of_an_administrators_update_is_refused_by_name(changes: dict[str, Any], field: str) -> None:
    fields = json.loads(encode_update_json(CHAIN, ADMINS_UPDATE)) | changes
    with pytest.raises(InvalidField) as refusal:
        parse_update_json(json.dumps(fields).encode())
    assert refusal.value.field == field


@pytest.mark.parametrize("part", ["validator", "before", "admins", "replaces"])
def test_an_update_with_half_of_its_fields_is_refused(part: str) -> None:
    update = UPDATE if part in ("validator", "before") else ADMINS_UPDATE
    fields = json.loads(encode_update_json(CHAIN, update))
    del fields[part]
    with pytest.raises(InvalidField, match="either validator and before, or admins and replaces"):
        parse_update_json(json.dumps(fields).encode())


def test_a_public_key_is_32_bytes() -> None:
    assert len(parse_public_key("A" * 43 + "=")) == 32
