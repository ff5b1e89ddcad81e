"""Transactions of types 1 and 2 through every door of a node in process, made by a wallet's own library."""

from typing import Any

import msgspec
import pytest
import rlp  # type: ignore[import-untyped]
from eth_account import Account as Wallet
from eth_utils.crypto import keccak

from cairn.client.models import ConfirmedTransaction, MempoolItem, Proof
from tests.support.core_fixtures import ACCOUNTS, GWEI, KEYS
from tests.support.described import assert_described
from tests.support.public import assert_problem
from tests.support.rest_node import RestNode
from tests.support.rpc_node import call, refusal

SENDER, RECIPIENT = "0x" + ACCOUNTS[0].hex(), "0x" + ACCOUNTS[1].hex()
FULL = 10_000 * 10**18
TYPE_1 = {"type": 1, "gasPrice": 2 * GWEI}
TYPE_2 = {"type": 2, "maxFeePerGas": 3 * GWEI, "maxPriorityFeePerGas": 5}
CUT = {"type": 2, "maxFeePerGas": GWEI + 3, "maxPriorityFeePerGas": 5}
TERMS = [(TYPE_1, 2 * GWEI), (TYPE_2, GWEI + 5), (CUT, GWEI + 3)]


def wallet_signed(nonce: int, terms: dict[str, int], sender: int = 0, **changed: Any) -> Any:
    fields = {"to": ACCOUNTS[1], "value": 7, "gas": 21_000, "nonce": nonce, "chainId": 1337, "accessList": []}
    return Wallet.from_key(KEYS[ACCOUNTS[sender]]).sign_transaction({**fields, **terms, **changed})


def raw_of(signed: Any) -> str:
    return "0x" + bytes(signed.raw_transaction).hex()


def hash_of(signed: Any) -> str:
    return "0x" + bytes(signed.hash).hex()


def body_of(nonce: int, terms: dict[str, int]) -> dict[str, Any]:
    signed = wallet_signed(nonce, terms)
    signature = signed.r.to_bytes(32, "big") + signed.s.to_bytes(32, "big") + bytes([signed.v])
    fields = {"from": SENDER, "to": RECIPIENT, "value": 7, "gas": 21_000, "nonce": nonce}
    return {**fields, **terms, "signature": "0x" + signature.hex()}


def geth_hash(header: dict[str, Any]) -> str:
    """The hash of a header as go-ethereum's `types.Header` computes it from JSON."""
    names = "parentHash sha3Uncles miner stateRoot transactionsRoot receiptsRoot logsBloom difficulty number gasLimit"
    names += " gasUsed timestamp extraData mixHash nonce baseFeePerGas"
    numbers = {"difficulty", "number", "gasLimit", "gasUsed", "timestamp", "baseFeePerGas"}
    fields = [int(header[name], 16) if name in numbers else bytes.fromhex(header[name][2:]) for name in names.split()]
    return "0x" + keccak(rlp.encode(fields)).hex()


@pytest.mark.parametrize(("terms", "price"), TERMS)
@pytest.mark.parametrize("door", ["rest", "batch", "rpc"])
async def test_a_transaction_of_each_type_goes_from_pending_to_proof(
    node: RestNode, terms: dict[str, int], price: int, door: str
) -> None:
    signed = wallet_signed(0, terms)
    tx_hash = hash_of(signed)
    own = {"from": SENDER, "to": RECIPIENT, "value": 7, "nonce": 0, "gas": 21_000, **terms, "gasPrice": price}
    if door == "rpc":
        assert await call(node, "eth_sendRawTransaction", raw_of(signed)) == tx_hash
    else:
        body = body_of(0, terms)
        answer = await (node.post(body) if door == "rest" else node.post([body], "/txs"))
        assert_described(answer)
        expected = {"status": "pending", "txHash": tx_hash}
        assert answer.json() == (expected if door == "rest" else [expected])
    assert await node.read(f"/tx/{tx_hash}") == {"txHash": tx_hash, "status": "pending", **own}
    node.mine()
    shown = await node.read(f"/tx/{tx_hash}")
    assert shown.items() >= {**own, "status": "confirmed", "fee": 21_000 * price}.items()
    assert (await node.read(f"/account/{SENDER}"))["balance"] == FULL - 7 - 21_000 * price
    # Nothing is burnt: all of it is the proposer's.
    proposer = (await node.read("/block/1"))["proposer"]
    assert (await node.read(f"/account/{proposer}"))["balance"] % FULL == 21_000 * price

    proof = await node.get(f"/tx/{tx_hash}/proof")
    assert_described(proof)
    checked = msgspec.json.decode(proof.content, type=Proof)
    checked.verify(tx_hash, shown["blockHash"])
    checked.check_same(msgspec.convert(shown, ConfirmedTransaction))


@pytest.mark.parametrize(("terms", "price"), TERMS)
async def test_a_transaction_has_the_fields_and_price_of_its_type(
    node: RestNode, terms: dict[str, int], price: int
) -> None:
    signed = wallet_signed(0, terms)
    assert (
        geth_hash(await call(node, "eth_getBlockByNumber", "earliest", False)) == (await node.read("/block/0"))["hash"]
    )
    await call(node, "eth_sendRawTransaction", raw_of(signed))
    pending = await call(node, "eth_getTransactionByHash", hash_of(signed))
    assert pending["gasPrice"] == hex(terms.get("maxFeePerGas", price))
    node.mine()
    shown = await call(node, "eth_getTransactionByHash", hash_of(signed))
    assert {name: shown[name] for name in terms} | {"gasPrice": hex(price)} == {
        name: hex(value) for name, value in terms.items()
    } | {"gasPrice": hex(price)}
    assert (shown["accessList"], shown["yParity"], shown["v"]) == ([], hex(signed.v), hex(signed.v))
    receipt = await call(node, "eth_getTransactionReceipt", hash_of(signed))
    assert (receipt["type"], receipt["effectiveGasPrice"]) == (hex(terms["type"]), hex(price))
    block = await call(node, "eth_getBlockByNumber", "latest", True)
    assert block["baseFeePerGas"] == hex(GWEI)
    assert geth_hash(block) == block["hash"] == (await node.read("/block/latest"))["hash"]
    history = await call(node, "eth_feeHistory", "0x1", "latest", [50])
    assert (history["baseFeePerGas"], history["reward"]) == ([hex(GWEI)] * 2, [["0x0"]])


async def test_the_node_signs_the_type_that_the_fields_imply(node: RestNode) -> None:
    transfer = {"from": SENDER, "to": RECIPIENT, "value": "0x1"}
    asked: list[tuple[dict[str, object], int, int]] = [
        ({}, 2, GWEI),
        ({"gasPrice": hex(2 * GWEI)}, 0, 2 * GWEI),
        ({"gasPrice": hex(2 * GWEI), "accessList": []}, 1, 2 * GWEI),
        ({"maxFeePerGas": hex(3 * GWEI)}, 2, GWEI),
        ({"maxPriorityFeePerGas": hex(7)}, 2, GWEI + 7),
        ({"type": "0x1"}, 1, GWEI),
        ({"type": "0x0"}, 0, GWEI),
    ]
    for fields, kind, price in asked:
        tx_hash = await call(node, "eth_sendTransaction", {**transfer, **fields})
        node.mine()
        receipt = await call(node, "eth_getTransactionReceipt", tx_hash)
        assert (receipt["type"], receipt["effectiveGasPrice"]) == (hex(kind), hex(price)), fields
    refused: tuple[tuple[dict[str, object], str], ...] = (
        ({"gasPrice": "0x1", "maxFeePerGas": "0x1"}, "both gasPrice and (maxFeePerGas or maxPriorityFeePerGas)"),
        ({"maxFeePerGas": "0x9", "maxPriorityFeePerGas": "0xa"}, "maxFeePerGas (0x9) < maxPriorityFeePerGas (0xa)"),
        ({"type": "0x3"}, "transaction type not supported: type 0x3"),
        ({"blobVersionedHashes": ["0x"]}, "transaction type not supported: type 0x3"),
        ({"authorizationList": [{}]}, "transaction type not supported: type 0x4"),
        ({"accessList": [{"address": RECIPIENT, "storageKeys": []}]}, "access lists are not supported"),
    )
    for fields, message in refused:
        for method in ("eth_sendTransaction", "eth_signTransaction"):
            asked_for = {**transfer, **fields, "nonce": "0x0", "gas": "0x5208"}
            code, text = await refusal(node, method, asked_for)
            assert (code, text[: len(message)]) == (-32000, message)
    unsigned = {"from": SENDER, "to": RECIPIENT, "value": 1, "gas": 21_000, "maxPriorityFeePerGas": 9}
    sent = (await node.post(unsigned)).json()["txHash"]
    assert (await node.read(f"/tx/{sent}"))["maxFeePerGas"] == GWEI + 9


async def test_refusals(node: RestNode) -> None:
    for terms, message in (
        (CUT | {"maxFeePerGas": 4}, "max priority fee per gas higher than max fee per gas"),
        (CUT | {"maxFeePerGas": GWEI - 1}, "transaction underpriced: max fee per gas less than block base fee"),
    ):
        raw = raw_of(wallet_signed(0, terms))
        number, text = await refusal(node, "eth_sendRawTransaction", raw)
        assert (number, text[: len(message)]) == (-32000, message)
    listed = wallet_signed(0, TYPE_1, accessList=[{"address": RECIPIENT, "storageKeys": []}])
    assert (await refusal(node, "eth_sendRawTransaction", raw_of(listed)))[1].startswith("access lists are not")
    other = wallet_signed(0, TYPE_2, chainId=1)
    message = "invalid sender: invalid chain id for signer: have 1 want 1337"
    assert (await refusal(node, "eth_sendRawTransaction", raw_of(other)))[1] == message

    body = body_of(0, TYPE_2)
    wrong: tuple[dict[str, object], ...] = (
        {"gasPrice": GWEI},
        {"type": 1},
        {"type": 3},
        {"type": "0x2"},
        {"maxFeePerGas": 4},
    )
    for changed in wrong:
        assert_problem(await node.post(body | changed), 400, "INVALID_FIELD")
    assert_problem(await node.post(body | {"maxFeePerGas": 4 * GWEI}), 422, "INVALID_SIGNATURE")
    assert_problem(await node.post(body_of(0, CUT | {"maxFeePerGas": GWEI - 1})), 422, "GAS_PRICE_TOO_LOW")
    assert (await node.post(body)).status_code == 200


async def test_a_replacement_raises_both_caps(node: RestNode) -> None:
    old = {"type": 2, "maxFeePerGas": 3 * GWEI, "maxPriorityFeePerGas": GWEI}
    enough = {"type": 2, "maxFeePerGas": 33 * GWEI // 10, "maxPriorityFeePerGas": 11 * GWEI // 10}

    def legacy(price: int) -> Any:
        fields = {"to": ACCOUNTS[1], "value": 7, "gas": 21_000, "nonce": 0, "chainId": 1337, "gasPrice": price}
        return Wallet.from_key(KEYS[ACCOUNTS[0]]).sign_transaction(fields)

    await call(node, "eth_sendRawTransaction", raw_of(wallet_signed(0, old)))
    for low in (
        enough | {"maxFeePerGas": 33 * GWEI // 10 - 1},
        enough | {"maxPriorityFeePerGas": 11 * GWEI // 10 - 1},
        {"gasPrice": 33 * GWEI // 10 - 1},
    ):
        raw = raw_of(wallet_signed(0, low, value=8) if "type" in low else legacy(low["gasPrice"]))
        message = (await refusal(node, "eth_sendRawTransaction", raw))[1]
        assert message.startswith("replacement transaction underpriced")
        if "type" in low:
            assert_problem(await node.post(body_of(0, low)), 409, "REPLACEMENT_UNDERPRICED")
    replaced = await call(node, "eth_sendRawTransaction", raw_of(wallet_signed(0, enough)))
    assert await call(node, "eth_sendRawTransaction", raw_of(legacy(4 * GWEI))) != replaced


async def test_the_best_tip_is_mined_first(node: RestNode) -> None:
    """Whatever their caps and types: what counts is what is paid."""
    offers = [
        (GWEI + 5, TYPE_2),
        (2 * GWEI, TYPE_1),
        (GWEI + 3, CUT),
        (GWEI + 9, {**TYPE_2, "maxPriorityFeePerGas": 9}),
    ]
    hashes = {}
    for sender, (price, terms) in enumerate(offers):
        sent = await call(node, "eth_sendRawTransaction", raw_of(wallet_signed(0, terms, sender=sender)))
        hashes[price] = sent
    expected = [hashes[price] for price in sorted(hashes, reverse=True)]
    listed = await node.read("/mempool")
    assert [item["txHash"] for item in listed] == expected
    for item in listed:
        fields = await node.read(f"/tx/{item['txHash']}")
        del fields["status"]
        assert item == fields | {"receivedAt": item["receivedAt"]}
    assert [item.type for item in msgspec.convert(listed, list[MempoolItem])] == [1, 2, 2, 2]
    node.mine()
    assert (await node.read("/block/1"))["transactions"] == expected
