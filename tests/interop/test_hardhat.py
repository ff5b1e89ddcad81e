"""hardhat 3 with its ethers and viem plugins, in a project that names the node as its network."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import HERE, run
from tests.support.node_process import NodeProcess
from tests.support.wallet import dev_account


@pytest.fixture(scope="module")
def node() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev("--block-time", "0.2") as process:
        yield process


@pytest.mark.parametrize("network", ["remote", "local"])
def test_hardhat_pays_and_steers_the_chain(network: str, node: NodeProcess, js_programs: Path, tmp_path: Path) -> None:
    """`remote`: the node signs. `local`: hardhat does."""
    project = shutil.copytree(HERE / "hardhat", tmp_path / "project")
    (project / "node_modules").symlink_to(js_programs.parent)
    env = {"CAIRN_HTTP": f"{node.url}/rpc", "CAIRN_KEY": "0x" + bytes(dev_account(0).key).hex()}
    said = run([js_programs / "hardhat", "run", "--no-compile", "--network", network, "use.js"], project, env)
    assert said == "hardhat: done\n"
