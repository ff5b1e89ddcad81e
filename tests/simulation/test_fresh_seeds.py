"""The simulation with seeds that nobody has tried: two minutes of them in CI, a few seconds elsewhere."""

import os

from tests.simulation.command import run

SECONDS = 120 if os.environ.get("CI") == "true" else 10


def test_fresh_seeds_are_clean() -> None:
    code, output = run("--no-known", "--seconds", str(SECONDS))
    assert code == 0, output
