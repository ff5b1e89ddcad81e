"""A node under mixed load for long: transfers, reads, sockets that come and go, kills; then no kills, then a rest.

    make soak MINUTES=30
    make soak MINUTES=5 SEED=1234

In the first half workers and the core are killed now and then, and the chain goes back to a snapshot. In the second
half nothing is done, so that growth can be seen: it lasts until memtables were written out in each third of it, however
long that takes. What a process holds in the last third, at its lowest, must not be more than in the third before. At
rest no connection may be left. The ledger must be exact. The report goes to reports/soak.md.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.faults import Kill
from tests.chaos.ledger import Ledger, PatientNode
from tests.chaos.load import Load, dev_ledger, make_senders
from tests.chaos.node import ChaosNode
from tests.chaos.promises import await_accepted, await_progress, check_end, follow_some
from tests.chaos.report import end_on_sigterm, facts, failure_of, table, write_report
from tests.chaos.reverts import Reverts
from tests.chaos.traffic import Traffic
from tests.chaos.usage import Usage, UsageLog, held_connections
from tests.support.follower import Follower
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S

PAUSE_S = 0.2
"""Between two bursts of a sender, on average: some three hundred transfers a second in all."""
BETWEEN_KILLS_S = (5.0, 25.0)
REVERT = 0.3
"""After so many of the kills the chain goes back to a snapshot."""
LOOK_S = 1.0
CHECK_S = 30.0
"""Between two looks at the ledger."""
FLUSH_TRANSFERS = 45_000
"""Memtables fill up and are freed with so many transfers, and memory goes up and down by some 20 MB with them: it is at
its lowest once in as many. A peak says less: one large answer, or a client that reads slowly, is in it."""
QUIET_TRANSFERS = 3 * FLUSH_TRANSFERS
"""From here on the lowest of two thirds can be compared, on a fast machine and on a slow one."""
MOST_RSS_MB = 180.0
"""Of any process, ever: 40 of libraries and code; RocksDB's memtables and cache; caches of answers; and as much again
that the allocator keeps."""
SHOWN_SAMPLES = 12


@dataclass(frozen=True, slots=True)
class Measure:
    """Something that must not grow."""

    name: str
    of: Callable[[Usage], float]
    most_growth: float
    """From the second to the last third of the quiet half. A leak takes more: each third has thousands of transfers,
    and sockets by the hundred that come and go."""


MEASURES = (
    Measure("RSS, MB", lambda usage: usage.rss_mb, 8.0),
    Measure("stale files", lambda usage: usage.stale, 8.0),
    Measure("sockets and pipes", lambda usage: usage.others, 100.0),
)


@dataclass
class SoakRun:
    """What has happened so far."""

    seed_number: int
    ledger: Ledger = field(default_factory=dev_ledger)
    usage: UsageLog = field(default_factory=UsageLog)
    kills: Counter[str] = field(default_factory=Counter)
    reverts: int = 0
    answers: Counter[int] = field(default_factory=Counter)
    sockets: int = 0
    events: int = 0
    took_s: float = 0.0
    quiet: tuple[int, int] = (0, 0)
    """How many transfers were accepted when the half without kills began, and when it ended."""
    at_start: dict[str, Usage] = field(default_factory=dict)
    """What each process held before anybody came."""
    at_rest: dict[str, Usage] = field(default_factory=dict)
    """The same after everybody had left."""

    @property
    def quiet_transfers(self) -> int:
        return self.quiet[1] - self.quiet[0]

    @property
    def shows_growth(self) -> bool:
        """Whether the quiet half was long enough to tell growth from the ups and downs of memtables."""
        return self.quiet_transfers >= QUIET_TRANSFERS


def run_soak(run: SoakRun, seconds: float, directory: Path, quiet_transfers: int = 0) -> None:
    """The quiet half has so many transfers at least. Raises at the first promise that is broken."""
    began = time.monotonic()
    senders = make_senders(run.seed_number, run.ledger)
    with ChaosNode(directory / "chain") as node:
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
            check_usage(run)
        except Exception as failure:
            failure.add_note(f"the node's log ends with:\n{node.log()}")
            raise
        finally:
            run.took_s = time.monotonic() - began


class Soak:
    """A node and its clients while time passes."""

    def __init__(self, run: SoakRun, node: ChaosNode, load: Load, traffic: Traffic, reverts: Reverts) -> None:
        self._run, self._node, self._load, self._traffic, self._reverts = run, node, load, traffic, reverts
        self._dice = random.Random(run.seed_number)
        self._next_check_s = run.usage.now_s + CHECK_S

    def live_with_kills(self, seconds: float) -> None:
        usage = self._run.usage
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
        run, began = self._run, len(self._run.ledger.accepted)
        end_s = run.usage.now_s + seconds
        while run.usage.now_s < end_s or run.quiet_transfers < transfers:
            self._live()
            run.quiet = (began, len(run.ledger.accepted))
        wait_until(self._traffic.was_served, PATIENCE_S, "a reader and a socket to be served")

    def _live(self) -> None:
        """A moment: the load goes on, and now and then the ledger is compared with the node."""
        run = self._run
        self._node.tend_for(LOOK_S)
        run.usage.look(self._node.process, len(run.ledger.accepted))
        self._traffic.check()
        await_accepted(self._node, self._load, run.ledger)
        if self._next_check_s < run.usage.now_s:
            with closing(PatientNode(self._node.url)) as reader:
                run.ledger.check_kept(reader)
            self._next_check_s = run.usage.now_s + CHECK_S

    def _kill_one(self) -> None:
        kill = Kill(self._dice.choice(("worker", "worker", "core")), self._dice.randrange(2))
        kill.begin(self._node)
        self._run.kills[kill.kind] += 1
        self._node.await_ready()
        await_progress(self._node, self._load, self._run.ledger)


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


def check_usage(run: SoakRun) -> None:
    """Flat at the end, and never much."""
    for name in run.usage.names():
        highest = run.usage.peak(name, rss)
        assert highest < MOST_RSS_MB, f"{name} had {highest:.0f} MB"
    if run.shows_growth:
        for name, measure, before, last in quiet_thirds(run):
            assert last - before < measure.most_growth, (
                f"{name}, {measure.name}: grew from {before:.0f} to {last:.0f} and did not settle"
            )


def quiet_thirds(run: SoakRun) -> Iterator[tuple[str, Measure, float, float]]:
    """Of each process and measure the lowest in the second and in the last third of the half without kills."""
    first, last = run.quiet
    third = run.quiet_transfers // 3
    for name in run.usage.names():
        for measure in MEASURES:
            yield (
                name,
                measure,
                run.usage.trough(name, first + third, last - third, measure.of),
                run.usage.trough(name, last - third, last, measure.of),
            )


def rss(usage: Usage) -> float:
    return usage.rss_mb


def files(usage: Usage) -> float:
    return usage.files


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
            "answered 200 in the quiet half": run.quiet_transfers,
            "growth": "none" if run.shows_growth and failure is None else "see above" if failure else "not looked for",
            "blocks": len(ledger.block_hashes),
            "kills": run.kills,
            "reverts to a snapshot": run.reverts,
            "reads, by status": run.answers,
            "sockets that came and went": run.sockets,
            "messages that they were sent": run.events,
            "held before the load": shown_usage(run.at_start),
            "held after it": shown_usage(run.at_rest),
        }
    )
    peaks = table(
        ("process", "peak RSS, MB", "peak of open files"),
        [(name, run.usage.peak(name, rss), int(run.usage.peak(name, files))) for name in run.usage.names()],
    )
    growth = table(
        ("process", "held", "lowest in the second third of the quiet half", "in the last third", "may grow by"),
        [(name, measure.name, before, last, measure.most_growth) for name, measure, before, last in quiet_thirds(run)],
    )
    return [counts, "\n## Peaks\n", peaks, "\n## Growth\n", growth, "\n## Over time\n", over_time(run)]


def over_time(run: SoakRun) -> str:
    """RSS and descriptors of each process, a few times from the beginning to the end."""
    names = run.usage.names()
    ended_s = max((samples[-1].at_s for samples in run.usage.samples.values()), default=0.0) + LOOK_S
    rows = []
    for number in range(SHOWN_SAMPLES):
        first_s, last_s = (ended_s * part / SHOWN_SAMPLES for part in (number, number + 1))
        row: list[object] = [f"{last_s:.0f}"]
        for name in names:
            samples = run.usage.between(name, first_s, last_s)
            row.append(f"{samples[-1].rss_mb:.0f} MB, {samples[-1].files} + {samples[-1].others}" if samples else "")
        rows.append(row)
    return table(("second", *(f"{name}: RSS, files + others" for name in names)), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    end_on_sigterm()
    print(f"soak: SEED={options.seed}", flush=True)
    run = SoakRun(options.seed)
    with tempfile.TemporaryDirectory(prefix="cairn-soak-") as directory:
        told = failure_of(lambda: run_soak(run, options.minutes * 60, Path(directory), QUIET_TRANSFERS))
    command = f"make soak MINUTES={options.minutes:g} SEED={options.seed}"
    print(write_report("soak", "A node under mixed load for long", command, sections(run, told), told).read_text())
    sys.exit(told is not None)


if __name__ == "__main__":
    main()
