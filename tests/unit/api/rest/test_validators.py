"""GET and POST /validators, over a core whose validators the test sets."""

import json
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from cairn.api.chain_view import ChainView
from cairn.core.gateway import ValidatorSet
from cairn.domain.errors import NotFound
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.governance import (
    Admins,
    Before,
    ChainIdentity,
    EvidenceKind,
    EvidenceRecord,
    Governance,
    Update,
    ValidatorRecord,
    ValidatorUpdate,
)
from cairn.domain.update_json import encode_update_json
from cairn.domain.updates import sign_update, update_admins
from tests.support.described import validator
from tests.support.scripted_gateway import INFO, ScriptedGateway, request

CHAIN = ChainIdentity(1337, b"\x13" * 32)
FIRST = ValidatorRecord(b"\x01" * 32, 10, DEV_KEYS[0][0], "first")
UPDATE = sign_update(ValidatorUpdate(0, FIRST, Before(0, 0, 0, 0)), [DEV_KEYS[0][1]], CHAIN)


class NetworkGateway(ScriptedGateway):
    def __init__(self, current: ValidatorSet | None) -> None:
        super().__init__()
        self.current = current
        self.updates: list[Update] = []

    async def validators(self) -> ValidatorSet:
        if self.current is None:
            raise NotFound("this chain has no validators")
        return self.current

    async def submit_update(self, update: Update) -> None:
        self.updates.append(update)


def network(admins: Admins | None = None) -> NetworkGateway:
    governance = Governance(0, (FIRST,), admins=admins or Admins(1, (DEV_KEYS[0][0],)))
    return NetworkGateway(ValidatorSet(CHAIN, 5, governance, 7, [2]))


def ask(gateway: ScriptedGateway, method: str, body: bytes | None = None, query: str = "") -> httpx.Response:
    view = ChainView(Path("unused"))
    view.info = INFO
    view.on_phase("ready", "")
    headers = {"content-type": "application/json"} if body is not None else {}
    return request(method, f"/validators{query}", gateway, view, headers=headers, content=body)


def problem(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_the_listing_is_as_described() -> None:
    answer = ask(network(), "GET")
    assert answer.status_code == 200
    body: Any = answer.json()
    validator("/components/schemas/Validators").validate(body)
    assert (body["sequence"], body["threshold"], body["blockHeight"]) == (0, 1, 5)
    assert body["validators"][0]["name"] == "first"
    assert ask(network(), "HEAD").status_code == 200
    assert problem(ask(network(), "GET", query="?x=1")) == (400, "INVALID_QUERY")


def test_missing_votes_and_evidence_are_told_newest_first() -> None:
    body = ask(network(), "GET").json()
    assert (body["votedBlocks"], body["validators"][0]["missedBlocks"]) == (7, 2)
    assert (body["evidenceCount"], body["evidence"], body["validators"][0]["evidence"]) == (0, [], 0)
    gateway = network()
    assert gateway.current is not None
    pieces = [
        EvidenceRecord(EvidenceKind.DUPLICATE_VOTE, FIRST.engine_address, 3, 1_003),
        EvidenceRecord(EvidenceKind.LIGHT_CLIENT_ATTACK, bytes(20), 4, 1_004),
    ]
    told = gateway.current.governance.with_evidence(pieces)
    gateway.current = msgspec.structs.replace(gateway.current, governance=told)
    body = ask(gateway, "GET").json()
    validator("/components/schemas/Validators").validate(body)
    assert (body["evidenceCount"], body["validators"][0]["evidence"]) == (2, 1)
    assert body["evidence"] == [
        {"address": "0" * 40, "name": "", "kind": "lightClientAttack", "blockHeight": 4, "timestamp": 1_004},
        {
            "address": FIRST.engine_address.hex().upper(),
            "name": "first",
            "kind": "duplicateVote",
            "blockHeight": 3,
            "timestamp": 1_003,
        },
    ]


def test_a_change_of_the_administrators_is_handed_on() -> None:
    gateway = network()
    assert gateway.current is not None
    unsigned = update_admins(gateway.current.governance, Admins(1, (DEV_KEYS[1][0],)))
    signed = sign_update(unsigned, [DEV_KEYS[0][1]], CHAIN)
    text = encode_update_json(CHAIN, signed)
    validator("/components/schemas/ValidatorUpdate").validate(json.loads(text))
    assert ask(gateway, "POST", text).status_code == 202
    assert gateway.updates == [signed]


def test_an_update_is_handed_on() -> None:
    gateway = network()
    text = encode_update_json(CHAIN, UPDATE)
    answer = ask(gateway, "POST", text)
    assert (answer.status_code, answer.json()) == (202, {"status": "submitted", "sequence": 0})
    assert gateway.updates == [UPDATE]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{", (400, "MALFORMED_JSON")),
        (b"{}", (400, "INVALID_FIELD")),
        (b" " * 50_000, (413, "BODY_TOO_LARGE")),
        (encode_update_json(ChainIdentity(1, CHAIN.genesis), UPDATE), (422, "UPDATE_REFUSED")),
        (encode_update_json(ChainIdentity(1337, bytes(32)), UPDATE), (422, "UPDATE_REFUSED")),
    ],
)
def test_a_wrong_update_is_refused(body: bytes, expected: tuple[int, str]) -> None:
    gateway = network()
    assert problem(ask(gateway, "POST", body)) == expected
    assert gateway.updates == []


def test_a_chain_without_validators_has_no_such_path() -> None:
    assert problem(ask(NetworkGateway(None), "GET")) == (404, "NOT_FOUND")
    assert problem(ask(NetworkGateway(None), "POST", encode_update_json(CHAIN, UPDATE))) == (404, "NOT_FOUND")
    assert problem(ask(network(), "PUT", b"{}")) == (405, "METHOD_NOT_ALLOWED")
