"""POST /tx and POST /txs against a whole node in process: what is filled in, refused, repeated and kept in order."""

import asyncio
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from cairn import time_shares
from cairn.domain.types import Draft
from tests.support.core_fixtures import ACCOUNTS, GWEI, settings, signed
from tests.support.described import assert_described
from tests.support.public import assert_problem
from tests.support.rest_node import RestNode, body_of, hash_of, rest_node, without


def draft_body(**fields: Any) -> dict[str, Any]:
    """A transfer of an account whose key the node holds."""
    return {"from": "0x" + ACCOUNTS[0].hex(), "to": "0x" + ACCOUNTS[1].hex(), "value": 1, "gas": 21_000} | fields


async def test_amounts_are_exact_both_ways(node: RestNode) -> None:
    value = 9_007_199_254_740_993_000_000_001
    tx = signed(0, value=9_007_199_254_740_993)
    answer = await node.http.post(
        "/tx",
        content=str(body_of(tx)).replace("'", '"').encode(),
        headers={"content-type": "application/json"},
    )
    assert answer.status_code == 200
    assert b'"value":9007199254740993,' in (await node.get(f"/tx/{hash_of(tx)}")).content
    problem = assert_problem(await node.post(body_of(signed(1, value=value))), 422, "INSUFFICIENT_FUNDS")
    assert str(tx.cost + value + 21_000 * GWEI) in problem["detail"]


async def test_a_transaction_without_a_nonce_gets_the_next_one_and_may_be_sent_again(node: RestNode) -> None:
    """The first one moved the next nonce on; the repetition still means the same transaction."""
    tx = signed(0)
    body = without(body_of(tx), "nonce")
    assert (await node.post(body)).json()["status"] == "pending"
    assert (await node.post(body)).json() == {"status": "pending", "txHash": hash_of(tx)}
    node.mine()
    assert (await node.post(body)).json() == {"status": "confirmed", "txHash": hash_of(tx)}
    unsent = without(body_of(signed(0, value=5)), "nonce")
    assert_problem(await node.post(unsent), 422, "INVALID_SIGNATURE")


async def test_a_queued_transaction_is_pending_and_says_what_it_waits_for_until_it_comes(node: RestNode) -> None:
    first, second, third = signed(0), signed(1), signed(2)
    why = {"queued": True, "queuedReason": "waits for nonce 0"}
    for answer in (await node.post(body_of(second)), await node.post(body_of(second))):
        assert_described(answer)
        assert answer.json() == {"status": "pending", "txHash": hash_of(second)} | why, "also when it is sent again"
    batch = await node.http.post("/txs", json=[body_of(third)])
    assert_described(batch)
    assert batch.json() == [{"status": "pending", "txHash": hash_of(third)} | why]
    for path in (f"/tx/{hash_of(second)}", "/mempool"):
        for form in ("", "?amounts=string"):
            answer = await node.get(path + form)
            assert_described(answer)
            shown = answer.json() if path != "/mempool" else answer.json()[0]
            assert {name: shown.get(name) for name in why} == why
    assert (await node.get(f"/tx/{hash_of(second)}")).json()["status"] == "pending"
    await node.post(body_of(first))
    looked_up = [(await node.get(f"/tx/{hash_of(tx)}")).json() for tx in (first, second, third)]
    for shown in [*looked_up, *(await node.get("/mempool")).json()]:
        assert why.keys().isdisjoint(shown)
    assert (await node.post(body_of(second))).json() == {"status": "pending", "txHash": hash_of(second)}


async def test_a_batch_out_of_order_has_no_gap_once_all_of_it_is_taken(node: RestNode) -> None:
    answer = await node.http.post("/txs", json=[body_of(signed(1)), body_of(signed(0))])
    hashes = [hash_of(signed(nonce)) for nonce in (1, 0)]
    assert [(each["status"], each["txHash"]) for each in answer.json()] == [("pending", each) for each in hashes]
    # The first answer alone may tell of a gap: on a busy machine its sync may come before the second is read.
    assert "queued" not in answer.json()[1]
    for each in hashes:
        assert "queued" not in (await node.http.get(f"/tx/{each}")).json()


async def test_a_transaction_without_a_signature_is_signed_for_dev_accounts_only(node: RestNode) -> None:
    answer = await node.post(draft_body())
    assert_described(answer)
    assert answer.json() == {"status": "pending", "txHash": hash_of(signed(0))}
    assert (await node.post(draft_body(nonce=0))).json()["txHash"] == hash_of(signed(0)), "the same again"
    assert (await node.post(draft_body())).json()["txHash"] == hash_of(signed(1))
    stranger = await node.post(draft_body(**{"from": "0x" + "77" * 20}))
    assert assert_problem(stranger, 400, "INVALID_FIELD")["field"] == "signature"


async def test_each_refusal_of_the_rules_and_the_mempool_has_its_status_and_code(node: RestNode) -> None:
    await node.post(body_of(signed(0)))
    node.mine()
    await node.post(body_of(signed(1, gas_price=100 * GWEI)))
    refused = [
        (body_of(signed(0, value=7)), 409, "NONCE_TOO_LOW"),
        (body_of(signed(1, gas_price=110 * GWEI - 1)), 409, "REPLACEMENT_UNDERPRICED"),
        (body_of(signed(2 + 65)), 422, "NONCE_TOO_HIGH"),
        (body_of(signed(2, value=10**23)), 422, "INSUFFICIENT_FUNDS"),
        (body_of(signed(2, gas_price=GWEI - 1)), 422, "GAS_PRICE_TOO_LOW"),
        (draft_body(gas=20_999), 422, "GAS_TOO_LOW"),
        (draft_body(gas=210_000_001), 422, "GAS_TOO_HIGH"),
        (body_of(signed(2)) | {"value": 2}, 422, "INVALID_SIGNATURE"),
        (body_of(signed(2)) | {"signature": "0x" + "00" * 65}, 422, "INVALID_SIGNATURE"),
        (body_of(signed(2)) | {"signature": "0x" + "11" * 64 + "05"}, 422, "INVALID_SIGNATURE"),
    ]
    for body, status, code in refused:
        answer = await node.post(body)
        assert_problem(answer, status, code)
        assert_described(answer)


async def test_a_full_mempool_is_503_and_a_sender_over_its_limit_429(tmp_path: Path) -> None:
    async with rest_node(tmp_path, settings(mempool_size=4, mempool_per_sender=2)) as node:
        for sender, nonce in ((0, 0), (0, 1), (1, 0), (2, 0)):
            assert (await node.post(body_of(signed(nonce, sender=sender)))).status_code == 200
        for tx, status, code in ((signed(2), 429, "SENDER_LIMIT"), (signed(0, sender=3), 503, "MEMPOOL_FULL")):
            answer = await node.post(body_of(tx))
            assert_problem(answer, status, code)
            assert_described(answer)


async def test_a_batch_keeps_its_order_and_shares_one_sync(node: RestNode, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = 0
    real = os.fdatasync

    def counted(file: int) -> None:
        nonlocal syncs
        syncs += 1
        real(file)

    monkeypatch.setattr(os, "fdatasync", counted)
    # On a slow machine the batch would take several slices of time, and each would be synced.
    monkeypatch.setattr(time_shares, "SLICE_S", math.inf)
    txs = [signed(nonce) for nonce in range(7)]
    answer = await node.post([body_of(tx) for tx in txs], "/txs")
    monkeypatch.undo()
    assert_described(answer)
    assert answer.json() == [{"status": "pending", "txHash": hash_of(tx)} for tx in txs]
    assert (await node.read("/chain"))["mempool"]["pending"] == 7
    assert syncs == 1


async def test_each_item_of_a_batch_has_its_own_result_or_error(node: RestNode) -> None:
    """Later items build on earlier ones, also where a nonce or a signature is left out; none spoils another."""
    items: list[Any] = [
        without(body_of(signed(0)), "nonce"),
        draft_body(),
        draft_body(),
        without(body_of(signed(3)), "nonce"),
        body_of(signed(4)),
        7,
        body_of(signed(0)),
        body_of(signed(5)) | {"value": "x"},
        draft_body(**{"from": "0x" + "77" * 20}),
        body_of(signed(0, value=9)),
    ]
    answer = await node.post(items, "/txs")
    assert_described(answer)
    results = answer.json()
    expected = [hash_of(signed(nonce)) for nonce in (0, 1, 2, 3, 4)]
    assert [result.get("txHash") for result in results] == [*expected, None, expected[0], None, None, None]
    assert [result.get("field") for result in results[5:]] == ["body", None, "value", "signature", None]
    assert results[-1]["code"] == "REPLACEMENT_UNDERPRICED"
    node.mine()
    assert (await node.read(f"/account/0x{ACCOUNTS[0].hex()}"))["nonce"] == 5


async def test_an_unreadable_item_is_answered_as_by_itself(node: RestNode) -> None:
    json_type = {"content-type": "application/json"}
    for nonce, (member, written) in enumerate(
        [("value", "NaN"), ("to", '"\\ud800"'), ("to", '"\x01"'), ("gas", "1" * 5_000)]
    ):
        good = json.dumps(body_of(signed(nonce)))
        bad = json.dumps(body_of(signed(9)) | {member: "SPELLED"}).replace('"SPELLED"', written)
        alone = await node.http.post("/tx", content=bad, headers=json_type)
        assert alone.status_code == 400
        answer = await node.http.post("/txs", content=f"[{bad}, {good}]", headers=json_type)
        assert_described(answer)
        assert answer.json() == [alone.json(), {"status": "pending", "txHash": hash_of(signed(nonce))}]


async def test_a_submission_is_503_while_starting_unavailable_or_draining(node: RestNode) -> None:
    for phase, code in (
        ("starting", "STARTING"),
        ("unavailable", "STORE_UNAVAILABLE"),
        ("draining", "SHUTTING_DOWN"),
    ):
        node.view.on_phase(phase, "told so")  # type: ignore[arg-type]  # a Literal, spelled out above
        for path, body in (("/tx", body_of(signed(0))), ("/txs", [body_of(signed(0))])):
            answer = await node.post(body, path)
            assert_problem(answer, 503, code)
            assert_described(answer)


async def test_items_after_a_failure_of_the_core_still_have_their_results(
    node: RestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected failure of one item leaves the others their results."""

    async def broken(draft: Draft, keyed: object) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(node.core, "submit_draft", broken)
    answer = await node.post([body_of(signed(0)), draft_body()], "/txs")
    assert [item.get("code") for item in answer.json()] == [None, "INTERNAL"]
    assert "secret" not in answer.text
    await asyncio.sleep(0)
