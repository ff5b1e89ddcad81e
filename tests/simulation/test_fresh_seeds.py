"""The simulation with seeds that nobody has tried: each commit draws its own, so that a failure can be run again."""

import os
import subprocess
from pathlib import Path

from tests.simulation.command import run

COUNT = 16 if os.environ.get("CI") == "true" else 3


def test_fresh_seeds_are_clean() -> None:
    code, output = run("--no-known", "--count", str(COUNT), "--base", str(_base_of_commit()))
    assert code == 0, output


def _base_of_commit() -> int:
    """Zero outside of a git checkout."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True)
    return int(head.stdout[:8] or "0", 16)
