"""The simulation as part of the tests: the seeds that failed once, and that a seed decides everything."""

import pytest

from tests.simulation.__main__ import known_seeds
from tests.simulation.command import run


@pytest.mark.parametrize("seed", known_seeds())
def test_a_seed_that_failed_once_passes(seed: int) -> None:
    code, output = run("--seed", str(seed))
    assert code == 0, output


@pytest.mark.parametrize("seed", [8, 3])
def test_one_seed_is_one_run_in_whatever_order_sets_are_walked(seed: int) -> None:
    traces = set()
    # Another order is also another run: whatever else differs from run to run would show, too.
    for hash_seed in (0, 1, 2**32 - 1):
        code, output = run("--seed", str(seed), "--hash-seed", str(hash_seed))
        assert code == 0, output
        said, _, trace = output.rpartition("trace")
        assert said
        traces.add(trace)
    assert len(traces) == 1
