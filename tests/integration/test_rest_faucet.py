"""POST /faucet on a node in one process."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from cairn.api.chain_view import ChainView
from cairn.domain.genesis import COIN
from tests.support.public import assert_problem
from tests.support.rest_node import RestNode
from tests.support.scripted_gateway import INFO, request

STRANGER = "0x" + "5a" * 20


async def ask(node: RestNode, body: object, path: str = "/faucet") -> httpx.Response:
    return await node.post(body, path)


async def test_a_request_without_an_amount_sends_100_coins(node: RestNode) -> None:
    answer = await ask(node, {"address": STRANGER})
    assert answer.status_code == 200
    assert answer.json().keys() == {"status", "txHash"}
    assert answer.json()["status"] == "pending"
    node.mine()
    tx = await node.read(f"/tx/{answer.json()['txHash']}")
    assert (tx["status"], tx["to"], tx["value"]) == ("confirmed", STRANGER, 100 * COIN)
    assert (await node.read(f"/account/{STRANGER}"))["balance"] == 100 * COIN


@pytest.mark.parametrize("amount", [COIN, str(COIN), float(2**52)])
async def test_a_request_with_an_amount_sends_it(node: RestNode, amount: Any) -> None:
    assert (await ask(node, {"address": STRANGER, "amount": amount})).status_code == 200
    (pending,) = await node.read("/mempool")
    assert pending["value"] == int(amount)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "address"),
        ({"address": 7}, "address"),
        ({"address": "0x12"}, "address"),
        ({"address": STRANGER, "to": STRANGER}, "to"),
        ({"address": STRANGER, "amount": 0}, "amount"),
        ({"address": STRANGER, "amount": -1}, "amount"),
        ({"address": STRANGER, "amount": 1001 * COIN}, "amount"),
        ({"address": STRANGER, "amount": 1.5}, "amount"),
        ({"address": STRANGER, "amount": True}, "amount"),
        ({"address": STRANGER, "amount": "0x10"}, "amount"),
        ({"address": STRANGER, "amount": None}, "amount"),
    ],
)
async def test_a_wrong_field_is_named_in_the_error(node: RestNode, body: object, field: str) -> None:
    assert assert_problem(await ask(node, body), 400, "INVALID_FIELD")["field"] == field


async def test_a_malformed_request_is_refused_by_what_is_wrong_with_it(node: RestNode) -> None:
    assert_problem(await ask(node, []), 400, "INVALID_FIELD")
    json = {"content-type": "application/json"}
    for content in (b"{", b"\xff"):
        answer = await node.http.post("/faucet", content=content, headers=json)
        assert_problem(answer, 400, "MALFORMED_JSON")
    twice = b'{"address":"' + STRANGER.encode() + b'","address":"' + STRANGER.encode() + b'"}'
    assert_problem(await node.http.post("/faucet", content=twice, headers=json), 400, "INVALID_FIELD")
    assert_problem(await node.http.post("/faucet", content=b"{}"), 415, "UNSUPPORTED_MEDIA_TYPE")
    assert_problem(await node.http.post("/faucet", content=b" " * 5_000, headers=json), 413, "BODY_TOO_LARGE")
    assert_problem(await ask(node, {"address": STRANGER}, "/faucet?amount=1"), 400, "INVALID_QUERY")
    assert_problem(await node.get("/faucet"), 405, "METHOD_NOT_ALLOWED")


def test_another_chain_than_a_dev_chain_answers_404() -> None:
    view = ChainView(Path("unused"), chain_id=1337)
    view.info = INFO
    view.on_phase("ready", "")
    body = f'{{"address":"{STRANGER}"}}'.encode()
    answer = request("POST", "/faucet", view=view, headers={"content-type": "application/json"}, content=body)
    assert_problem(answer, 404, "NOT_A_DEV_CHAIN")
