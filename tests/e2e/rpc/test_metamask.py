"""The calls that MetaMask makes to send a transfer with data, with its margins for gas and fees."""

from typing import Any

import pytest
from eth_account.signers.local import LocalAccount

from tests.support.node_process import NodeProcess
from tests.support.pace import PATIENCE_S
from tests.support.public import PublicNode
from tests.support.rpc import RpcRefused, rpc
from tests.support.wallet import dev_account, new_account

TEXT = "invoice 4711, Größe 東京"
GAS_MARGIN = 1.5
"""Of MetaMask's limit over the estimate; it pays for what is used only."""
FEE_MARGIN = 2


@pytest.fixture
def sender() -> LocalAccount:
    return dev_account(9)


def estimate(url: str, sender: LocalAccount, to: str, data: bytes) -> int:
    """MetaMask leaves out prices, and gives the value even if it is 0."""
    asked = {"from": sender.address, "to": to, "value": "0x1", "data": "0x" + data.hex(), "type": "0x2"}
    return int(rpc(url, "eth_estimateGas", asked), 16)


def test_a_transfer_with_a_reference_is_sent_and_shown(node: NodeProcess, sender: LocalAccount) -> None:
    url, to, data = node.url, new_account().address, TEXT.encode()
    assert rpc(url, "eth_chainId") == "0x539"
    assert rpc(url, "eth_getCode", to, "latest") == "0x"
    head = rpc(url, "eth_getBlockByNumber", "latest", False)
    needed = estimate(url, sender, to, data)
    limit = int(needed * GAS_MARGIN)
    assert limit < int(head["gasLimit"], 16) * 0.9
    history = rpc(url, "eth_feeHistory", "0x5", "latest", [10, 20, 30])
    tip = int(rpc(url, "eth_maxPriorityFeePerGas"), 16)
    base_fee = int(history["baseFeePerGas"][-1], 16)
    fields: dict[str, Any] = {
        "type": 2,
        "chainId": 1337,
        "nonce": int(rpc(url, "eth_getTransactionCount", sender.address, "pending"), 16),
        "to": to,
        "value": 1,
        "gas": limit,
        "maxFeePerGas": FEE_MARGIN * base_fee + tip,
        "maxPriorityFeePerGas": tip,
        "data": data,
    }
    signed = sender.sign_transaction(fields)
    tx_hash = rpc(url, "eth_sendRawTransaction", "0x" + signed.raw_transaction.hex())
    assert tx_hash == "0x" + signed.hash.hex()

    receipt = rpc(url, "eth_sendRawTransactionSync", "0x" + signed.raw_transaction.hex(), int(PATIENCE_S * 1000))
    used = 21_000 + 16 * len(data)
    assert (needed, int(receipt["gasUsed"], 16), int(receipt["effectiveGasPrice"], 16)) == (used, used, base_fee)
    shown = rpc(url, "eth_getTransactionByHash", tx_hash)
    assert (shown["input"], int(shown["gas"], 16)) == ("0x" + data.hex(), limit)
    public = PublicNode(node.url)
    assert public.read(f"/tx/{tx_hash}")["reference"] == TEXT
    public.close()


@pytest.mark.parametrize("size", [257, 10_000])
def test_a_reference_that_is_too_long_fails_at_the_estimate(node: NodeProcess, sender: LocalAccount, size: int) -> None:
    with pytest.raises(RpcRefused, match="oversized data: "):
        estimate(node.url, sender, new_account().address, bytes(size))
