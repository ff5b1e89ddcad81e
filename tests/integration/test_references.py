"""Transfers that say what they are for, from the submission to every answer that shows them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from cairn.api.chain_view import ChainView
from cairn.api.rpc import block_methods
from cairn.domain.answers import ConfirmedTransaction, Proof, Transaction
from cairn.domain.genesis import dev_genesis
from cairn.domain.types import ACCESS_LIST, DYNAMIC_FEE, LEGACY, Tx
from tests.support.core_fixtures import ACCOUNTS, GWEI, signed
from tests.support.rest_node import RestNode, body_of, hash_of, rest_node, without
from tests.support.rpc_node import RECIPIENT, SENDER, call, raw, refusal

TEXT = 'order: 7 "Größe" <b> \\\\ 東京 😀'
BYTES = b"\x00\xffbytes"


def by_text(tx: Tx) -> dict[str, Any]:
    return without(body_of(tx), "data") | {"reference": tx.data.decode()}


async def accept(node: RestNode, body: object) -> str:
    answer = await node.post(body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["txHash"])


async def problem(node: RestNode, body: object) -> tuple[int, str, str]:
    answer = await node.post(body)
    return answer.status_code, answer.json()["code"], answer.json()["detail"]


async def test_every_answer_about_a_transaction_shows_its_data(node: RestNode) -> None:
    told, plain, other = signed(0, data=TEXT.encode()), signed(1), signed(2, data=BYTES)
    assert await accept(node, by_text(told)) == hash_of(told)
    for tx in (plain, other):
        assert await accept(node, body_of(tx)) == hash_of(tx)
    fields = [
        {"data": "0x" + TEXT.encode().hex(), "reference": TEXT},
        {"data": None, "reference": None},
        {"data": "0x" + BYTES.hex(), "reference": None},
    ]

    async def shown(*paths: str) -> list[dict[str, Any]]:
        answers = [await node.read(path) for path in paths]
        listed = answers if len(paths) > 1 else answers[0]
        return [{name: tx.get(name) for name in ("data", "reference")} for tx in listed]

    looked_up = [f"/tx/{hash_of(tx)}" for tx in (told, plain, other)]
    assert await shown(*looked_up) == await shown("/mempool") == fields
    assert await shown("/mempool?amounts=string") == fields
    node.mine()
    assert await shown(*looked_up) == fields
    for form in ("", "?amounts=string"):
        assert await shown(f"/account/{SENDER}/txs{form}") == await shown(f"/account/{RECIPIENT}/txs{form}")
        assert await shown(f"/account/{SENDER}/txs{form}") == fields[::-1]
    for tx in (told, plain, other):
        answer = await node.read(f"/tx/{hash_of(tx)}")
        assert answer["fee"] == tx.gas_used * GWEI
        proof = msgspec.convert(await node.read(f"/tx/{hash_of(tx)}/proof"), Proof)
        proof.verify(hash_of(tx), answer["blockHash"])
        confirmed = msgspec.convert(answer, Transaction)
        assert isinstance(confirmed, ConfirmedTransaction)
        proof.check_same(confirmed)
    sent = sum(tx.value + tx.fee for tx in (told, plain, other))
    assert (await node.read(f"/account/{SENDER}"))["balance"] == 10_000 * 10**18 - sent


async def test_text_and_its_bytes_are_one_transaction(node: RestNode) -> None:
    tx = signed(0, data=b"invoice 4711")
    assert await accept(node, by_text(tx)) == await accept(node, body_of(tx)) == hash_of(tx)
    assert (await node.read("/chain"))["mempool"]["pending"] == 1


async def test_the_node_signs_references_for_its_own_accounts(node: RestNode) -> None:
    unsigned = {"from": SENDER, "to": RECIPIENT, "value": 1}
    first = await accept(node, unsigned | {"gas": 21_016, "reference": "A"})
    second = await accept(node, unsigned | {"gas": 30_000, "data": "0x00"})
    third = await call(node, "eth_sendTransaction", unsigned | {"value": "0x1", "data": "0x41"})
    for tx_hash, gas, data in ((first, 21_016, "0x41"), (second, 30_000, "0x00"), (third, 21_016, "0x41")):
        shown = await node.read(f"/tx/{tx_hash}")
        assert (shown["gas"], shown["data"]) == (gas, data)
    made = await call(node, "eth_signTransaction", unsigned | {"value": "0x1", "data": "0x42"})
    assert (made["tx"]["input"], made["tx"]["gas"]) == ("0x42", hex(21_016))


async def test_a_batch_takes_references_and_refuses_each_by_itself(node: RestNode) -> None:
    good, after = signed(0, data=b"one"), signed(1, data=b"two")
    items = [by_text(good), by_text(good) | {"data": "0x00"}, by_text(after) | {"reference": "tow"}, by_text(after)]
    answers = (await node.post(items, "/txs")).json()
    assert [answer.get("code", answer["status"]) for answer in answers] == [
        "pending", "INVALID_FIELD", "INVALID_SIGNATURE", "pending",
    ]  # fmt: skip


async def test_a_limit_below_what_the_data_takes_is_refused_with_what_is_needed(node: RestNode) -> None:
    body = body_of(signed(0, data=b"\x00invoice 4711"))
    status, code, detail = await problem(node, without(body, "signature") | {"gas": 21_195})
    assert (status, code) == (422, "GAS_TOO_LOW")
    assert "21196" in detail


@pytest.mark.parametrize(("most", "taken"), [(0, []), (4, [b"four"]), (256, [b"four", b"\xff" * 256])])
async def test_data_is_taken_up_to_the_limit_of_the_genesis(tmp_path: Path, most: int, taken: list[bytes]) -> None:
    async with rest_node(tmp_path, genesis=replace(dev_genesis(), max_data_bytes=most)) as node:
        assert (await node.read("/chain"))["maxDataBytes"] == most
        for nonce, data in enumerate(taken):
            await accept(node, body_of(signed(nonce, data=data)))
        refused = bytes(most + 1)
        transfer = {"from": SENDER, "to": RECIPIENT, "value": "0x1", "data": "0x" + refused.hex()}
        unsigned = {"from": SENDER, "to": RECIPIENT, "value": 1, "gas": 30_000, "data": "0x" + refused.hex()}
        bodies = [unsigned, unsigned | {"data": "0x" + "00" * 60_000}]
        if most < 256:
            too_long = signed(len(taken), data=refused)
            bodies.append(body_of(too_long))
            assert (await refusal(node, "eth_sendRawTransaction", raw(too_long)))[1].startswith("oversized data: ")
        for body in bodies:
            status, code, detail = await problem(node, body)
            assert (status, code) == (422, "DATA_TOO_LONG")
            assert (f"{most} at most" if most else "no data") in detail or "more than 256" in detail
        for method in ("eth_call", "eth_estimateGas", "eth_sendTransaction", "eth_signTransaction"):
            assert (await refusal(node, method, transfer))[1].startswith("oversized data: ")
        node.mine()
        assert (await node.read("/block/latest"))["transactionCount"] == len(taken)


async def test_receipts_add_up_the_gas_of_their_block(node: RestNode) -> None:
    txs = [signed(nonce, data=bytes(nonce % 3) + b"a" * (nonce % 5)) for nonce in range(40)]
    for tx in txs:
        await accept(node, body_of(tx))
    node.mine()
    block = await call(node, "eth_getBlockByNumber", "latest", True)
    listed = await call(node, "eth_getBlockReceipts", "latest")
    so_far = 0
    for tx, shown, receipt in zip(txs, block["transactions"], listed, strict=True):
        so_far += tx.gas_used
        assert (shown["hash"], shown["input"]) == (hash_of(tx), "0x" + tx.data.hex())
        assert (receipt["gasUsed"], receipt["cumulativeGasUsed"]) == (hex(tx.gas_used), hex(so_far))
        assert await call(node, "eth_getTransactionReceipt", hash_of(tx)) == receipt
        assert await call(node, "eth_getRawTransactionByHash", hash_of(tx)) == raw(tx)
    assert (block["gasUsed"], len(listed)) == (hex(so_far), 40)
    assert await call(node, "eth_getBlockTransactionCountByNumber", "latest") == hex(40)
    # The next block has none with data, and a receipt needs no other transaction.
    await accept(node, body_of(signed(40)))
    node.mine()
    assert (await call(node, "eth_getTransactionReceipt", hash_of(signed(40))))["cumulativeGasUsed"] == hex(21_000)


async def test_what_an_earlier_process_has_stored_is_told_as_it_was(tmp_path: Path) -> None:
    """A block with data and one without: the later process has neither in memory."""
    txs = [signed(0, data=b"order 7"), signed(1), signed(2)]

    async def told(node: RestNode) -> list[dict[str, str]]:
        methods = ("eth_getTransactionByHash", "eth_getTransactionReceipt")
        return [await call(node, method, hash_of(tx)) for tx in txs for method in methods]

    async with rest_node(tmp_path) as node:
        for block in (txs[:2], txs[2:]):
            for tx in block:
                await accept(node, body_of(tx))
            node.mine()
        before = await told(node)
        times = [(await call(node, "eth_getBlockByNumber", hex(height), False))["timestamp"] for height in (1, 2)]
    assert [shown["blockTimestamp"] for shown in before[::2]] == [times[0], times[0], times[1]]
    assert len({shown["cumulativeGasUsed"] for shown in before[1::2]}) == 3
    async with rest_node(tmp_path) as node:
        assert await told(node) == before


async def test_gas_that_was_added_up_across_a_revert_is_neither_told_nor_kept(
    node: RestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = signed(0, data=b"\xff"), signed(1)
    for tx in (first, second):
        await accept(node, body_of(tx))
    node.mine()
    tx_records = ChainView.tx_records

    def reverted(view: ChainView, height: int) -> Iterator[bytes]:
        yield from tx_records(view, height)
        view.reverts += 1

    with monkeypatch.context() as reverting:
        # As a large block, whose gas is added up in slices: meanwhile others are served.
        reverting.setattr(block_methods, "HASHES_AT_ONCE", 0)
        reverting.setattr(ChainView, "tx_records", reverted)
        assert "reverted" in (await refusal(node, "eth_getTransactionReceipt", hash_of(second)))[1]
    receipt = await call(node, "eth_getTransactionReceipt", hash_of(second))
    assert receipt["cumulativeGasUsed"] == hex(42_016)


@pytest.mark.parametrize("kind", [LEGACY, ACCESS_LIST, DYNAMIC_FEE])
async def test_a_pending_transaction_of_each_type_shows_its_input(node: RestNode, kind: int) -> None:
    caps = {"max_fee": 2 * GWEI, "max_tip": 5, "gas_price": GWEI + 5} if kind == DYNAMIC_FEE else {}
    tx = signed(0, kind=kind, data=b"\x00x", **caps)
    assert await call(node, "eth_sendRawTransaction", raw(tx)) == hash_of(tx)
    shown = await call(node, "eth_getTransactionByHash", hash_of(tx))
    assert (shown["input"], shown["type"], shown["gas"]) == ("0x0078", hex(kind), hex(21_020))
    pending = await call(node, "eth_getBlockByNumber", "pending", True)
    assert (pending["transactions"], pending["gasUsed"]) == ([shown], hex(21_020))
    assert list((await call(node, "txpool_content"))["pending"].values()) == [{"0": shown}]
    assert await call(node, "eth_estimateGas", {"from": SENDER, "to": "0x" + ACCOUNTS[3].hex(), "input": "0x0078"}) == (
        hex(21_020)
    )
