"""The benchmarks of networks themselves work: every figure is there after a run with tiny sizes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.scale.figures import Figures
from tests.support.balancers import HAPROXY
from tests.support.nginx import NGINX
from tests.support.node_process import clean_environment
from tests.support.programs import need_program

ROOT = Path(__file__).parents[3]
DELAY_MS = 300


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


def test_validators_far_apart_and_nodes_behind_proxies_are_measured(cometbft_tools: Path, scratch: Path) -> None:
    for names in (["ip"], ["nsenter"], ["cc", "gcc", "clang"], HAPROXY, NGINX):
        need_program(*names)
    if os.geteuid() != 0:
        pytest.skip("no network namespaces of our own here: run `sudo make test-all`")
    # Some containers give root no network devices, and no command provides them: then there are no far validators.
    has_delays = Path("/dev/net/tun").exists()
    arguments = [
        f"--validators={2 if has_delays else ''}",
        f"--delays=1,{DELAY_MS}",
        "--load=40",
        "--paced=8",
        "--read-nodes=1",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "bench.scale", *arguments, "--read-seconds=0.3", f"--output={scratch}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=clean_environment({"TMPDIR": str(scratch)}),
    )
    assert done.returncode == 0, done.stderr
    figures = Figures.load(scratch / "scale.json")
    assert [(row.nodes, row.proxy) for row in figures.reads] == [(1, ""), (1, "haproxy"), (1, "nginx")]
    assert all(row.per_s > 0 for row in figures.reads)
    if not has_delays:
        return
    near, far = figures.validators
    assert near.confirmed_per_s > 0
    assert near.block_packets > 0
    # Both must vote, and each waits for the other's vote on the proposal.
    assert far.confirmed_p50_s >= 2 * DELAY_MS / 1_000
    assert far.dropped_packets == 0
    assert f"| 2 | {DELAY_MS} ms |" in (scratch / "scale.md").read_text()
