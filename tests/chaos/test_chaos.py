"""Some faults of every kind, in a fresh order each time; `make chaos` is the long run."""

import os
import random
from pathlib import Path

from tests.chaos.chaos import ChaosRun, run_chaos
from tests.chaos.shim import COMPILERS
from tests.support.programs import need_program

SECONDS = float(os.environ.get("CHAOS_SECONDS", "30"))


def test_a_node_keeps_its_promises_under_faults(tmp_path: Path) -> None:
    seed_number = int(os.environ.get("CHAOS_SEED", random.SystemRandom().randrange(2**32)))
    print(f"CHAOS_SEED={seed_number}")
    run = ChaosRun(seed_number)
    try:
        run_chaos(run, SECONDS, tmp_path, need_program(*COMPILERS))
    finally:
        print("\n".join(run.steps))
    assert run.reverts + run.undone_reverts
