"""The simulation as part of the tests: the seeds that failed once, and defects that they must find when put back."""

import pytest

from tests.simulation.__main__ import known_seeds
from tests.simulation.command import run

SHOWN_BY = {
    "prune": ("account", "audit", "agreement", "exit"),
    "journal": ("damage",),
    "hang": ("hang",),
    "dropped": ("ending",),
}
"""How each defect comes to light."""


@pytest.mark.parametrize("seed", known_seeds())
def test_what_failed_once_is_clean(seed: int) -> None:
    code, output = run("--seed", str(seed))
    assert code == 0, output


@pytest.mark.parametrize("defect", SHOWN_BY)
def test_a_defect_that_is_put_back_is_found(defect: str) -> None:
    code, output = run("--seconds", "0", "--shrink", "0", "--put-back", defect)
    assert code == 1, output
    assert any(f" s: {kind}: " in output for kind in SHOWN_BY[defect]), output


def test_one_seed_is_one_run() -> None:
    outputs = {run("--seed", "8") for _ in range(2)}
    assert len(outputs) == 1
    assert "trace" in outputs.pop()[1]
