"""The simulation as part of the tests: seeds that found a defect of the node, and that a seed decides everything.

`make simulate` also runs those that found one of the simulator.
"""

import pytest

from tests.simulation.__main__ import known_seeds_of_the_node
from tests.simulation.command import run

BATCHES = 6
"""Known seeds share so many processes: starting one for each takes long, and several can run at once."""


@pytest.mark.parametrize("batch", range(BATCHES))
def test_the_seeds_that_failed_once_pass(batch: int) -> None:
    seeds = [argument for seed in known_seeds_of_the_node()[batch::BATCHES] for argument in ("--first", str(seed))]
    only_these = ("--no-known", "--count", "0", "--hash-seed", "0", "--shrink", "0", "--keep-going")
    code, output = run(*only_these, *seeds)
    assert code == 0, output


@pytest.mark.parametrize("seed", [8, 3])
def test_one_seed_is_one_run_in_whatever_order_sets_are_walked(seed: int) -> None:
    traces = set()
    # Another order is also another run: whatever else differs from run to run would show, too.
    for hash_seed in (0, 2**32 - 1):
        code, output = run("--seed", str(seed), "--hash-seed", str(hash_seed))
        assert code == 0, output
        said, _, trace = output.rpartition("trace")
        assert said
        traces.add(trace)
    assert len(traces) == 1
