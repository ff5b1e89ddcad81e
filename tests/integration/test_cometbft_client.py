"""The ABCI client in the CometBFT that `make cometbft` builds; its tests are in Go, in tools/cometbft."""

import subprocess
from pathlib import Path

from tests.support.pace import PATIENCE_S


def test_the_client_keeps_the_order_and_lets_nobody_wait_in_vain(cometbft_tools: Path) -> None:
    program = cometbft_tools / "stock" / "client.test"
    done = subprocess.run([program, "-test.v"], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--- PASS: TestEveryEndReachesWhoWaits" in done.stdout
