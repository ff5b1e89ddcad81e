"""Every GET: transactions, blocks, mempool, chain, accounts, proofs."""

import json
import re
from typing import Any

import httpx
import pytest
from eth_account.signers.local import LocalAccount

from cairn.domain.headers import block_hash
from cairn.domain.merkle import tx_root, verify_inclusion
from tests.support.pace import Pace
from tests.support.pauses import is_any_child_paused
from tests.support.public import PublicNode, assert_problem
from tests.support.replay import header_of, raw
from tests.support.wallet import COIN, GWEI, TRANSFER_FEE, new_account, sign_transfer

RECIPIENT = "0x" + "22" * 20
TRANSFER_FIELDS = ("from", "to", "value", "nonce", "gas", "gasPrice")
UNKNOWN = "0x" + "ab" * 32
BAD_HASHES = [
    "0x", "0x12", "ab" * 32, "0x" + "ab" * 31, "0x" + "ab" * 33, UNKNOWN + "0", "0x" + "zz" * 32, "0X" + "ab" * 32,
    "%00",
]  # fmt: skip
LISTS = ("/mempool", "/blocks", f"/account/{RECIPIENT}/txs")
BAD_PAGES = (
    "limit=0", "limit=1001", "limit=-1", "limit=x", "limit=", "limit=1.5", "limit=1&limit=2",
    "after=nonsense", "after=", "unknown=1",
)  # fmt: skip


@pytest.fixture(scope="module")
def sender(node: PublicNode) -> LocalAccount:
    return node.fund(100)


@pytest.fixture(scope="module")
def confirmed(node: PublicNode, sender: LocalAccount) -> dict[str, Any]:
    """A confirmed transfer of `sender`, as GET /tx shows it."""
    transfer = sign_transfer(sender, RECIPIENT, COIN, node.next_nonce(sender.address), gas=50_000, gas_price=2 * GWEI)
    return node.await_confirmed(node.submit(transfer))


def test_a_confirmed_transaction_has_its_block_and_fee(
    node: PublicNode, sender: LocalAccount, confirmed: dict[str, Any]
) -> None:
    block = node.read(f"/block/{confirmed['blockHash']}")
    assert confirmed == {
        "txHash": confirmed["txHash"],
        "status": "confirmed",
        "blockHeight": block["blockHeight"],
        "from": confirmed["from"],
        "to": RECIPIENT,
        "value": COIN,
        "nonce": confirmed["nonce"],
        "gas": 50_000,
        "gasPrice": 2 * GWEI,
        "blockHash": block["hash"],
        "transactionIndex": block["transactions"].index(confirmed["txHash"]),
        "fee": 2 * TRANSFER_FEE,
    }
    assert confirmed["from"].lower() == sender.address.lower()


def test_pending_transaction_has_no_block(node: PublicNode) -> None:
    sender = node.fund()
    held = sign_transfer(sender, RECIPIENT, 1, 1)
    node.submit(held)
    tx = node.read(f"/tx/{held.tx_hash}")
    assert tx["status"] == "pending"
    assert set(tx) == {"txHash", "status", *TRANSFER_FIELDS, "queued", "queuedReason"}


def test_hash_in_upper_case_is_the_same(node: PublicNode, confirmed: dict[str, Any]) -> None:
    spelled = "0x" + confirmed["txHash"][2:].upper()
    assert node.read(f"/tx/{spelled}") == confirmed


@pytest.mark.parametrize("given", BAD_HASHES)
@pytest.mark.parametrize("path", ["/tx/{}", "/tx/{}/proof"])
def test_a_malformed_transaction_hash_is_refused_with_400(node: PublicNode, path: str, given: str) -> None:
    assert_problem(node.get(path.format(given)), 400, "INVALID_HASH")


@pytest.mark.parametrize(
    "given", [*BAD_HASHES, "-1", "1.5", "1.0", "newest", "Latest", "0x1", "1e3", "+1", " 1", "01", "0" * 30]
)
def test_a_malformed_block_hash_or_height_is_refused_with_400(node: PublicNode, given: str) -> None:
    assert_problem(node.get(f"/block/{given}"), 400, "INVALID_HASH")


def test_an_unknown_hash_is_404(node: PublicNode) -> None:
    assert_problem(node.get(f"/tx/{UNKNOWN}"), 404, "TX_NOT_FOUND")
    assert_problem(node.get(f"/tx/{UNKNOWN}/proof"), 404, "TX_NOT_FOUND")
    assert_problem(node.get(f"/block/{UNKNOWN}"), 404, "BLOCK_NOT_FOUND")


@pytest.mark.parametrize("height", [10**9, 10**19, 10**30, "9" * 5_000])
def test_a_height_above_the_head_is_404(node: PublicNode, height: int | str) -> None:
    assert_problem(node.get(f"/block/{height}"), 404, "BLOCK_NOT_FOUND")


def test_wait_ends_with_the_confirmation_or_the_time(node: PublicNode) -> None:
    sender = node.fund()
    held = sign_transfer(sender, RECIPIENT, 1, 1)
    node.submit(held)
    with Pace(is_any_child_paused) as pace:
        unconfirmed = node.get(f"/tx/{held.tx_hash}", wait=1)
        assert unconfirmed.json()["status"] == "pending"
        assert 0.9 < unconfirmed.elapsed.total_seconds() < pace.stretch(3)
    node.submit(sign_transfer(sender, RECIPIENT, 1, 0))
    assert node.get(f"/tx/{held.tx_hash}", wait=60).json()["status"] == "confirmed"


@pytest.mark.parametrize("wait", ["61", "-1", "x", "", "nan", "inf", "1e1000"])
def test_a_wait_out_of_range_is_refused_with_400(node: PublicNode, wait: str) -> None:
    assert_problem(node.get(f"/tx/{UNKNOWN}", wait=wait), 400, "INVALID_QUERY")


def test_block_by_hash_height_and_latest(node: PublicNode, confirmed: dict[str, Any]) -> None:
    block = node.read(f"/block/{confirmed['blockHash']}")
    assert block == node.read(f"/block/{confirmed['blockHeight']}")
    assert block == node.read(f"/block/0x{block['hash'][2:].upper()}")
    assert {"blockHeight", "hash", "previousHash", "timestamp", "transactions"} <= set(block)
    assert confirmed["txHash"] in block["transactions"]
    assert node.read("/block/latest")["blockHeight"] >= block["blockHeight"]


def test_block_hash_and_root_follow_from_what_is_shown(node: PublicNode, confirmed: dict[str, Any]) -> None:
    block = node.read(f"/block/{confirmed['blockHash']}")
    assert block_hash(header_of(block)) == raw(block["hash"])
    assert tx_root([raw(tx_hash) for tx_hash in block["transactions"]]) == raw(block["transactionsRoot"])
    parent = node.read(f"/block/{block['previousHash']}")
    assert parent["blockHeight"] == block["blockHeight"] - 1
    assert parent["timestamp"] <= block["timestamp"]


def test_genesis_block(node: PublicNode) -> None:
    genesis = node.read("/block/0")
    assert genesis["blockHeight"] == 0
    assert genesis["previousHash"] == "0x" + "00" * 32
    assert genesis["transactions"] == []


def test_block_by_hash_is_immutable(node: PublicNode, confirmed: dict[str, Any]) -> None:
    path = f"/block/{confirmed['blockHash']}"
    answer = node.get(path)
    if node.read("/openapi.json")["components"]["schemas"]["Submission"]["x-signs-for"]:
        assert answer.headers["cache-control"] == "no-cache", "a revert takes blocks of a dev chain back"
    else:
        assert re.search(r"max-age=\d{7,}.*immutable", answer.headers["cache-control"])
    etag = answer.headers["etag"]
    again = node.http.get(path, headers={"if-none-match": etag})
    assert again.status_code == 304
    assert again.headers["etag"] == etag
    assert again.content == b""
    assert "immutable" not in node.get("/block/latest").headers.get("cache-control", "")


def hold_three(node: PublicNode) -> tuple[LocalAccount, list[str]]:
    """Three transfers of a fresh account behind a gap: they stay in the mempool for as long as a test needs them."""
    sender = node.fund()
    return sender, [node.submit(sign_transfer(sender, RECIPIENT, 1, nonce)) for nonce in (1, 2, 3)]


def test_the_mempool_lists_a_senders_transactions_by_nonce(node: PublicNode) -> None:
    sender, hashes = hold_three(node)
    answer = node.get("/mempool", **{"from": sender.address})
    items = answer.json()
    assert [item["txHash"] for item in items] == hashes
    assert [item["nonce"] for item in items] == [1, 2, 3]
    assert set(items[0]) == {"txHash", *TRANSFER_FIELDS, "receivedAt", "queued", "queuedReason"}
    assert answer.headers["x-total-count"] == "3"
    assert "link" not in answer.headers
    assert set(hashes) <= {item["txHash"] for item in node.read("/mempool", limit=1000)}


def next_page(node: PublicNode, answer: httpx.Response) -> httpx.Response | None:
    target = answer.links.get("next")
    return None if target is None else node.http.get(target["url"])


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_the_mempool_is_listed_in_pages(node: PublicNode, limit: int) -> None:
    sender, hashes = hold_three(node)
    page: httpx.Response | None = node.get("/mempool", limit=limit, **{"from": sender.address})
    seen = []
    while page is not None:
        assert page.status_code == 200
        assert len(page.json()) <= limit
        assert page.headers["x-total-count"] == "3"
        seen += [item["txHash"] for item in page.json()]
        page = next_page(node, page)
    assert seen == hashes


@pytest.mark.parametrize(
    "target",
    [
        *(f"{path}?{query}" for path in LISTS for query in BAD_PAGES),
        "/mempool?from=0x12", "/mempool?from=", "/mempool?after=0", "/mempool?after=s0-0",
        f"/mempool?from={RECIPIENT}&after=r0-0", f"/account/{RECIPIENT}/txs?after=0",
        "/chain?x=1", "/block/0?x=1", f"/account/{RECIPIENT}?x=1", f"/tx/{UNKNOWN}?x=1", f"/tx/{UNKNOWN}/proof?x=1",
    ],
)  # fmt: skip
def test_a_malformed_query_is_refused_with_400(node: PublicNode, target: str) -> None:
    assert_problem(node.http.get(target), 400, "INVALID_QUERY")


def test_chain(node: PublicNode) -> None:
    chain = node.read("/chain")
    rules = {"chainId", "gasPrice", "blockGasLimit", "blockTime", "maxDataBytes"}
    assert set(chain) == rules | {"engine", "version", "commit", "head", "mempool", "supply"}
    assert chain["supply"] == sum(json.loads(node.http.get("/genesis").content)["alloc"].values())
    assert node.read("/chain", amounts="string")["supply"] == str(chain["supply"])
    assert (chain["chainId"], chain["gasPrice"]) == (1337, GWEI)
    assert chain["engine"] in {"embedded", "cometbft"}
    assert isinstance(chain["blockTime"], float)
    assert set(chain["head"]) == {"blockHeight", "hash", "timestamp"}
    assert set(chain["mempool"]) == {"pending", "queued", "limit"}
    assert node.read(f"/block/{chain['head']['hash']}")["blockHeight"] == chain["head"]["blockHeight"]


def test_account(node: PublicNode) -> None:
    sender = node.fund(5)
    node.submit(sign_transfer(sender, RECIPIENT, 1, 1))
    account = node.read(f"/account/{sender.address}")
    assert account == {"address": account["address"], "balance": 5 * COIN, "nonce": 0, "pendingNonce": 0}
    assert account["address"].lower() == sender.address.lower()
    node.await_confirmed(node.submit(sign_transfer(sender, RECIPIENT, 1, 0)))
    node.await_idle()
    after = node.read(f"/account/{sender.address.lower()}")
    assert after == account | {"balance": 5 * COIN - 2 - 2 * TRANSFER_FEE, "nonce": 2, "pendingNonce": 2}


def test_an_account_never_seen_is_empty(node: PublicNode) -> None:
    account = node.read(f"/account/{new_account().address}")
    assert (account["balance"], account["nonce"], account["pendingNonce"]) == (0, 0, 0)


@pytest.mark.parametrize("path", ["/account/{}", "/account/{}/txs"])
@pytest.mark.parametrize("given", ["0x12", "x", "0x" + "zz" * 20, "0xF39Fd6e51aad88F6F4ce6aB8827279cffFb92266"])
def test_a_malformed_address_is_refused_with_400(node: PublicNode, path: str, given: str) -> None:
    assert assert_problem(node.get(path.format(given)), 400, "INVALID_FIELD")["field"] == "address"


def test_account_history_newest_first(node: PublicNode) -> None:
    sender = node.fund()
    hashes = [node.submit(sign_transfer(sender, RECIPIENT, 1, nonce)) for nonce in range(5)]
    node.await_confirmed(hashes[-1])
    seen: list[dict[str, Any]] = []
    page: httpx.Response | None = node.get(f"/account/{sender.address}/txs", limit=2)
    while page is not None:
        assert page.status_code == 200
        seen += page.json()
        page = next_page(node, page)
    assert [tx["txHash"] for tx in seen[:5]] == hashes[::-1]
    assert len(seen) == 6, "the five, and the one that funded the account"
    assert seen[0] == node.read(f"/tx/{hashes[-1]}")


def test_blocks_newest_first(node: PublicNode, confirmed: dict[str, Any]) -> None:
    heights: list[int] = []
    page: httpx.Response | None = node.get("/blocks", limit=3)
    while page is not None:
        assert page.status_code == 200
        heights += [block["blockHeight"] for block in page.json()]
        page = next_page(node, page)
    assert heights == list(range(heights[0], -1, -1))
    assert heights[0] >= confirmed["blockHeight"]
    first = node.read("/blocks", limit=1)[0]
    block = node.read(f"/block/{first['hash']}")
    assert {name: block[name] for name in first} == first
    assert first["transactionCount"] == len(block["transactions"])


def test_a_proof_verifies_against_the_header_of_its_block(node: PublicNode) -> None:
    sender = node.fund()
    # The gap closes last, so that all five land in one block.
    hashes = [node.submit(sign_transfer(sender, RECIPIENT, 1, nonce)) for nonce in (4, 3, 2, 1, 0)]
    for tx_hash in hashes:
        tx = node.await_confirmed(tx_hash)
        proof = node.read(f"/tx/{tx_hash}/proof")
        header = proof["header"]
        assert header["hash"] == tx["blockHash"]
        assert block_hash(header_of(header)) == raw(header["hash"])
        assert proof["transactionIndex"] == tx["transactionIndex"]
        assert verify_inclusion(
            raw(tx_hash),
            proof["transactionIndex"],
            header["transactionCount"],
            [raw(step) for step in proof["proof"]],
            raw(header["transactionsRoot"]),
        )


def test_a_pending_transaction_has_no_proof(node: PublicNode) -> None:
    _, hashes = hold_three(node)
    assert_problem(node.get(f"/tx/{hashes[0]}/proof"), 404, "TX_NOT_FOUND")
