"""A dev chain whose developer decides when blocks come."""

import time

import pytest

from tests.support.node_process import NodeProcess
from tests.support.pace import PATIENCE_S
from tests.support.public import PublicNode
from tests.support.rpc import RpcRefused, rpc
from tests.support.wallet import dev_account, new_account


def await_height(url: str, height: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while int(rpc(url, "eth_blockNumber"), 16) < height:
        assert time.monotonic() < until, "no block came"
        time.sleep(0.01)


def test_automine_and_interval_mining_decide_when_blocks_are_made() -> None:
    with NodeProcess.start_dev("--block-time", "0.01") as process:
        node, to = PublicNode(process.url), new_account().address
        transfer = {"from": dev_account(0).address, "to": to, "value": 1, "gas": 21_000}
        assert rpc(process.url, "evm_setAutomine", False) is True
        assert rpc(process.url, "anvil_getAutomine") is False
        snapshot = rpc(process.url, "evm_snapshot")
        # The chain that is opened again goes on as its developer said.
        assert rpc(process.url, "evm_revert", snapshot) is True
        tx_hash = node.post(transfer).json()["txHash"]
        assert node.read(f"/tx/{tx_hash}?wait=1")["status"] == "pending"
        assert rpc(process.url, "evm_setIntervalMining", 50) is True
        assert node.await_confirmed(tx_hash)["blockHeight"] == 1
        # An interval needs no transactions.
        await_height(process.url, 4)
        # One way of mining at a time, by anvil's name: this ends the interval.
        assert rpc(process.url, "anvil_setAutomine", True) is True
        assert rpc(process.url, "hardhat_getAutomine") is True
        height = int(rpc(process.url, "eth_blockNumber"), 16)
        assert node.await_confirmed(node.post(transfer).json()["txHash"])["blockHeight"] == height + 1
        # And this ends automine.
        assert rpc(process.url, "anvil_setIntervalMining", 0) is True
        tx_hash = node.post(transfer).json()["txHash"]
        assert node.read(f"/tx/{tx_hash}?wait=1")["status"] == "pending"
        for method, wrong in (
            ("evm_setAutomine", 1),
            ("evm_setIntervalMining", -1),
            ("anvil_setIntervalMining", 10**6),
        ):
            with pytest.raises(RpcRefused):
                rpc(process.url, method, wrong)
        node.close()
