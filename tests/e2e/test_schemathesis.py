"""The served description against the running node: whatever schemathesis generates, both agree."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.node_process import NodeProcess

SEED = 20_240_229
EXAMPLES = 40
TIMEOUT_S = 240


@pytest.mark.timeout(TIMEOUT_S + 60)
def test_no_check_of_schemathesis_fails(tmp_path: Path) -> None:
    with NodeProcess.start_dev("--block-time", "0.2", "--workers", "2") as node:
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("schemathesis")),
                f"--config-file={Path(__file__).with_name('schemathesis.toml')}",
                "run",
                f"{node.url}/openapi.json",
                "--checks=all",
                "--phases=examples,coverage,fuzzing,stateful",
                f"--seed={SEED}",
                "--generation-deterministic",
                "--generation-database=none",
                f"--max-examples={EXAMPLES}",
                "--continue-on-failure",
                "--request-timeout=10",
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert node.probe("/ready") == 200
