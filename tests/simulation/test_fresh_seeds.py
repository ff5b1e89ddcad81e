"""The simulation with fresh seeds. They follow from the source, so that all who test the same source try the same."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.simulation.command import run

BATCHES, COUNT = (4, 4) if os.environ.get("CI") == "true" else (1, 3)
"""So many processes, which several workers can run at once, and seeds in each."""


@pytest.mark.parametrize("batch", range(BATCHES))
def test_fresh_seeds_are_clean(batch: int) -> None:
    code, output = run("--no-known", "--count", str(COUNT), "--base", str(_base_of_source() + batch))
    assert code == 0, output


def _base_of_source() -> int:
    """Zero outside of a git checkout."""
    head = subprocess.run(["git", "rev-parse", "HEAD:src"], cwd=Path(__file__).parent, capture_output=True, text=True)
    return int(head.stdout[:8] or "0", 16)
