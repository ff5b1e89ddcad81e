"""A node under mixed load for long: transfers, reads, sockets that come and go, kills; then no kills, then a rest.

    make soak MINUTES=30
    make soak MINUTES=5 SEED=1234
    make soak MINUTES=5 NETWORK=2          so many of the minutes on a network; a quarter unless set, 0 for none

In the first half workers and the core are killed now and then, the power fails where there is a C compiler, and the
chain goes back to a snapshot. In the second half nothing is done, so that growth can be seen: it lasts until memtables
were written out in each third of it, however long that takes. What a process holds in the last third, at its lowest,
must not be more than in the third before. At rest no connection may be left. The ledger must be exact. Then a network
lives in the same way (network_soak.py). The report goes to reports/soak.md.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.faults import Fault, Kill, Power
from tests.chaos.growth import LOOK_S, QUIET_TRANSFERS, Watch
from tests.chaos.ledger import Ledger, PatientNode
from tests.chaos.load import Load, dev_ledger, make_senders
from tests.chaos.network_soak import NetworkSoakRun, run_network_soak
from tests.chaos.network_soak import sections as network_sections
from tests.chaos.node import ChaosNode
from tests.chaos.node_log import LoggedError, check_explained, count_names
from tests.chaos.node_log import sections as error_sections
from tests.chaos.promises import await_accepted, await_progress, check_end, follow_some
from tests.chaos.report import end_on_sigterm, facts, failure_of, write_report
from tests.chaos.reverts import Reverts
from tests.chaos.shim import Shim, find_compiler
from tests.chaos.traffic import Traffic
from tests.chaos.usage import Usage, UsageLog, held_connections
from tests.support.follower import Follower
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S
from tests.support.scratch import scratch_parent

PAUSE_S = 0.2
"""Between two bursts of a sender, on average: some three hundred transfers a second in all."""
BETWEEN_KILLS_S = (5.0, 25.0)
POWER = 0.25
"""So many of the kills are losses of power."""
REVERT = 0.3
"""After so many of the kills the chain goes back to a snapshot."""
CHECK_S = 30.0
"""Between two looks at the ledger."""


@dataclass
class SoakRun:
    """What has happened so far."""

    seed_number: int
    ledger: Ledger = field(default_factory=dev_ledger)
    watch: Watch = field(default_factory=Watch)
    kills: Counter[str] = field(default_factory=Counter)
    reverts: int = 0
    answers: Counter[int] = field(default_factory=Counter)
    sockets: int = 0
    events: int = 0
    took_s: float = 0.0
    errors: list[LoggedError] = field(default_factory=list)
    """What the node's processes printed of errors."""
    at_start: dict[str, Usage] = field(default_factory=dict)
    """What each process held before anybody came."""
    at_rest: dict[str, Usage] = field(default_factory=dict)
    """The same after everybody had left."""


def run_soak(run: SoakRun, seconds: float, directory: Path, quiet_transfers: int = 0) -> None:
    """The quiet half has so many transfers at least. Raises at the first promise that is broken."""
    began = time.monotonic()
    senders = make_senders(run.seed_number, run.ledger)
    compiler = find_compiler()
    shim = None if compiler is None else Shim(directory, directory / "chain", compiler)
    with ChaosNode(directory / "chain", shim) as node:
        try:
            node.await_ready()
            run.at_start = held(node)
            told = [Follower(node.url)]
            try:
                follow_some(senders, told)
                with (
                    Load(senders, node.url, PAUSE_S) as load,
                    Traffic(node.url, run.ledger, run.seed_number) as traffic,
                ):
                    soak = Soak(run, node, load, traffic, Reverts(node, load, senders, told))
                    soak.live_with_kills(seconds / 2)
                    soak.live_quietly(seconds / 2, quiet_transfers)
                run.answers, run.sockets, run.events = traffic.answers, traffic.sockets, traffic.events
                check_end_of_load(run, node)
                check_end(node, senders, told[0], run.ledger)
            finally:
                told[0].close()
            run.watch.check()
        except Exception as failure:
            failure.add_note(f"the node's log ends with:\n{node.log()}")
            raise
        finally:
            run.took_s = time.monotonic() - began
            node.note_errors()
            run.errors = node.errors
    check_explained(run.errors)


class Soak:
    """A node and its clients while time passes."""

    def __init__(self, run: SoakRun, node: ChaosNode, load: Load, traffic: Traffic, reverts: Reverts) -> None:
        self._run, self._node, self._load, self._traffic, self._reverts = run, node, load, traffic, reverts
        self._dice = random.Random(run.seed_number)
        self._next_check_s = run.watch.usage.now_s + CHECK_S

    def live_with_kills(self, seconds: float) -> None:
        usage = self._run.watch.usage
        end_s, next_kill_s = usage.now_s + seconds, usage.now_s + self._dice.uniform(*BETWEEN_KILLS_S)
        self._go_back()
        while usage.now_s < end_s:
            self._live()
            if next_kill_s < usage.now_s < end_s:
                self._kill_one()
                if self._dice.random() < REVERT:
                    self._go_back()
                next_kill_s = usage.now_s + self._dice.uniform(*BETWEEN_KILLS_S)

    def _go_back(self) -> None:
        """Live for a moment that then is void."""
        mark = self._reverts.mark(self._run.ledger)
        self._live()
        self._reverts.go_back(mark, self._run.ledger, None)
        self._run.reverts = self._reverts.done

    def live_quietly(self, seconds: float, transfers: int) -> None:
        run, watch, began = self._run, self._run.watch, len(self._run.ledger.accepted)
        end_s = watch.usage.now_s + seconds
        while watch.usage.now_s < end_s or watch.quiet_transfers < transfers:
            self._live()
            watch.quiet = (began, len(run.ledger.accepted))
        wait_until(self._traffic.was_served, PATIENCE_S, "a reader and a socket to be served")

    def _live(self) -> None:
        """A moment: the load goes on, and now and then the ledger is compared with the node."""
        run, usage = self._run, self._run.watch.usage
        self._node.tend_for(LOOK_S)
        usage.look(self._node.process, len(run.ledger.accepted))
        self._traffic.check()
        await_accepted(self._node, self._load, run.ledger)
        if self._next_check_s < usage.now_s:
            with closing(PatientNode(self._node.url)) as reader:
                run.ledger.check_kept(reader)
            self._next_check_s = usage.now_s + CHECK_S

    def _kill_one(self) -> None:
        kill = self._draw_kill()
        kill.begin(self._node)
        self._run.kills[kill.kind] += 1
        self._node.await_ready()
        await_progress(self._node, self._load, self._run.ledger)

    def _draw_kill(self) -> Fault:
        if self._node.shim is not None and self._dice.random() < POWER:
            return Power(self._dice.randrange(2**63))
        return Kill(self._dice.choice(("worker", "worker", "core")), self._dice.randrange(2))


def held(node: ChaosNode) -> dict[str, Usage]:
    """What each process holds now."""
    log = UsageLog()
    log.look(node.process, 0)
    return {name: samples[-1] for name, samples in log.samples.items()}


def check_end_of_load(run: SoakRun, node: ChaosNode) -> None:
    """Everybody but the follower has left."""
    port = int(node.url.rpartition(":")[2])
    wait_until(lambda: held_connections(port) <= 1, PATIENCE_S, "connections of clients that left to be let go of")
    run.at_rest = held(node)


def shown_usage(usages: dict[str, Usage]) -> str:
    return ", ".join(
        f"{name}: {usage.rss_mb:.0f} MB, {usage.files} files, {usage.others} others"
        for name, usage in sorted(usages.items())
    )


def sections(run: SoakRun, failure: str | None) -> list[str]:
    ledger = run.ledger
    counts = facts(
        {
            "seed": str(run.seed_number),
            "seconds": run.took_s,
            "transfers answered 200": len(ledger.accepted),
            "answered 503, sent again": ledger.refused,
            "never answered, sent again": ledger.lost,
            "lost or doubled": "none" if failure is None else "see above",
            "answered 200 in the quiet half": run.watch.quiet_transfers,
            "growth": "none"
            if run.watch.shows_growth and failure is None
            else "see above"
            if failure
            else "not looked for",
            "blocks": len(ledger.block_hashes),
            "kills": run.kills,
            "reverts to a snapshot": run.reverts,
            "reads, by status": run.answers,
            "sockets that came and went": run.sockets,
            "messages that they were sent": run.events,
            "held before the load": shown_usage(run.at_start),
            "held after it": shown_usage(run.at_rest),
            "errors in its log": count_names(run.errors),
        }
    )
    over_time = ["\n### Over time\n", run.watch.over_time()]
    return [counts, *run.watch.sections(), *over_time, *error_sections(run.errors)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--network", type=float, help="minutes of them on a network; a quarter unless set")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    end_on_sigterm()
    print(f"soak: SEED={options.seed}", flush=True)
    network_minutes = options.minutes / 4 if options.network is None else options.network
    run = SoakRun(options.seed)
    seconds = (options.minutes - network_minutes) * 60
    with tempfile.TemporaryDirectory(prefix="cairn-soak-") as directory:
        told = failure_of(lambda: run_soak(run, seconds, Path(directory), QUIET_TRANSFERS))
    found = sections(run, told)
    if network_minutes:
        network = NetworkSoakRun(options.seed)
        with tempfile.TemporaryDirectory(prefix="cairn-soak-", dir=scratch_parent()) as directory:
            path = Path(directory) / "network"
            failure = failure_of(lambda: run_network_soak(network, network_minutes * 60, path))
        told = "\n".join(filter(None, (told, failure))) or None
        found += network_sections(network)
    command = f"make soak MINUTES={options.minutes:g} NETWORK={network_minutes:g} SEED={options.seed}"
    print(write_report("soak", "Nodes under mixed load for long", command, found, told).read_text())
    sys.exit(told is not None)


if __name__ == "__main__":
    main()
