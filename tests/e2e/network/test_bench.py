"""The benchmark of a network itself works: every figure is there after a run with tiny sizes."""

import json
import subprocess
import sys
from pathlib import Path

from tests.support.node_process import clean_environment

ROOT = Path(__file__).parents[3]


def test_smoke_run_gives_every_figure(cometbft_tools: Path, scratch: Path) -> None:
    output = scratch / "figures.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench.network", "--smoke", f"--output={output}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=clean_environment({"TMPDIR": str(scratch)}),
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(output.read_text())
    for key in ("confirmed_per_s", "kvstore_per_s", "rate_ratio", "confirm_p50_ms", "confirm_p99_ms", "cpu_us_per_tx"):
        assert figures[key] > 0
    assert "cairn in kvstores" in done.stdout
