"""A short soak; `make soak` is the long one, in which memory has time to settle."""

import os
import random
from pathlib import Path

from tests.chaos.soak import SoakRun, run_soak

SECONDS = float(os.environ.get("SOAK_SECONDS", "20"))


def test_everything_is_kept_and_let_go_under_mixed_load(tmp_path: Path) -> None:
    seed_number = int(os.environ.get("SOAK_SEED", random.SystemRandom().randrange(2**32)))
    print(f"SOAK_SEED={seed_number}")
    run = SoakRun(seed_number)
    run_soak(run, SECONDS, tmp_path)
    assert run.reverts
