"""The public interface of a node that does not keep all blocks."""

import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from cairn.api.chain_view import ChainView
from tests.support.core_fixtures import ACCOUNTS, signed
from tests.support.described import assert_described
from tests.support.public import assert_problem
from tests.support.rest_node import RestNode, body_of, hash_of

SENDER = "0x" + ACCOUNTS[0].hex()
BASE, HEAD = 4, 9


async def mine_and_prune(node: RestNode) -> list[str]:
    """Nine blocks of one transaction each, of which those from `BASE` on are kept."""
    hashes = []
    for nonce in range(HEAD):
        tx = signed(nonce)
        hashes.append(hash_of(tx))
        assert (await node.post(body_of(tx))).status_code == 200
        if nonce == HEAD - 1:
            node.mine_after_pruning(BASE)
        else:
            node.mine()
    return hashes


async def test_blocks_and_transactions_below_the_base_are_not_found(node: RestNode) -> None:
    genesis = (await node.read("/block/0"))["hash"]
    hashes = await mine_and_prune(node)
    for named in ("1", "3"):
        answer = await node.get(f"/block/{named}")
        assert_described(answer)
        problem = assert_problem(answer, 404, "BLOCK_NOT_KEPT")
        assert problem["detail"] == f"block {named} is not kept by this node; the oldest it has is {BASE}"
    assert (await node.read(f"/block/{BASE}"))["blockHeight"] == BASE
    # Blocks never change, so a worker that has one ready may go on giving it.
    assert (await node.get(f"/block/{genesis}")).status_code in (200, 404)
    for number, tx_hash in enumerate(hashes, start=1):
        answer = await node.get(f"/tx/{tx_hash}")
        assert_described(answer)
        if number < BASE:
            problem = assert_problem(answer, 404, "TX_NOT_KEPT")
            assert f"from {BASE} on, the oldest that this node keeps" in problem["detail"]
        else:
            assert answer.json()["blockHeight"] == number
            assert (await node.read(f"/tx/{tx_hash}/proof"))["header"]["blockHeight"] == number


async def test_lists_end_with_the_oldest_block_that_is_kept(node: RestNode) -> None:
    await mine_and_prune(node)
    answer = await node.get("/blocks?limit=4")
    assert [block["blockHeight"] for block in answer.json()] == [9, 8, 7, 6]
    assert answer.headers["x-total-count"] == "6"
    following = await node.get(answer.headers["link"].partition(">")[0].removeprefix("<"))
    assert [block["blockHeight"] for block in following.json()] == [5, 4]
    assert "link" not in following.headers
    assert await node.read("/blocks?after=3") == []
    items = await node.read(f"/account/{SENDER}/txs")
    assert [item["blockHeight"] for item in items] == [9, 8, 7, 6, 5, 4]
    assert (await node.read(f"/account/{SENDER}"))["nonce"] == HEAD


async def test_a_confirmed_transaction_that_is_not_kept_cannot_be_sent_again(node: RestNode) -> None:
    await mine_and_prune(node)
    answer = await node.post(body_of(signed(1)))
    assert json.loads(answer.content)["code"] == "NONCE_TOO_LOW"


async def test_a_history_names_the_oldest_block_that_was_searched(node: RestNode) -> None:
    path = f"/account/{SENDER}/txs"
    assert "x-oldest-block" not in (await node.get(path)).headers, "nothing is missing"
    await mine_and_prune(node)
    for query in ("", "?order=asc", "?direction=out", "?reference=invoice+4711", f"?fromHeight={BASE}", "?after=2-0"):
        for accept in ("application/json", "application/x-ndjson"):
            answer = await node.get(path + query, accept=accept)
            assert_described(answer)
            assert (answer.status_code, answer.headers["x-oldest-block"]) == (200, str(BASE)), query


async def test_a_history_of_blocks_that_are_not_kept_is_refused(node: RestNode) -> None:
    times = [(await node.read("/block/latest"))["timestamp"]]
    await mine_and_prune(node)
    times.append((await node.read(f"/block/{BASE}"))["timestamp"])
    path = f"/account/{SENDER}/txs"
    for query in (
        *("fromHeight=0", "fromHeight=1", f"fromHeight={BASE - 1}", "fromHeight=1&order=asc", "fromHeight=1&after=7-0"),
        *("fromHeight=1&direction=out", "fromHeight=1&reference=invoice+4711", "fromHeight=1&order=asc&before=7-0"),
        # The block before may have the same time.
        *("fromTime=0", f"fromTime={times[0]}", f"fromTime={times[1]}", f"toHeight={BASE - 1}", "toTime=5"),
    ):
        for accept in ("application/json", "application/x-ndjson"):
            if "before" not in query or accept == "application/json":
                answer = await node.get(f"{path}?{query}", accept=accept)
                assert_described(answer)
                assert_problem(answer, 404, "BLOCK_NOT_KEPT")
    for query in (f"fromHeight={BASE}", f"order=asc&fromHeight=1&after={BASE}-0", "fromHeight=1&before=7-0"):
        assert (await node.get(f"{path}?{query}")).status_code == 200, query


@pytest.mark.parametrize(
    ("query", "found"),
    [("", [9, 8, 7]), ("order=asc", [4, 7, 8, 9]), (f"fromHeight={BASE}", None), (f"order=asc&fromHeight={BASE}", None),
     (f"order=asc&after={BASE}-0", None), ("fromHeight=7", [9, 8, 7]), ("order=asc&after=7-0", [8, 9])],
)  # fmt: skip
async def test_blocks_that_are_removed_while_a_page_is_made_are_not_passed_over_in_silence(
    node: RestNode, monkeypatch: pytest.MonkeyPatch, query: str, found: list[int] | None
) -> None:
    await mine_and_prune(node)
    in_slices = ChainView.in_slices

    async def interrupted(view: ChainView, items: Iterable[Any]) -> AsyncIterator[Any]:
        is_first = True
        async for item in in_slices(view, items):
            yield item
            if is_first:
                node.mine_after_pruning(7)
                is_first = False

    monkeypatch.setattr(ChainView, "in_slices", interrupted)
    answer = await node.get(f"/account/{SENDER}/txs?{query}")
    if found is None:
        assert_problem(answer, 404, "BLOCK_NOT_KEPT")
    else:
        assert [item["blockHeight"] for item in answer.json()] == found
        assert answer.headers["x-oldest-block"] == "7"
