"""The benchmark itself works: every figure is there after a run with tiny sizes, and none is far off."""

import json
import subprocess
import sys
from pathlib import Path

from tests.support.pace import Pace
from tests.support.pauses import is_any_child_paused

ROOT = Path(__file__).parents[2]
# Far above the bars of a full run: only what went badly wrong passes these.
MAX_START_S = 5
MAX_IDLE_MB = 250


def test_smoke_run_gives_every_figure(tmp_path: Path) -> None:
    output = tmp_path / "figures.json"
    arguments = [sys.executable, "-m", "bench", "--smoke", f"--output={output}"]
    with Pace(is_any_child_paused) as pace:
        done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, start_new_session=True)
    assert done.returncode == 0, done.stderr
    figures = json.loads(output.read_text())
    for key in (
        "recovery_us",
        "cost_ratio",
        "best_cost_ratio",
        "type_0_ratio",
        "type_1_ratio",
        "type_2_ratio",
        "confirmed_per_s",
        "post_p99_ms",
        "get_p99_ms",
    ):
        assert figures[key] > 0
    assert 0 < figures["start_s"] < pace.stretch(MAX_START_S)
    assert 0 < figures["idle_rss_mb"] < MAX_IDLE_MB
    assert "in recoveries" in done.stdout


def test_the_comparison_with_peers_gives_every_figure_of_ours(tmp_path: Path) -> None:
    """Without the peers, which only `make bench-peers` installs."""
    arguments = ["--smoke", "--rounds=1", "--peers=cairn-rest,cairn-rpc", f"--output={tmp_path}"]
    # The others start a chain each, and have nothing else in them that these do not.
    rows = ["write", "tx", "receipt", "block", "full-block", "account", "mixed", "mempool", "instant", "sockets"]
    done = subprocess.run(
        [sys.executable, "-m", "bench.peers", *arguments, f"--only={','.join(rows)}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr
    samples = json.loads((tmp_path / "benchmarks.json").read_text())["samples"]
    assert [each for each in samples if "error" in each] == []
    measured = {(each["target"], each["measurement"]) for each in samples}
    assert measured == {("cairn-rest", row) for row in rows if row != "full-block"} | {
        ("cairn-rpc", row) for row in rows
    }
    assert all(value > 0 for each in samples for value in each["figures"].values())
    assert "| transaction by hash/s | " in (tmp_path / "benchmarks.md").read_text()
    assert "</svg>" in (tmp_path / "images" / "benchmarks.svg").read_text()
