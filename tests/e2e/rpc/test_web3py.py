"""web3.py against a running node, as its documentation has it: over HTTP, async, and with subscriptions."""

import asyncio
import time
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount
from web3 import AsyncHTTPProvider, AsyncWeb3, Web3, WebSocketProvider
from web3.exceptions import Web3RPCError
from web3.middleware import SignAndSendRawMiddlewareBuilder

from tests.support.node_process import NodeProcess
from tests.support.pace import PATIENCE_S
from tests.support.wallet import COIN, DEV_CHAIN_ID, TRANSFER_FEE, dev_account, new_account


def connected(node: NodeProcess) -> Any:
    """A `Web3`. Its types are those of mainnet's answers; here it is called as untyped programs call it."""
    return Web3(Web3.HTTPProvider(node.url + "/rpc", request_kwargs={"timeout": PATIENCE_S}))


def signed_transfer(sender: LocalAccount, to: str, nonce: int, gas_price: int) -> Any:
    fields: Any = {
        "to": to,
        "value": COIN,
        "gas": 21_000,
        "gasPrice": gas_price,
        "nonce": nonce,
        "chainId": DEV_CHAIN_ID,
    }
    return sender.sign_transaction(fields)


def polled_until(polled: Any, wanted: bytes) -> list[bytes]:
    """All that a filter tells until it tells what is wanted."""
    deadline = time.monotonic() + PATIENCE_S
    told: list[bytes] = []
    while wanted not in told:
        assert time.monotonic() < deadline, "it never came"
        told += polled.get_new_entries()
        time.sleep(0.05)
    return told


def test_send_wait_and_read(node: NodeProcess) -> None:
    w3 = connected(node)
    assert w3.is_connected()
    assert (w3.eth.chain_id, w3.net.version) == (DEV_CHAIN_ID, str(DEV_CHAIN_ID))
    sender, to = dev_account(1), new_account().address
    nonce = w3.eth.get_transaction_count(sender.address, "pending")
    signed = signed_transfer(sender, to, nonce, w3.eth.gas_price)
    tx_hash = w3.eth.send_raw_transaction(signed.raw_transaction)
    assert tx_hash == signed.hash
    receipt = w3.eth.wait_for_transaction_receipt(tx_hash, timeout=PATIENCE_S, poll_latency=0.05)
    assert (receipt["status"], receipt["gasUsed"], receipt["logs"]) == (1, 21_000, [])
    block = w3.eth.get_block(receipt["blockNumber"], full_transactions=True)
    assert block["hash"] == receipt["blockHash"]
    assert block["baseFeePerGas"] == w3.eth.gas_price
    found = w3.eth.get_transaction(tx_hash)
    assert (found["from"], found["to"], found["value"]) == (sender.address, to, COIN)
    assert found in block["transactions"]
    assert w3.eth.get_balance(to) == COIN
    assert w3.eth.get_balance(to, receipt["blockNumber"] - 1) == 0
    assert w3.eth.get_transaction_count(sender.address) == nonce + 1


def test_the_node_signs_for_a_dev_account(node: NodeProcess) -> None:
    w3 = connected(node)
    sender, to = w3.eth.accounts[2], new_account().address
    before = w3.eth.get_balance(sender)
    tx_hash = w3.eth.send_transaction({"from": sender, "to": to, "value": COIN})
    receipt = w3.eth.wait_for_transaction_receipt(tx_hash, timeout=PATIENCE_S, poll_latency=0.05)
    assert w3.eth.get_balance(sender, receipt["blockNumber"]) == before - COIN - TRANSFER_FEE


def test_a_pending_transaction_is_modified(node: NodeProcess) -> None:
    w3 = connected(node)
    sender, to = w3.eth.accounts[8], new_account().address
    nonce = w3.eth.get_transaction_count(sender, "pending")
    # The nonce before it is missing, so that no block takes it meanwhile.
    held_up = {"from": sender, "to": to, "value": 1, "nonce": nonce + 1, "type": 0, "gasPrice": w3.eth.gas_price}
    replaced = w3.eth.send_transaction(held_up)
    modified = w3.eth.modify_transaction(replaced, value=2, gasPrice=2 * w3.eth.gas_price)
    w3.eth.send_transaction({"from": sender, "to": to, "value": 1, "nonce": nonce, "type": 0})
    receipt = w3.eth.wait_for_transaction_receipt(modified, timeout=PATIENCE_S, poll_latency=0.05)
    assert w3.eth.get_balance(to, receipt["blockNumber"]) == 3


def test_an_estimate_that_is_refused_is_no_revert(node: NodeProcess) -> None:
    w3 = connected(node)
    poor, to = new_account().address, new_account().address
    for transfer, why in (
        ({"from": poor, "to": to, "value": COIN}, "insufficient funds for transfer"),
        ({"from": poor, "to": to, "gasPrice": w3.eth.gas_price}, "gas required exceeds allowance"),
        ({"from": w3.eth.accounts[8], "to": to, "data": "0x" + "01" * 257}, "oversized data: "),
    ):
        # It would be a ContractLogicError, which is no Web3RPCError.
        for ask in (w3.eth.estimate_gas, w3.eth.call):
            with pytest.raises(Web3RPCError, match=why):
                ask(transfer)


def test_a_local_account_behind_the_middleware(node: NodeProcess) -> None:
    w3 = connected(node)
    sender = dev_account(3)
    w3.middleware_onion.inject(SignAndSendRawMiddlewareBuilder.build(sender), layer=0)
    transfer = {"from": sender.address, "to": new_account().address, "value": 1, "gasPrice": w3.eth.gas_price}
    tx_hash = w3.eth.send_transaction(transfer)
    assert w3.eth.wait_for_transaction_receipt(tx_hash, timeout=PATIENCE_S, poll_latency=0.05)["status"] == 1


def test_refusals_are_worded_as_geth_words_them(node: NodeProcess) -> None:
    w3 = connected(node)
    poor, to = new_account(), new_account().address
    with pytest.raises(Web3RPCError, match="insufficient funds for gas"):
        w3.eth.send_raw_transaction(signed_transfer(poor, to, 0, w3.eth.gas_price).raw_transaction)
    with pytest.raises(Web3RPCError, match="transaction underpriced"):
        w3.eth.send_raw_transaction(signed_transfer(dev_account(4), to, 0, 1).raw_transaction)
    typed = dev_account(4).sign_transaction(
        {
            "to": to, "value": 1, "gas": 21_000, "nonce": 0, "chainId": DEV_CHAIN_ID, "maxFeePerGas": 10**8,
            "maxPriorityFeePerGas": 1, "type": 2,
        }
    )  # fmt: skip
    with pytest.raises(Web3RPCError, match="transaction underpriced: max fee per gas less than block base fee"):
        w3.eth.send_raw_transaction(typed.raw_transaction)


def test_the_middleware_that_signs_fills_in_all_that_is_left_out(node: NodeProcess) -> None:
    w3, sender, to = connected(node), dev_account(6), new_account().address
    w3.middleware_onion.inject(SignAndSendRawMiddlewareBuilder.build(sender), layer=0)
    tx_hash = w3.eth.send_transaction({"from": sender.address, "to": to, "value": 5})
    receipt = w3.eth.wait_for_transaction_receipt(tx_hash, timeout=PATIENCE_S, poll_latency=0.05)
    assert (receipt["status"], receipt["type"]) == (1, 2)
    assert w3.eth.get_balance(to) == 5


def test_a_reference_is_sent_with_the_defaults(node: NodeProcess) -> None:
    w3, sender, to, text = connected(node), dev_account(6), new_account().address, "invoice 4711, Größe 東京"
    w3.middleware_onion.inject(SignAndSendRawMiddlewareBuilder.build(sender), layer=0)
    transfer = {"from": sender.address, "to": to, "value": 5, "data": text.encode()}
    receipt = w3.eth.wait_for_transaction_receipt(w3.eth.send_transaction(transfer), PATIENCE_S, 0.05)
    gas = 21_000 + 16 * len(text.encode())
    assert (receipt["status"], receipt["gasUsed"]) == (1, gas)
    assert w3.eth.estimate_gas(transfer) == gas
    assert w3.eth.call(transfer) == b""
    assert w3.to_text(w3.eth.get_transaction(receipt["transactionHash"])["input"]) == text

    with pytest.raises(Web3RPCError, match="oversized data: "):
        w3.eth.send_transaction(transfer | {"data": bytes(257), "gas": 100_000})


def test_the_node_signs_a_reference_for_a_dev_account(node: NodeProcess) -> None:
    w3 = connected(node)
    transfer = {"from": w3.eth.accounts[2], "to": new_account().address, "value": 1, "data": "0x00ff"}
    receipt = w3.eth.wait_for_transaction_receipt(w3.eth.send_transaction(transfer), PATIENCE_S, 0.05)
    assert receipt["gasUsed"] == 21_000 + 4 + 16


def test_batch_requests(node: NodeProcess) -> None:
    w3 = connected(node)
    with w3.batch_requests() as batch:
        batch.add(w3.eth.get_block(0))
        batch.add(w3.eth.get_balance(dev_account(5).address))
        genesis, balance = batch.execute()
    assert genesis["number"] == 0
    assert balance > 0


def test_filters_are_polled(node: NodeProcess) -> None:
    w3 = connected(node)
    blocks, pending, logs = w3.eth.filter("latest"), w3.eth.filter("pending"), w3.eth.filter({})
    tx_hash = w3.eth.send_transaction({"from": w3.eth.accounts[5], "to": new_account().address, "value": 1})
    assert polled_until(pending, tx_hash) == [tx_hash]
    mined = w3.eth.wait_for_transaction_receipt(tx_hash, timeout=PATIENCE_S, poll_latency=0.05)["blockHash"]
    numbers = [w3.eth.get_block(block_hash)["number"] for block_hash in polled_until(blocks, mined)]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert logs.get_new_entries() == []
    assert w3.eth.uninstall_filter(blocks.filter_id)


async def test_async_over_http(node: NodeProcess) -> None:
    w3: Any = AsyncWeb3(AsyncHTTPProvider(node.url + "/rpc"))
    sender = dev_account(6)
    nonce, price = await asyncio.gather(w3.eth.get_transaction_count(sender.address), w3.eth.gas_price)
    signed = [signed_transfer(sender, new_account().address, nonce + each, price) for each in range(5)]
    sent = await asyncio.gather(*(w3.eth.send_raw_transaction(each.raw_transaction) for each in signed))
    receipts = await asyncio.gather(
        *(w3.eth.wait_for_transaction_receipt(tx_hash, PATIENCE_S, 0.05) for tx_hash in sent)
    )
    assert all(receipt["status"] == 1 for receipt in receipts)
    await w3.provider.disconnect()


async def test_subscriptions(node: NodeProcess) -> None:
    connecting: Any = AsyncWeb3(WebSocketProvider(node.ws_url + "/rpc"))
    async with connecting as w3:
        heads = await w3.eth.subscribe("newHeads")
        pending = await w3.eth.subscribe("newPendingTransactions")
        await w3.eth.subscribe("logs", {})
        sender = dev_account(7)
        nonce = await w3.eth.get_transaction_count(sender.address)
        signed = signed_transfer(sender, new_account().address, nonce, await w3.eth.gas_price)
        await w3.eth.send_raw_transaction(signed.raw_transaction)
        numbers: list[int] = []
        arrived = []
        async with asyncio.timeout(PATIENCE_S):
            async for message in w3.socket.process_subscriptions():
                if message["subscription"] == heads:
                    numbers.append(message["result"]["number"])
                elif message["subscription"] == pending:
                    arrived.append(message["result"])
                if len(numbers) >= 3 and arrived:
                    break
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert arrived == [signed.hash]
        assert await w3.eth.unsubscribe(heads)
        assert await w3.eth.unsubscribe(pending)
