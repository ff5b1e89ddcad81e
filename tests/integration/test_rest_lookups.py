"""Every GET against a whole node in process; each answer is also held against the OpenAPI document."""

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import msgspec

from tests.support.core_fixtures import ACCOUNTS, GWEI, produce, settings, signed
from tests.support.described import assert_described
from tests.support.public import assert_problem
from tests.support.rest_node import RestNode, body_of, hash_of, rest_node

FORMATS = Path(__file__).parents[2] / "docs" / "formats.md"
UNKNOWN = "0x" + "ab" * 32
SENDER = "0x" + ACCOUNTS[0].hex()
AT_ONCE_S = 30.0
"""Half of the time for which an answer that is not given at once would wait."""


async def submit(node: RestNode, *nonces: int, sender: int = 0, gas_price: int = GWEI) -> list[str]:
    txs = [signed(nonce, sender=sender, gas_price=gas_price) for nonce in nonces]
    for tx in txs:
        answer = await node.post(body_of(tx))
        assert answer.status_code == 200, answer.text
    return [hash_of(tx) for tx in txs]


async def read(node: RestNode, path: str) -> Any:
    answer = await node.get(path)
    assert_described(answer)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def refused(node: RestNode, path: str, status: int, code: str) -> dict[str, Any]:
    answer = await node.get(path)
    assert_described(answer)
    return assert_problem(answer, status, code)


def next_path(answer: httpx.Response) -> str | None:
    return answer.links.get("next", {}).get("url")


async def every_page(node: RestNode, path: str) -> list[Any]:
    items: list[Any] = []
    following: str | None = path
    while following is not None:
        answer = await node.get(following)
        assert_described(answer)
        assert answer.status_code == 200, answer.text
        items += answer.json()
        following = next_path(answer)
    return items


async def test_a_dropped_transaction_is_404_with_the_reason(node: RestNode) -> None:
    [replaced] = await submit(node, 0)
    await submit(node, 0, gas_price=2 * GWEI)
    assert (await refused(node, f"/tx/{replaced}", 404, "TX_DROPPED"))["reason"] == "replaced"


async def test_wait_ends_with_the_confirmation(node: RestNode) -> None:
    [tx_hash] = await submit(node, 0)
    waiting = asyncio.ensure_future(read(node, f"/tx/{tx_hash}?wait=60"))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    node.mine()
    assert (await asyncio.wait_for(waiting, AT_ONCE_S))["status"] == "confirmed"
    again = await asyncio.wait_for(read(node, f"/tx/{tx_hash}?wait=60"), AT_ONCE_S)
    assert again["status"] == "confirmed"


async def test_wait_ends_with_the_time_a_drop_or_the_stop(node: RestNode) -> None:
    [held] = await submit(node, 5)
    loop = asyncio.get_running_loop()
    began = loop.time()
    over = await asyncio.wait_for(read(node, f"/tx/{held}?wait=0.1"), AT_ONCE_S)
    assert over["status"] == "pending"
    assert loop.time() - began > 0.09
    waiting = asyncio.ensure_future(node.get(f"/tx/{held}?wait=60"))
    await asyncio.sleep(0.02)
    await submit(node, 5, gas_price=2 * GWEI)
    assert_problem(await asyncio.wait_for(waiting, AT_ONCE_S), 404, "TX_DROPPED")
    [other] = await submit(node, 6)
    waiting = asyncio.ensure_future(node.get(f"/tx/{other}?wait=60"))
    await asyncio.sleep(0.02)
    node.view.on_phase("draining", "stopping")
    assert (await asyncio.wait_for(waiting, AT_ONCE_S)).json()["status"] == "pending"
    again = await asyncio.wait_for(node.get(f"/tx/{other}?wait=60"), AT_ONCE_S)
    assert again.json()["status"] == "pending"


async def test_unknown_transaction_is_waited_for_too(node: RestNode) -> None:
    """Another node of the network may have taken it a moment ago."""
    answer = await asyncio.wait_for(node.get(f"/tx/{UNKNOWN}?wait=0.1"), AT_ONCE_S)
    assert_problem(answer, 404, "TX_NOT_FOUND")
    waiting = asyncio.ensure_future(read(node, f"/tx/{hash_of(signed(0))}?wait=60"))
    brief = asyncio.ensure_future(read(node, f"/tx/{hash_of(signed(0))}?wait=0.1"))
    await asyncio.sleep(0.02)
    await submit(node, 0)
    assert (await asyncio.wait_for(brief, AT_ONCE_S))["status"] == "pending"
    assert not waiting.done()
    node.mine()
    assert (await asyncio.wait_for(waiting, AT_ONCE_S))["status"] == "confirmed"


async def test_unknown_transaction_is_not_waited_for_by_a_node_that_stops(node: RestNode) -> None:
    waiting = asyncio.ensure_future(node.get(f"/tx/{UNKNOWN}?wait=60"))
    await asyncio.sleep(0.02)
    node.view.on_phase("draining", "stopping")
    assert_problem(await asyncio.wait_for(waiting, AT_ONCE_S), 404, "TX_NOT_FOUND")


async def test_a_block_by_hash_is_cached_and_one_by_height_is_revalidated(node: RestNode) -> None:
    genesis = (await read(node, "/block/0"))["hash"]
    by_hash = await node.get(f"/block/{genesis}")
    assert by_hash.headers["cache-control"] == "no-cache", "a revert of a dev chain takes blocks back"
    assert node.view.info is not None
    node.view.info = msgspec.structs.replace(node.view.info, signs_for=[])
    by_hash = await node.get(f"/block/{genesis}")
    assert by_hash.headers["cache-control"] == "public, max-age=31536000, immutable"
    etag = by_hash.headers["etag"]
    assert etag == f'"{genesis}"'
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = await node.get(f"/block/{genesis}", if_none_match=known)
        assert_described(again)
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    for name in ("latest", "0"):
        answer = await node.get(f"/block/{name}")
        assert (answer.headers["cache-control"], answer.headers["etag"]) == ("no-cache", etag)
        assert (await node.get(f"/block/{name}", if_none_match=etag)).status_code == 304
    assert (await node.get(f"/block/{genesis}", if_none_match='"other"')).status_code == 200
    for name in (genesis, "latest"):
        other_form = await node.get(f"/block/{name}?amounts=string", if_none_match=etag)
        assert (other_form.status_code, other_form.headers["etag"]) == (200, f'"{genesis}-strings"')
    assert (await node.get(f"/block/{UNKNOWN}")).headers["cache-control"] == "no-store"


async def test_the_mempool_is_listed_in_mining_order_and_in_pages(node: RestNode) -> None:
    cheap = await submit(node, 0, 1)
    dear = await submit(node, 0, sender=1, gas_price=5 * GWEI)
    queued = await submit(node, 7, sender=2)
    expected = [*dear, *cheap, *queued]
    answer = await node.get("/mempool")
    assert_described(answer)
    assert [item["txHash"] for item in answer.json()] == expected
    assert answer.headers["x-total-count"] == "4"
    assert "link" not in answer.headers
    for limit in (1, 2, 3):
        assert [item["txHash"] for item in await every_page(node, f"/mempool?limit={limit}")] == expected
    own = await every_page(node, f"/mempool?limit=1&from={SENDER}")
    assert [item["txHash"] for item in own] == cheap
    assert (await node.get(f"/mempool?from={SENDER}")).headers["x-total-count"] == "2"


async def test_a_cursor_holds_when_its_item_has_gone(node: RestNode) -> None:
    await submit(node, 0, 1)
    later = await submit(node, 5, 6, sender=1)
    first = await node.get("/mempool?limit=1")
    node.mine()
    following = next_path(first)
    assert following is not None
    assert [item["txHash"] for item in await every_page(node, following)] == later


async def test_blocks_are_listed_in_pages_newest_first(node: RestNode) -> None:
    for nonce in range(4):
        await submit(node, nonce)
        node.mine()
    answer = await node.get("/blocks")
    assert_described(answer)
    assert [block["blockHeight"] for block in answer.json()] == [4, 3, 2, 1, 0]
    assert answer.headers["x-total-count"] == "5"
    assert "link" not in answer.headers
    assert [block["transactionCount"] for block in answer.json()] == [1, 1, 1, 1, 0]
    for limit in (1, 2, 5):
        assert [b["blockHeight"] for b in await every_page(node, f"/blocks?limit={limit}")] == [4, 3, 2, 1, 0]
    assert await read(node, "/blocks?after=0") == []
    assert [block["blockHeight"] for block in await read(node, "/blocks?after=99&limit=2")] == [4, 3]


async def test_an_account_has_its_balance_nonces_and_history(node: RestNode) -> None:
    for nonces in ((0, 1), (2,), (3, 4)):
        await submit(node, *nonces)
        node.mine()
    await submit(node, 5)
    account = await read(node, f"/account/{SENDER}")
    spent = 5 * (1 + 21_000 * GWEI)
    assert account == {"address": SENDER, "balance": 10**22 - spent, "nonce": 5, "pendingNonce": 6}
    expected = [hash_of(signed(nonce)) for nonce in (4, 3, 2, 1, 0)]
    for limit in (1, 2, 3, 5, 100):
        history = await every_page(node, f"/account/{SENDER}/txs?limit={limit}")
        assert [tx["txHash"] for tx in history] == expected
    assert history[0] == await read(node, f"/tx/{expected[0]}")
    received = await read(node, f"/account/0x{ACCOUNTS[1].hex()}/txs")
    assert [tx["txHash"] for tx in received] == expected
    nobody = "0x" + "42" * 20
    assert (await read(node, f"/account/{nobody}"))["balance"] == 0
    assert await read(node, f"/account/{nobody}/txs") == []


async def test_the_documented_check_accepts_every_proof_and_no_altered_one(node: RestNode) -> None:
    [example] = re.findall(r"```python\n(.*?)```", FORMATS.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    is_proven = names["is_proven"]
    hashes = await submit(node, 0, 1, 2, 3, 4)
    trusted = (await read(node, f"/block/{node.mine()}"))["hash"]
    for tx_hash in hashes:
        proof = await read(node, f"/tx/{tx_hash}/proof")
        assert is_proven(proof, tx_hash, trusted)
        assert not is_proven(proof, tx_hash, UNKNOWN)
        assert not is_proven(proof, UNKNOWN, trusted)
        for wrong in (
            {"txHash": UNKNOWN},
            {"proof": proof["proof"][:-1]},
            {"proof": [*proof["proof"], UNKNOWN]},
            {"transactionIndex": proof["transactionIndex"] ^ 1},
            {"transactionIndex": 5},
            {"header": proof["header"] | {"transactionCount": 6}},
            {"header": proof["header"] | {"timestamp": 1}},
            {"header": proof["header"] | {"transactionsRoot": UNKNOWN}},
        ):
            assert not is_proven(proof | wrong, tx_hash, trusted), wrong


async def test_the_chain_shows_its_rules_head_and_mempool(tmp_path: Path) -> None:
    async with rest_node(tmp_path, settings(mempool_size=50)) as node:
        await submit(node, 0, 9)
        chain = await read(node, "/chain")
        assert chain["mempool"] == {"pending": 1, "queued": 1, "limit": 50}
        assert (chain["chainId"], chain["gasPrice"], chain["engine"]) == (1337, GWEI, "embedded")
        assert chain["head"]["blockHeight"] == 0
        node.mine()
        assert (await read(node, "/chain"))["head"]["blockHeight"] == 1


async def test_every_document_and_probe_fits_its_schema(node: RestNode) -> None:
    pages = ("/", "/explorer/main.js", "/docs", "/docs/reference/main.js")
    for path in ("/health", "/startup", "/ready", "/openapi.json", "/asyncapi.json", *pages):
        answer = await node.get(path)
        assert answer.status_code == 200
        if path not in pages:
            assert_described(answer)
        head = await node.http.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == answer.headers["content-length"]


async def test_before_the_store_is_open_probes_answer_and_reads_are_503(node: RestNode) -> None:
    view = node.view
    view.close()
    view.info, view.height = None, -1
    view.on_phase("starting", "the store is being opened")
    for path in ("/startup", "/ready"):
        answer = await node.get(path)
        assert answer.status_code == 503
        assert_described(answer)
    assert (await node.get("/health")).status_code == 200
    for path in (
        f"/tx/{UNKNOWN}", f"/tx/{UNKNOWN}/proof", "/block/latest", "/block/0", f"/block/{UNKNOWN}", "/blocks",
        "/mempool", "/chain", f"/account/{SENDER}", f"/account/{SENDER}/txs",
    ):  # fmt: skip
        await refused(node, path, 503, "STARTING")
    for path in (f"/tx/{UNKNOWN[1:]}", "/block/x", "/blocks?x=1"):
        assert (await node.get(path)).status_code in (400, 503)


async def test_a_worker_without_the_notice_never_contradicts_one_that_has_it(tmp_path: Path) -> None:
    """What another worker has shown already is waited for, not denied."""
    async with rest_node(tmp_path, hears_late=True) as node:
        for number, path in enumerate(
            ("/tx/{tx}", "/tx/{tx}/proof", "/block/{block}", "/block/{height}", "/block/latest", "/blocks", "/chain",
             f"/account/{SENDER}", f"/account/{SENDER}/txs")
        ):  # fmt: skip
            [tx_hash] = await submit(node, number)
            outcome = produce(node.core)
            assert node.view.height == number, "this worker has not heard of it"
            named = path.format(tx=tx_hash, block="0x" + outcome.block.hash.hex(), height=number + 1)
            answer = await node.get(named)
            assert_described(answer)
            assert answer.status_code == 200, (named, answer.text)
            assert node.view.height == number + 1
        assert (await read(node, f"/account/{SENDER}"))["nonce"] == 9


async def test_a_history_of_60_is_listed_whole(node: RestNode) -> None:
    await submit(node, *range(60))
    node.mine()
    assert len(await read(node, f"/account/{SENDER}/txs?limit=1000")) == 60
