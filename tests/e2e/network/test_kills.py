"""Some kills and faults in a network under load, in a fresh order each time.

`make kills`, `make chaos` and `make soak` are the long runs.
"""

import os
import random
import time
from pathlib import Path

from tests.chaos import network_soak
from tests.chaos.network_chaos import take_steps
from tests.chaos.network_run import Stage, run_network
from tests.chaos.shim import COMPILERS
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S
from tests.support.programs import need_program

FAULTS_S = float(os.environ.get("CRASH_SECONDS", "0"))
"""At least one fault and one kill happen."""
SOAK_S = 6.0


def test_transfers_accepted_by_a_killed_validator_are_not_lost(cometbft_tools: Path, scratch: Path) -> None:
    seed_number = int(os.environ.get("CRASH_SEED", random.SystemRandom().randrange(2**32)))
    print(f"CRASH_SEED={seed_number}")
    need_program(*COMPILERS)
    run = network_soak.NetworkSoakRun(seed_number)

    def live(stage: Stage) -> None:
        take_steps(stage, time.monotonic() + FAULTS_S)
        network_soak.live(run, stage, SOAK_S)
        wait_until(lambda: bool(run.network.ledger.split_places), PATIENCE_S, "a replacement to go to another node")

    try:
        run_network(run.network, scratch / "network", live, network_soak.check_left)
    finally:
        done = run.network
        print(dict(done.times), f"{done.took_s:.0f} s, {len(done.ledger.accepted)} accepted")
    run.check()
