"""Faults of every kind on a real node under load, in a random order, until the time is over.

    make chaos SECONDS=1800
    make chaos SECONDS=60 SEED=1234        the same schedule again
    make chaos SECONDS=60 NETWORK=30       so many of the seconds on a network; a quarter unless set, 0 for none

Each round has every kind of fault once, on a node that was stopped cleanly and started in another way. Its first step
lies between a snapshot and a revert to it, half of the time with a kill in the middle of the revert. After each step
the node must come back by itself, take transfers and make blocks, and nothing of what the ledger says may be missing.
At the end everything that was accepted is in one block, once, a follower has been told of every block, and every
balance is right. Then the same steps are taken on validators of a network (network_chaos.py). An error in a log that no
fault explains fails the run at its end. The report goes to reports/chaos.md.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.ledger import Ledger, PatientNode
from tests.chaos.load import Load, dev_ledger, make_senders
from tests.chaos.network_chaos import run_network_chaos
from tests.chaos.network_run import NetworkRun
from tests.chaos.network_run import sections as network_sections
from tests.chaos.node import ChaosNode
from tests.chaos.node_log import LoggedError, check_explained, count_names
from tests.chaos.node_log import sections as error_sections
from tests.chaos.promises import await_accepted, await_progress, check_end, follow_some
from tests.chaos.report import end_on_sigterm, facts, failure_of, table, write_report
from tests.chaos.reverts import Reverts
from tests.chaos.schedule import Step, draw_rounds
from tests.chaos.shim import Shim, find_compiler
from tests.support.follower import Follower
from tests.support.scratch import scratch_parent

PAUSE_S = 0.2
"""Between two bursts of a sender, on average."""


@dataclass
class ChaosRun:
    """What has happened so far."""

    seed_number: int
    ledger: Ledger = field(default_factory=dev_ledger)
    rounds: int = 0
    steps: list[str] = field(default_factory=list)
    """And each beginning of a round."""
    times: Counter[str] = field(default_factory=Counter)
    struck: Counter[str] = field(default_factory=Counter)
    slowest_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """The longest way back to accepting transfers, by kind of fault."""
    reverts: int = 0
    undone_reverts: int = 0
    """Killed before they were decided."""
    took_s: float = 0.0
    starts: int = 0
    ended_alone: Counter[int] = field(default_factory=Counter)
    errors: list[LoggedError] = field(default_factory=list)
    """What the node's processes printed of errors."""

    def note(self, step: Step, back_after_s: float) -> None:
        for fault in step.faults:
            self.times[fault.kind] += 1
            self.struck[fault.kind] += fault.struck
            self.slowest_s[fault.kind] = max(self.slowest_s[fault.kind], back_after_s)


def run_chaos(run: ChaosRun, seconds: float, directory: Path, compiler: str) -> None:
    """Do faults to a node for so long. Raises `AssertionError` or `TimeoutError` at the first broken promise."""
    began = time.monotonic()
    data_dir = directory / "chain"
    senders = make_senders(run.seed_number, run.ledger)
    shim = Shim(directory, data_dir, compiler)
    with ChaosNode(data_dir, shim) as node:
        try:
            node.await_ready()
            told = [Follower(node.url)]
            try:
                follow_some(senders, told)
                with Load(senders, node.url, PAUSE_S) as load:
                    take_rounds(node, load, run, time.monotonic() + seconds, Reverts(node, load, senders, told))
                shim.step_clock(0)
                check_end(node, senders, told[0], run.ledger)
            finally:
                told[0].close()
        except Exception as failure:
            failure.add_note(f"the node's log ends with:\n{node.log()}")
            raise
        finally:
            run.took_s = time.monotonic() - began
            node.note_errors()
            run.starts, run.ended_alone, run.errors = node.starts, node.ended_alone, node.errors
    check_explained(run.errors)


def take_rounds(node: ChaosNode, load: Load, run: ChaosRun, deadline: float, reverts: Reverts) -> None:
    """Until the time is over; the first step is taken in any case."""
    for drawn in draw_rounds(run.seed_number):
        run.rounds += 1
        run.steps.append(str(drawn))
        node.restart(drawn.flags)
        for step in drawn.steps:
            if step.revert is None:
                take(step, node, load, run)
            else:
                mark = reverts.mark(run.ledger)
                take(step, node, load, run)
                reverts.go_back(mark, run.ledger, step.revert.killed_after_s)
                run.reverts, run.undone_reverts = reverts.done, reverts.undone
            if time.monotonic() > deadline:
                return


def take(step: Step, node: ChaosNode, load: Load, run: ChaosRun) -> None:
    """Do what the step says, and see the node come back."""
    run.steps.append(str(step))
    # What happens to what is pending is half of it.
    await_accepted(node, load, run.ledger)
    step.strike(node)
    ended = time.monotonic()
    node.await_ready()
    await_progress(node, load, run.ledger)
    run.note(step, time.monotonic() - ended)
    with closing(PatientNode(node.url)) as reader:
        run.ledger.check_kept(reader)
    node.note_errors()
    node.faults = ()


def sections(run: ChaosRun, failure: str | None) -> list[str]:
    ledger = run.ledger
    counts = facts(
        {
            "seed": str(run.seed_number),
            "seconds": run.took_s,
            "rounds, each on a node started in another way": run.rounds,
            "steps": len(run.steps) - run.rounds,
            "reverts to a snapshot": run.reverts,
            "reverts that a kill prevented": run.undone_reverts,
            "transfers signed": len(ledger.signed),
            "answered 200": len(ledger.accepted),
            "answered 503, sent again": ledger.refused,
            "never answered, sent again": ledger.lost,
            "lost or doubled": "none" if failure is None else "see above",
            "blocks": len(ledger.block_hashes),
            "lives of the node": run.starts,
            "lives that ended by themselves, by exit code": run.ended_alone,
            "errors in its log": count_names(run.errors),
        }
    )
    by_kind = table(
        ("fault", "times", "calls struck", "slowest way back, s"),
        [(kind, times, run.struck[kind], run.slowest_s[kind]) for kind, times in sorted(run.times.items())],
    )
    return [
        counts,
        "\n## By kind of fault\n",
        by_kind,
        "\n## The last steps\n",
        *(f"- {step}" for step in run.steps[-20:]),
        "",
        *error_sections(run.errors),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--network", type=float, help="seconds of them on a network; a quarter unless set")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    end_on_sigterm()
    compiler = find_compiler()
    if compiler is None:
        sys.exit("chaos: there is no C compiler here: install one, for example Debian's gcc")
    print(f"chaos: SEED={options.seed}", flush=True)
    network_s = options.seconds / 4 if options.network is None else options.network
    run = ChaosRun(options.seed)
    with tempfile.TemporaryDirectory(prefix="cairn-chaos-") as directory:
        told = failure_of(lambda: run_chaos(run, options.seconds - network_s, Path(directory), compiler))
    found = sections(run, told)
    if network_s:
        network = NetworkRun(options.seed)
        with tempfile.TemporaryDirectory(prefix="cairn-chaos-", dir=scratch_parent()) as directory:
            failure = failure_of(lambda: run_network_chaos(network, network_s, Path(directory) / "network"))
        told = "\n".join(filter(None, (told, failure))) or None
        found += network_sections(network)
    command = f"make chaos SECONDS={options.seconds:g} NETWORK={network_s:g} SEED={options.seed}"
    path = write_report("chaos", "Faults on real nodes", command, found, told)
    print(path.read_text())
    sys.exit(told is not None)


if __name__ == "__main__":
    main()
