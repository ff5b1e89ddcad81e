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


async def test_a_list_is_paid_once_and_what_was_refused_is_tried_again(node: RestNode) -> None:
    poor = "0x" + ACCOUNTS[3].hex()
    late = draft_body(**{"from": poor}, value=(await node.read(f"/account/{poor}"))["balance"])
    batch = [draft_body(), late, draft_body(gas=1), body_of(signed(0, sender=4)), draft_body()]
    first = (await post(node, batch, path="/txs")).json()
    assert [each.get("txHash") or each["code"] for each in first] == [
        *(hash_of(signed(0)), "INSUFFICIENT_FUNDS", "GAS_TOO_LOW", hash_of(signed(0, sender=4)), hash_of(signed(1))),
    ]
    node.mine()
    batch[0] = draft_body(value="1")
    again = (await post(node, batch, path="/txs")).json()
    assert [again[0], again[4]] == [first[0], first[4]], "written in another way it is the same"
    assert again[3]["status"] == "confirmed"
    assert await pending(node) == 0
    await node.post({"address": poor, "amount": 10**18}, "/faucet")
    node.mine()
    assert (await post(node, batch, path="/txs")).json()[1]["status"] == "pending", "what was refused may succeed later"


def codes(answer: httpx.Response) -> list[str | None]:
    return [each.get("code") for each in answer.json()]


async def test_another_list_with_the_same_key_pays_nothing(node: RestNode) -> None:
    payment, reused = draft_body(), "IDEMPOTENCY_KEY_REUSED"
    assert codes(await post(node, [payment, payment], path="/txs")) == [None, None]
    for other in ([payment], [payment] * 3, [draft_body(value=2), payment], [draft_body(gas=1), payment, payment]):
        assert set(codes(await post(node, other, path="/txs"))) == {reused}, other
    # What the client signs is served.
    assert codes(await post(node, [body_of(signed(0, sender=3)), payment], path="/txs")) == [None, reused]
    assert await pending(node) == 3


async def test_the_same_key_on_another_route_pays_nothing(node: RestNode) -> None:
    payment, reused = draft_body(), "IDEMPOTENCY_KEY_REUSED"
    gift = {"address": "0x" + ACCOUNTS[1].hex()}
    await post(node, [draft_body(gas=1), payment], path="/txs")
    assert_problem(await post(node, payment), 422, reused)
    assert_problem(await post(node, gift, path="/faucet"), 422, reused)
    await post(node, payment, '"single"')
    await post(node, gift, '"gift"', "/faucet")
    for key in ('"single"', '"gift"'):
        assert codes(await post(node, [payment, payment], key, "/txs")) == [reused, reused]
    assert await pending(node) == 3


async def test_the_faucet_gives_once_for_a_key(node: RestNode) -> None:
    request = {"address": "0x" + "77" * 20, "amount": 5}
    first = await post(node, request, path="/faucet")
    node.mine()
    assert (await post(node, request, path="/faucet")).content == first.content
    node.mine()
    assert (await node.read("/account/0x" + "77" * 20))["balance"] == 5
