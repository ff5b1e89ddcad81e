"""A node that is started on a damaged data directory ends with exit code 3, and says which file it is."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from cairn.config import EXIT_FATAL
from cairn.domain.crypto import checksum_address
from cairn.domain.genesis import DEV_KEYS
from tests.support.damage import DAMAGES, Damage
from tests.support.damaged_homes import tree
from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.public import post_anew

FIRST, SECOND = (checksum_address(address) for address, _ in DEV_KEYS[:2])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a killed node leaves that had made a block, and then accepted what no block takes yet."""
    data_dir = tmp_path_factory.mktemp("whole") / "data"
    with NodeProcess.start_dev("--block-time", "3600", data_dir=data_dir) as node:
        assert post_anew(f"{node.url}/rpc", {"jsonrpc": "2.0", "id": 1, "method": "evm_mine"}).status_code == 200
        for nonce in range(1, 9):
            transfer = {"from": FIRST, "to": SECOND, "value": 1, "gas": 21_000, "nonce": nonce}
            assert post_anew(f"{node.url}/tx", transfer).status_code == 200
        os.killpg(node.process.pid, signal.SIGKILL)
        node.process.wait()
    return data_dir


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_directory_ends_the_node_by_name(whole: Path, tmp_path: Path, damage: Damage) -> None:
    data_dir = Path(shutil.copytree(whole, tmp_path / "data"))
    named = damage(data_dir)
    before = tree(data_dir)
    with NodeProcess.start(("dev", "--port", "0", "--data-dir", str(data_dir))) as node:
        wait_until(lambda: not node.is_running or "Listening on" in node.stdout, PATIENCE_S, "its end")
        assert not node.is_running, "it took the damage for nothing"
        assert node.process.returncode == EXIT_FATAL
        assert f"Corrupt: {named}" in node.stderr
    assert tree(data_dir) == before
