"""Runs of the simulation that nobody has seen yet. One that fails is printed with the command that runs it again."""

import os

from tests.simulation.command import run

SECONDS = os.environ.get("SIMULATION_SECONDS", "120" if os.environ.get("CI") == "true" else "10")
"""However many seeds they are enough for: a slow machine tries fewer."""


def test_fresh_seeds_are_clean() -> None:
    code, output = run("--no-known", "--seconds", SECONDS)
    assert code == 0, output
