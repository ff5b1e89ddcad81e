"""Idempotency-Key on POST /tx, /txs and /faucet, against a whole node in process."""

from typing import Any

import httpx

from tests.integration.test_rest_submission import draft_body
from tests.support.core_fixtures import ACCOUNTS, signed
from tests.support.described import assert_described
from tests.support.public import assert_problem
from tests.support.rest_node import RestNode, body_of, hash_of

UUID = '"8e03978e-40d5-43dd-bc93-6894a57f9324"'


async def post(node: RestNode, body: object, key: str = UUID, path: str = "/tx") -> httpx.Response:
    answer = await node.http.post(path, json=body, headers={"Idempotency-Key": key})
    assert_described(answer)
    return answer


async def pending(node: RestNode) -> Any:
    return (await node.read("/chain"))["mempool"]["pending"]


async def test_a_payment_with_a_key_is_made_once_and_its_answer_is_repeated(node: RestNode) -> None:
    first = await post(node, draft_body())
    assert first.json() == {"status": "pending", "txHash": hash_of(signed(0))}
    node.mine()
    assert (await post(node, draft_body())).content == first.content
    assert (await post(node, draft_body(), UUID.strip('"'))).content == first.content, "quotes are not a part of it"
    assert await pending(node) == 0
    assert (await node.post(draft_body())).json()["txHash"] == hash_of(signed(1)), "without a key it pays again"


async def test_the_same_transfer_written_in_another_way_is_the_same_request(node: RestNode) -> None:
    first = await post(node, draft_body())
    again = draft_body(value="1", gasPrice=10**9, to=draft_body()["to"].upper().replace("0X", "0x"))
    assert (await post(node, again)).content == first.content


async def test_the_same_key_with_another_body_is_422(node: RestNode) -> None:
    await post(node, draft_body())
    for body in (draft_body(value=2), draft_body(nonce=0), draft_body(gas=21_001)):
        assert_problem(await post(node, body), 422, "IDEMPOTENCY_KEY_REUSED")
    assert_problem(
        await post(node, {"address": "0x" + ACCOUNTS[1].hex()}, path="/faucet"), 422, "IDEMPOTENCY_KEY_REUSED"
    )
    assert await pending(node) == 1


async def test_a_malformed_key_is_400_wherever_it_is_taken(node: RestNode) -> None:
    faucet = {"address": "0x" + ACCOUNTS[1].hex()}
    for path, body in (
        ("/tx", draft_body()),
        ("/tx", body_of(signed(0))),
        ("/txs", [draft_body()]),
        ("/faucet", faucet),
    ):
        assert_problem(await post(node, body, "two words", path), 400, "MALFORMED_REQUEST")
    assert await pending(node) == 0


async def test_for_what_the_client_signs_a_key_changes_nothing(node: RestNode) -> None:
    for tx in (signed(0), signed(1)):
        assert (await post(node, body_of(tx))).json() == {"status": "pending", "txHash": hash_of(tx)}
    node.mine()
    assert (await post(node, body_of(signed(0)))).json()["status"] == "confirmed"
    # And so it is still free for a payment that the node signs.
    assert (await post(node, draft_body())).json()["txHash"] == hash_of(signed(2))


async def test_each_of_a_batch_has_the_key_with_its_place(node: RestNode) -> None:
    batch = [draft_body(), draft_body(gas=1), body_of(signed(0, sender=3)), draft_body()]
    first = (await post(node, batch, path="/txs")).json()
    assert [each.get("txHash") or each["code"] for each in first] == [
        *(hash_of(signed(0)), "GAS_TOO_LOW", hash_of(signed(0, sender=3)), hash_of(signed(1))),
    ]
    node.mine()
    batch[1] = draft_body()
    again = (await post(node, batch, path="/txs")).json()
    assert [again[0], again[3]] == [first[0], first[3]]
    assert again[1]["txHash"] == hash_of(signed(2)), "what was refused is tried again"
    assert again[2]["status"] == "confirmed"
    batch[0] = draft_body(value=2)
    assert (await post(node, batch, path="/txs")).json()[0]["code"] == "IDEMPOTENCY_KEY_REUSED"
    assert await pending(node) == 1


async def test_the_faucet_gives_once_for_a_key(node: RestNode) -> None:
    request = {"address": "0x" + "77" * 20, "amount": 5}
    first = await post(node, request, path="/faucet")
    node.mine()
    assert (await post(node, request, path="/faucet")).content == first.content
    node.mine()
    assert (await node.read("/account/0x" + "77" * 20))["balance"] == 5
