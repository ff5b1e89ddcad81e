"""ethers and viem against a running node; each script says what it does."""

import subprocess
from pathlib import Path

import pytest

from tests.support.node_process import NodeProcess
from tests.support.wallet import dev_account, new_account


@pytest.mark.parametrize("library", ["ethers", "viem"])
def test_a_library_sends_waits_and_watches(library: str, node: NodeProcess, js_packages: Path) -> None:
    script = js_packages.with_name(f"{library}_rpc.mjs")
    key = "0x" + bytes(dev_account(0).key).hex()
    done = subprocess.run(
        ["node", str(script), node.url, key, new_account().address],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, f"{library}: done\n"), done.stdout + done.stderr + node.stderr
