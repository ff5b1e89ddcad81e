"""A data directory that goes away under a running node: nothing is accepted any more, and no other chain is started."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from cairn.domain.crypto import checksum_address
from cairn.domain.genesis import DEV_KEYS
from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.public import get_anew, post_anew

FIRST, SECOND = (checksum_address(address) for address, _ in DEV_KEYS[:2])
GONE = "is gone"


def rpc(node: NodeProcess, method: str, *params: object) -> dict[str, Any]:
    asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer: dict[str, Any] = post_anew(f"{node.url}/rpc", asked).json()
    return answer


def mined(node: NodeProcess, blocks: int) -> dict[str, Any]:
    """Make blocks; returns the newest."""
    for _ in range(blocks):
        assert "result" in rpc(node, "evm_mine")
    newest: dict[str, Any] = rpc(node, "eth_getBlockByNumber", "latest", False)["result"]
    return newest


def pay(node: NodeProcess) -> dict[str, Any]:
    return rpc(node, "eth_sendTransaction", {"from": FIRST, "to": SECOND, "value": "0x1"})


def wait_refused(node: NodeProcess) -> None:
    def refused() -> bool:
        answer = get_anew(f"{node.url}/ready")
        return answer.status_code == 503 and GONE in answer.text

    wait_until(refused, PATIENCE_S, f"the refusal: {node.stderr}")


@pytest.mark.parametrize("core_is_killed", [False, True])
def test_a_removed_directory_is_never_begun_anew(tmp_path: Path, core_is_killed: bool) -> None:
    data_dir = tmp_path / "data"
    with NodeProcess.start_dev("--block-time", "3600", data_dir=data_dir) as node:
        mined(node, 3)
        shutil.rmtree(data_dir)
        if core_is_killed:
            os.kill(node.core_pid(), signal.SIGKILL)
        else:
            # The very first one: its file is written, but has no name any more.
            assert pay(node)["error"]["data"]["code"] == "STORE_UNAVAILABLE"
        wait_refused(node)
        assert "error" in pay(node)
        assert not data_dir.exists()
        assert node.stop() == 0
        assert not data_dir.exists()


def test_a_directory_that_comes_back_is_taken_up_where_it_was(tmp_path: Path) -> None:
    data_dir, aside = tmp_path / "data", tmp_path / "aside"
    with NodeProcess.start_dev("--block-time", "3600", data_dir=data_dir) as node:
        head = mined(node, 3)
        data_dir.rename(aside)
        # As an unmounted volume leaves it.
        data_dir.mkdir()
        os.kill(node.core_pid(), signal.SIGKILL)
        wait_refused(node)
        data_dir.rmdir()
        aside.rename(data_dir)
        wait_until(lambda: "result" in pay(node), PATIENCE_S, f"its return: {node.stderr}")
        assert mined(node, 1)["parentHash"] == head["hash"]


def test_a_revert_may_make_the_chain_shorter_also_when_the_core_is_killed(tmp_path: Path) -> None:
    with NodeProcess.start_dev("--block-time", "3600", data_dir=tmp_path / "data") as node:
        snapshot = rpc(node, "evm_snapshot")["result"]
        mined(node, 3)
        assert rpc(node, "evm_revert", snapshot)["result"] is True
        killed = node.core_pid()
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: killed not in node.children(), PATIENCE_S, "the loss")
        # A worker may hear of the loss, and of the new core, a moment later than another.
        wait_until(lambda: "result" in rpc(node, "evm_mine"), PATIENCE_S, f"a block: {node.stderr}")
        assert rpc(node, "eth_getBlockByNumber", "0x2", False)["result"] is None
