"""Some kills in a network under load, in a fresh order each time; `make kills` is the long run."""

import os
import random
from pathlib import Path

from tests.chaos.network_kills import NetworkRun, run_network_kills

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "3"))


def test_nothing_that_a_killed_validator_accepted_is_lost(cometbft_tools: Path, scratch: Path) -> None:
    seed_number = int(os.environ.get("CRASH_SEED", random.SystemRandom().randrange(2**32)))
    print(f"CRASH_SEED={seed_number}")
    run = NetworkRun(seed_number)
    try:
        run_network_kills(run, ROUNDS, scratch / "network")
    finally:
        print(dict(run.rounds), f"{run.took_s:.0f} s, {len(run.ledger.accepted)} accepted")
    assert run.ledger.split_places, "no replacement went to another node"
