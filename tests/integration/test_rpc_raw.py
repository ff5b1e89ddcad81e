"""Transactions byte for byte, and a submission that is answered by its receipt."""

import asyncio
from pathlib import Path

from cairn.domain.txs import sign_draft
from cairn.domain.types import DYNAMIC_FEE, Draft
from tests.support.core_fixtures import ACCOUNTS, CHAIN_ID, GWEI, KEYS, signed
from tests.support.rest_node import RestNode, run_on_node
from tests.support.rpc_node import answer_of, call, raw, refusal

UNKNOWN = "0x" + "ab" * 32
TYPED = Draft(ACCOUNTS[0], ACCOUNTS[1], 9, 21_000, GWEI + 5, 1, DYNAMIC_FEE, 2 * GWEI, 5)


def test_raw_transactions_wherever_they_are(tmp_path: Path) -> None:
    async def check(node: RestNode) -> None:
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

    run_on_node(tmp_path, check)


def test_a_submission_is_answered_by_its_receipt(tmp_path: Path) -> None:
    async def check(node: RestNode) -> None:
        waiting = asyncio.create_task(call(node, "eth_sendRawTransactionSync", raw(signed(0)), "0xea60"))
        while not (await node.core.status()).pending:
            await asyncio.sleep(0.01)
        assert not waiting.done()
        node.mine()
        receipt = await waiting
        assert receipt == await call(node, "eth_getTransactionReceipt", receipt["transactionHash"])
        # Sent again, it is in its block already.
        assert await call(node, "eth_sendRawTransactionSync", raw(signed(0))) == receipt

    run_on_node(tmp_path, check)


def test_a_receipt_that_does_not_come_in_time(tmp_path: Path) -> None:
    async def check(node: RestNode) -> None:
        tx = signed(0)
        error = (await answer_of(node, "eth_sendRawTransactionSync", raw(tx), "0x1"))["error"]
        assert (error["code"], error["data"]) == (4, "0x" + tx.hash.hex())
        assert error["message"].startswith("The transaction was added to the transaction pool but wasn't processed in")
        assert await refusal(node, "eth_sendRawTransactionSync", raw(tx), "soon") == (
            -32602, "timeout: hex string without 0x prefix"
        )  # fmt: skip

    run_on_node(tmp_path, check)


def test_there_are_no_account_proofs(tmp_path: Path) -> None:
    async def check(node: RestNode) -> None:
        code, message = await refusal(node, "eth_getProof", "0x" + ACCOUNTS[0].hex(), [], "latest")
        assert code == -32000
        assert message.startswith("account proofs are not supported")

    run_on_node(tmp_path, check)
