"""Transactions byte for byte, and a submission that is answered by its receipt."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import rlp  # type: ignore[import-untyped]
from starlette.types import Message

from cairn.api import chain_view
from cairn.api.rpc import transaction_methods
from cairn.api.rpc.transaction_methods import receipt_wait_ms
from cairn.api.rpc.values import InvalidParams
from cairn.domain.crypto import keccak256
from cairn.domain.transactions import sign_draft
from cairn.domain.types import DYNAMIC_FEE, Draft, Tx, TxHash
from tests.support.core_fixtures import ACCOUNTS, CHAIN_ID, GWEI, KEYS, signed, signed_of_each_type
from tests.support.pace import PATIENCE_S
from tests.support.rest_node import RestNode, rest_node
from tests.support.rpc_node import answer_of, call, raw, refusal

SYNC = "eth_sendRawTransactionSync"
FOR_EVER_MS = int(PATIENCE_S) * 10_000
UNKNOWN = "0x" + "ab" * 32
TYPED = Draft(ACCOUNTS[0], ACCOUNTS[1], 9, 21_000, GWEI + 5, 1, DYNAMIC_FEE, 2 * GWEI, 5)


async def test_raw_transactions_are_found_by_hash_and_by_block_and_index(node: RestNode) -> None:
    mined, pending = raw(signed(0)), raw(sign_draft(TYPED, KEYS[TYPED.sender], CHAIN_ID))
    mined_hash = await call(node, "eth_sendRawTransaction", mined)
    node.mine()
    pending_hash = await call(node, "eth_sendRawTransaction", pending)
    block_hash = (await call(node, "eth_getBlockByNumber", "0x1"))["hash"]
    for method in ("eth_getRawTransactionByHash", "debug_getRawTransaction"):
        assert await call(node, method, mined_hash) == mined
        assert await call(node, method, pending_hash) == pending
        assert await call(node, method, UNKNOWN) == "0x"
    by_number, by_hash = "eth_getRawTransactionByBlockNumberAndIndex", "eth_getRawTransactionByBlockHashAndIndex"
    assert await call(node, by_number, "latest", "0x0") == mined
    assert await call(node, by_number, "pending", "0x0") == pending
    assert await call(node, by_hash, block_hash, "0x0") == mined
    assert await call(node, by_number, "0x1", "0x1") == "0x"
    assert await call(node, by_number, "0x9", "0x0") == "0x"
    assert await call(node, by_hash, UNKNOWN, "0x0") == "0x"


@asynccontextmanager
async def waiting(node: RestNode, tx: Tx) -> AsyncIterator["asyncio.Future[Any]"]:
    """Submit, and wait for the receipt; the transaction is pending, and its end is watched."""
    answer = asyncio.ensure_future(answer_of(node, SYNC, raw(tx), 60_000))
    while tx.hash not in node.view._waiting:
        await asyncio.sleep(0.01)
    # Behind the question of the one who waits, which was put before.
    await node.core.status()
    assert not answer.done()
    yield answer
    assert answer.done()


async def test_a_submission_is_answered_by_its_receipt(node: RestNode) -> None:
    async with waiting(node, signed(0)) as answer:
        node.mine()
        receipt = (await answer)["result"]
    assert receipt == await call(node, "eth_getTransactionReceipt", receipt["transactionHash"])
    # Sent again, it is in its block already.
    assert await call(node, SYNC, raw(signed(0))) == receipt


@pytest.mark.parametrize(
    ("limit_ms", "shown"),
    [("0x1", "1ms"), (1, "1ms"), (250, "250ms"), (1_500, "1.5s"), (60_000, "1m0s"), (10**9, "1m0s")],
)
@pytest.mark.virtual_time
async def test_a_receipt_that_does_not_come_in_time_is_error_4(node: RestNode, limit_ms: object, shown: str) -> None:
    tx = signed(0)
    assert (await answer_of(node, SYNC, raw(tx), limit_ms))["error"] == {
        "code": 4,
        "message": f"The transaction was added to the transaction pool but wasn't processed in {shown}",
        "data": "0x" + tx.hash.hex(),
    }


def test_how_long_a_receipt_is_waited_for() -> None:
    assert [receipt_wait_ms(given) for given in (None, 0, "0x0", 1, "0x2", "3", 10**9)] == [
        20_000, 20_000, 20_000, 1, 2, 3, 60_000
    ]  # fmt: skip
    for wrong in ("soon", -1, 1.5, True, {"ms": 1}):
        with pytest.raises(InvalidParams, match="timeout"):
            receipt_wait_ms(wrong)


async def test_a_drop_ends_the_wait_for_a_receipt_with_error_5(node: RestNode) -> None:
    tx = signed(0)
    async with waiting(node, tx) as answer:
        await call(node, "eth_sendRawTransaction", raw(signed(0, gas_price=2 * GWEI)))
        assert (await answer)["error"] == {
            "code": 5,
            "message": "The transaction was added to the transaction pool but was dropped from it: replaced",
            "data": "0x" + tx.hash.hex(),
        }


async def test_a_stop_of_the_node_ends_the_wait_for_a_receipt(node: RestNode, monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(tx_hash: TxHash) -> None:
        await asyncio.Event().wait()

    tx = signed(0)
    async with waiting(node, tx) as answer:
        # The core of a node that stops may not answer any more.
        monkeypatch.setattr(node.core, "find_tx", silent)
        node.view.on_phase("draining", "stopping")
        error = (await answer)["error"]
    assert (error["code"], error["data"]) == (-32002, {"code": "SHUTTING_DOWN", "txHash": "0x" + tx.hash.hex()})
    assert error["message"].startswith("resource unavailable: the node is stopping")


class Leaving:
    """What an application reads a request from, as our server's: it shows whether the client is still there."""

    def __init__(self, body: bytes) -> None:
        self.disconnected = False
        self._body = body

    async def receive(self) -> Message:
        return {"type": "http.request", "body": self._body}


async def test_a_client_that_has_left_ends_the_wait_for_a_receipt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain_view, "PRESENCE_INTERVAL_S", 0.02)
    monkeypatch.setattr(transaction_methods, "MAX_WAIT_MS", FOR_EVER_MS)
    async with rest_node(tmp_path) as node:
        request = {"jsonrpc": "2.0", "id": 1, "method": SYNC, "params": [raw(signed(0)), FOR_EVER_MS]}
        client = Leaving(msgspec.json.encode(request))

        async def leave() -> None:
            while not (await node.core.status()).pending:
                await asyncio.sleep(0.01)
            client.disconnected = True

        async def send(message: Message) -> None:
            pass

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {
            "type": "http", "method": "POST", "path": "/rpc", "query_string": b"", "headers": headers,
            "client": ("127.0.0.1", 1), "http_version": "1.1", "scheme": "http",
        }  # fmt: skip
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(node.app(scope, client.receive, send), leave())
        assert (await node.core.status()).pending == 1


async def test_raw_blocks_and_headers_hash_to_the_block_and_hold_its_transactions(node: RestNode) -> None:
    for tx in signed_of_each_type():
        await call(node, "eth_sendRawTransaction", raw(tx))
    node.mine()
    for height, txs in ((0, []), (1, signed_of_each_type())):
        block = await call(node, "eth_getBlockByNumber", hex(height))
        for name in (hex(height), block["hash"], {"blockHash": block["hash"]}):
            header = bytes.fromhex((await call(node, "debug_getRawHeader", name))[2:])
            assert "0x" + keccak256(header).hex() == block["hash"]
            items = rlp.decode(bytes.fromhex((await call(node, "debug_getRawBlock", name))[2:]))
            assert [rlp.encode(items[0]), items[2:]] == [header, [[]]]
            # A legacy transaction is a list itself, a typed one a string.
            found = [item if isinstance(item, bytes) else rlp.encode(item) for item in items[1]]
            assert ["0x" + content.hex() for content in found] == [raw(tx) for tx in txs]


async def test_an_unknown_raw_block_is_empty_by_number_and_an_error_by_hash(node: RestNode) -> None:
    for method, what in (("debug_getRawHeader", "header"), ("debug_getRawBlock", "block")):
        assert await call(node, method, "0x9") == "0x"
        assert await refusal(node, method, UNKNOWN) == (-32000, f"{what} {UNKNOWN} not found")
        assert await refusal(node, method, "pending") == (-32000, "pending block is not available")


async def test_proofs_of_a_trie_are_refused_and_lead_to_those_of_this_chain(node: RestNode) -> None:
    code, message = await refusal(node, "eth_getProof", "0x" + ACCOUNTS[0].hex(), [], "latest")
    assert code == -32000
    assert message.startswith("proofs of Ethereum's state trie are not supported")
    assert "GET /account/{address}/proof" in message
