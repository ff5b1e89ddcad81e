"""Kill the whole node at random moments under load, again and again: nothing that it accepted is lost or doubled.

    make kills KILLS=1000
    make kills KILLS=20 SEED=1234          the same moments again, as far as the machine allows

Every fourth time it is also killed while it starts. The report goes to reports/kills.md.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.ledger import Ledger
from tests.chaos.load import Sender, dev_ledger, finish_all, make_senders
from tests.chaos.report import described, end_on_sigterm, facts, write_report
from tests.support.node_process import NodeProcess
from tests.support.public import PublicNode

MOST_ANSWERS = 150
"""In one life: more than one block's worth."""
LONGEST_SILENCE_S = 0.2
"""Up to two blocks, so that a life may also end when nothing happens."""
START_S = 1.0
"""A start that is killed has had up to so long."""
FLAGS = ("--block-time", "0.1", "--workers")
"""And how many: one, or two, through which transfers of one sender overtake each other."""
SHOWN_EVERY = 50


@dataclass
class KillRun:
    """What has happened so far."""

    seed_number: int
    ledger: Ledger = field(default_factory=dev_ledger)
    kills: int = 0
    killed_starts: int = 0
    slowest_start_s: float = 0.0
    took_s: float = 0.0


def run_kills(
    run: KillRun, kills: int, data_dir: Path, at_end: Callable[[PublicNode], None] = lambda node: None
) -> None:
    """Raises `AssertionError` at the first thing that is lost. `at_end` looks at what is left when all is confirmed."""
    began = time.monotonic()
    dice = random.Random(run.seed_number)
    senders = make_senders(run.seed_number, run.ledger)
    try:
        for number in range(kills):
            if number % 4 == 3:
                kill_start(data_dir, dice, run)
            with started(data_dir, 1 + number % 2, run) as process:
                node = PublicNode(process.url)
                run.ledger.check_kept(node)
                node.close()
                asyncio.run(load_until_killed(process, senders, run.ledger, dice))
            run.kills += 1
            if run.kills % SHOWN_EVERY == 0:
                print(f"{run.kills} kills, {len(run.ledger.accepted)} accepted", flush=True)
        with started(data_dir, 2, run) as process:
            finish(process, senders, run.ledger, at_end)
    finally:
        run.took_s = time.monotonic() - began


def started(data_dir: Path, workers: int, run: KillRun) -> NodeProcess:
    began = time.monotonic()
    process = NodeProcess.start_dev(*FLAGS, str(workers), data_dir=data_dir)
    run.slowest_start_s = max(run.slowest_start_s, time.monotonic() - began)
    return process


def kill_start(data_dir: Path, dice: random.Random, run: KillRun) -> None:
    """Recovery itself must survive a crash."""
    with NodeProcess.start(("dev", "--port", "0", "--data-dir", str(data_dir), *FLAGS, "1")) as starting:
        time.sleep(dice.uniform(0, START_S))
        starting.kill_group()
    run.killed_starts += 1


async def load_until_killed(node: NodeProcess, senders: list[Sender], ledger: Ledger, dice: random.Random) -> None:
    """A life is as long as its answers take: a slow machine makes it longer, not emptier."""
    enough = len(ledger.accepted) + dice.randrange(MOST_ANSWERS)
    async with asyncio.TaskGroup() as group:
        for sender in senders:
            group.create_task(sender.run(node.url))
        while len(ledger.accepted) < enough and node.is_running:
            await asyncio.sleep(0.005)
        await asyncio.sleep(dice.uniform(0, LONGEST_SILENCE_S))
        node.kill_group()


def finish(process: NodeProcess, senders: list[Sender], ledger: Ledger, at_end: Callable[[PublicNode], None]) -> None:
    """Whatever was signed is confirmed, exactly once, and the balances follow from it."""
    node = PublicNode(process.url)
    ledger.check_kept(node)
    finish_all(senders, process.url)
    node.await_idle()
    ledger.check_final(node)
    assert ledger.signed.keys() == ledger.heights.keys(), "something that was signed is not confirmed"
    at_end(node)
    node.close()
    assert process.stop() == 0, process.stderr


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    end_on_sigterm()
    print(f"kills: SEED={options.seed}", flush=True)
    run = KillRun(options.seed)
    told: str | None = None
    with tempfile.TemporaryDirectory(prefix="cairn-kills-") as directory:
        try:
            run_kills(run, options.kills, Path(directory, "chain"))
        except (AssertionError, TimeoutError) as broken:
            told = described(broken)
    ledger = run.ledger
    counts = facts(
        {
            "seed": str(run.seed_number),
            "seconds": run.took_s,
            "kills under load": run.kills,
            "kills of a starting node": run.killed_starts,
            "transfers answered 200": len(ledger.accepted),
            "never answered, sent again": ledger.lost,
            "lost or doubled": "none" if told is None else "see above",
            "blocks": len(ledger.block_hashes),
            "slowest start until /ready is 200, s": run.slowest_start_s,
        }
    )
    command = f"make kills KILLS={options.kills} SEED={options.seed}"
    print(write_report("kills", "Kills in a row, under load", command, [counts], told).read_text())
    sys.exit(told is not None)


if __name__ == "__main__":
    main()
