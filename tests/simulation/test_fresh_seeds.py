"""The simulation with fresh seeds. They follow from the source, so that all who test the same source try the same."""

import os
import subprocess
from pathlib import Path

from tests.simulation.command import run

COUNT = 16 if os.environ.get("CI") == "true" else 3


def test_fresh_seeds_are_clean() -> None:
    code, output = run("--no-known", "--count", str(COUNT), "--base", str(_base_of_source()))
    assert code == 0, output


def _base_of_source() -> int:
    """Zero outside of a git checkout."""
    head = subprocess.run(["git", "rev-parse", "HEAD:src"], cwd=Path(__file__).parent, capture_output=True, text=True)
    return int(head.stdout[:8] or "0", 16)
