"""A dev chain whose developer decides when blocks come."""

import pytest

from tests.support.node_process import NodeProcess
from tests.support.public import PublicNode
from tests.support.rpc import RpcRefused, rpc
from tests.support.wallet import dev_account, new_account


def test_blocks_come_as_the_developer_says() -> None:
    with NodeProcess.start_dev("--block-time", "0") as process:
        node, to = PublicNode(process.url), new_account().address
        transfer = {"from": dev_account(0).address, "to": to, "value": 1, "gas": 21_000}
        assert rpc(process.url, "evm_setAutomine", False) is True
        snapshot = rpc(process.url, "evm_snapshot")
        # The chain that is opened again goes on as its developer said.
        assert rpc(process.url, "evm_revert", snapshot) is True
        tx_hash = node.post(transfer).json()["txHash"]
        assert node.read(f"/tx/{tx_hash}?wait=1")["status"] == "pending"
        assert rpc(process.url, "evm_setIntervalMining", 50) is True
        assert node.await_confirmed(tx_hash)["blockHeight"] == 1
        assert rpc(process.url, "anvil_setIntervalMining", 0) is True
        assert rpc(process.url, "anvil_setAutomine", True) is True
        assert node.await_confirmed(node.post(transfer).json()["txHash"])["blockHeight"] == 2
        for method, wrong in (
            ("evm_setAutomine", 1),
            ("evm_setIntervalMining", -1),
            ("anvil_setIntervalMining", 10**6),
        ):
            with pytest.raises(RpcRefused):
                rpc(process.url, method, wrong)
        node.close()
