"""The benchmark itself works: every figure is there after a run with tiny sizes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(180)
def test_smoke_run_gives_every_figure(tmp_path: Path) -> None:
    output = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--smoke", f"--output={output}"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(output.read_text())
    for key in ("recovery_us", "cost_ratio", "confirmed_per_s", "post_p99_ms", "get_p99_ms", "start_s", "depth_ratio"):
        assert figures[key] > 0
    assert "in recoveries" in done.stdout
