"""Some kills of the whole node in a row; `make kills` is the long run. At the end every block is computed again."""

import os
import random
import threading
from pathlib import Path

from cairn.domain.genesis import dev_genesis
from tests.chaos.kills import KillRun, run_kills
from tests.support.public import PublicNode
from tests.support.replay import raw, replay_chain

KILLS = 10
LONGEST_S = 300.0
"""A machine that has other work kills less often."""


def test_nothing_accepted_is_lost_in_a_crash(disk_path: Path) -> None:
    seed_number = int(os.environ.get("CRASH_SEED", random.SystemRandom().randrange(2**32)))
    print(f"CRASH_SEED={seed_number}")
    run = KillRun(seed_number)

    def check_replayed(node: PublicNode) -> None:
        """Every hash links back to genesis, and balances are what the domain's functions make of the blocks."""
        genesis = dev_genesis()
        replay = replay_chain(node, genesis)
        # Of what was accepted, some was replaced: `finish` has compared the places.
        assert replay.heights == run.ledger.heights
        assert sum(account.balance for account in replay.accounts.values()) == sum(genesis.alloc.values())
        for address, account in replay.accounts.items():
            shown = node.read(f"/account/0x{address.hex()}")
            assert raw(shown["address"]) == address
            assert (shown["balance"], shown["nonce"], shown["pendingNonce"]) == (
                account.balance,
                account.nonce,
                account.nonce,
            )

    late = threading.Timer(LONGEST_S, run.ended.set)
    late.start()
    try:
        run_kills(run, KILLS, disk_path / "chain", check_replayed)
    finally:
        late.cancel()
    assert run.kills
