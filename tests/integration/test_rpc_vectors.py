"""Public test vectors of Ethereum's JSON-RPC: the answers that any chain gives, the shapes of the others."""

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from msgspec.structs import replace

from cairn.domain.transactions import sign_draft
from cairn.domain.types import Draft
from tests.support.core_fixtures import ACCOUNTS, CHAIN_ID, GWEI, KEYS, signed
from tests.support.rest_node import RestNode, hash_of
from tests.support.rpc_node import call, raw, refusal

VECTORS = Path(__file__).parents[1] / "vectors" / "execution-apis"
DEFINITIONS = json.loads((VECTORS / "schemas.json").read_text())["$defs"]


def lines_of(file: str) -> list[str]:
    return (VECTORS / file).read_text().splitlines()


def round_trips(file: str) -> list[tuple[str, Any, Any]]:
    """Name, request and response of each."""
    trips, name, request = [], "", None
    for line in lines_of(file):
        kind, _, content = line.partition(" ")
        if kind == "//":
            name = content
        elif kind == ">>":
            request = json.loads(content)
        else:
            trips.append((name, request, json.loads(content)))
    return trips


def assert_fits(value: object, schema: str) -> None:
    Draft202012Validator({"$ref": f"#/$defs/{schema}", "$defs": DEFINITIONS}).validate(value)


async def test_published_answers_that_hold_for_any_chain_are_given(node: RestNode) -> None:
    for name, request, expected in round_trips("any-chain.io"):
        assert (await node.post(request, "/rpc")).json() == expected, name


async def test_refusals_begin_like_the_published_ones(node: RestNode) -> None:
    published = {
        name.rpartition("/")[2]: response["error"]["message"].partition(":")[0]
        for name, _, response in round_trips("refusals.io")
    }
    await call(node, "eth_sendRawTransaction", raw(signed(0)))
    node.mine()
    await call(node, "eth_sendRawTransaction", raw(signed(1)))
    sender = ACCOUNTS[0]
    plain = Draft(sender, ACCOUNTS[1], 1, 21_000, GWEI, 2)
    refused = {
        "send-already-known": signed(1),
        "send-insufficient-funds": sign_draft(replace(plain, value=10**30), KEYS[sender], CHAIN_ID),
        "send-intrinsic-gas-too-low": sign_draft(replace(plain, gas=1), KEYS[sender], CHAIN_ID),
        "send-nonce-too-low": signed(0, value=2),
        "send-replacement-underpriced": signed(1, value=2),
        "send-tx-gas-exceeds-block-limit": sign_draft(replace(plain, gas=2**40), KEYS[sender], CHAIN_ID),
    }
    assert refused.keys() == published.keys()
    for name, tx in refused.items():
        code, message = await refusal(node, "eth_sendRawTransaction", raw(tx))
        assert (code, message.partition(":")[0]) == (-32000, published[name])


async def test_a_transfer_has_the_published_shape(node: RestNode) -> None:
    published = {request["method"]: response["result"] for _, request, response in round_trips("transfer.io")}
    tx = signed(0)
    await call(node, "eth_sendRawTransaction", raw(tx))
    node.mine()
    found = await call(node, "eth_getTransactionByHash", hash_of(tx))
    # Later than the vector, the specification came to demand the time too.
    assert found.keys() == published["eth_getTransactionByHash"].keys() | {"blockTimestamp"}
    receipt = await call(node, "eth_getTransactionReceipt", hash_of(tx))
    assert receipt.keys() == published["eth_getTransactionReceipt"].keys()
    history = await call(node, "eth_feeHistory", "0x1", "0x1", [95, 99])
    assert history.keys() >= published["eth_feeHistory"].keys()
    assert [len(history[name]) for name in ("reward", "baseFeePerGas", "gasUsedRatio")] == [1, 2, 1]


async def test_answers_fit_the_published_schemas(node: RestNode) -> None:
    for nonce, data in enumerate((b"", b"invoice 4711", b"\x00")):
        await call(node, "eth_sendRawTransaction", raw(signed(nonce, data=data)))
    node.mine()
    for full in (False, True):
        for name in ("0x0", "0x1", "latest", "earliest", "safe", "finalized"):
            assert_fits(await call(node, "eth_getBlockByNumber", name, full), "Block")
    tx_hash = hash_of(signed(1, data=b"invoice 4711"))
    assert_fits(await call(node, "eth_getTransactionByHash", tx_hash), "TransactionInfo")
    receipts = await call(node, "eth_getBlockReceipts", "latest")
    assert len(receipts) == 3
    for receipt in receipts:
        assert_fits(receipt, "ReceiptInfo")
    assert_fits(await call(node, "eth_feeHistory", "0x5", "latest", [0, 50, 100]), "FeeHistory")
    assert_fits(await call(node, "eth_feeHistory", "0x5", "latest"), "FeeHistory")


SINGLE_VALUES: list[tuple[str, str, list[Any]]] = [
    ("uint", "eth_blockNumber", []),
    ("uint", "eth_chainId", []),
    ("uint", "eth_gasPrice", []),
    ("uint", "eth_maxPriorityFeePerGas", []),
    ("uint", "eth_blobBaseFee", []),
    ("uint", "eth_getBalance", ["0x" + ACCOUNTS[0].hex()]),
    ("uint", "eth_getTransactionCount", ["0x" + ACCOUNTS[0].hex(), "pending"]),
    ("bytes", "eth_getCode", ["0x" + ACCOUNTS[0].hex(), "latest"]),
    ("bytes32", "eth_getStorageAt", ["0x" + ACCOUNTS[0].hex(), "0x0", "latest"]),
    ("uint", "eth_getBlockTransactionCountByNumber", ["latest"]),
    ("uint", "eth_getUncleCountByBlockNumber", ["latest"]),
    ("bytes", "eth_call", [{"to": "0x" + ACCOUNTS[0].hex()}, "latest"]),
    ("uint", "net_peerCount", []),
    ("hash32", "web3_sha3", ["0x"]),
]


async def test_single_values_fit_the_published_schemas(node: RestNode) -> None:
    for schema, method, params in SINGLE_VALUES:
        assert_fits(await call(node, method, *params), schema)
