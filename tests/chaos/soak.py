"""A node under mixed load for long: transfers, reads, sockets that come and go, kills; then no kills, then a rest.

    make soak MINUTES=30
    make soak MINUTES=5 SEED=1234

In the first half workers and the core are killed now and then. In the second half nothing is, so that memory can be
watched: its peak in the last third of that half must not be above the peak of the third before, which half an hour is
long enough to show. At rest no connection may be left. The ledger must be exact. The report goes to reports/soak.md.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.faults import Kill
from tests.chaos.ledger import Ledger, PatientNode
from tests.chaos.load import Load, dev_ledger, make_senders
from tests.chaos.node import ChaosNode
from tests.chaos.promises import await_progress, check_end, follow_some
from tests.chaos.report import end_on_sigterm, facts, failure_of, table, write_report
from tests.chaos.traffic import Traffic
from tests.chaos.usage import Usage, UsageLog
from tests.support.follower import Follower
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S

PAUSE_S = 0.2
"""Between two bursts of a sender, on average: some three hundred transfers a second in all."""
BETWEEN_KILLS_S = (5.0, 25.0)
LOOK_S = 1.0
CHECK_S = 30.0
"""Between two looks at the ledger."""
MOST_GROWTH_MB = 8.0
"""Of a process's peak, from one third of the quiet half to the next."""
MOST_RSS_MB = 180.0
"""Of any process, ever: 40 of libraries and code; RocksDB's memtables and cache; caches of answers; and as much again
that the allocator keeps."""
FLUSH_TRANSFERS = 45_000
"""Memtables fill up and are freed with so many transfers, and memory goes up and down by some 20 MB with them. Only
where each third of the quiet half has seen that do their peaks compare."""
SHOWN_SAMPLES = 12


@dataclass
class SoakRun:
    """What has happened so far."""

    seed_number: int
    ledger: Ledger = field(default_factory=dev_ledger)
    usage: UsageLog = field(default_factory=UsageLog)
    kills: Counter[str] = field(default_factory=Counter)
    answers: Counter[int] = field(default_factory=Counter)
    sockets: int = 0
    events: int = 0
    took_s: float = 0.0
    quiet_s: tuple[float, float] = (0.0, 0.0)
    """When the half without kills began and ended."""
    before_quiet: int = 0
    """Transfers that were accepted by then."""
    at_start: dict[str, int] = field(default_factory=dict)
    """Descriptors other than files that each process had before anybody came."""
    at_rest: dict[str, int] = field(default_factory=dict)
    """The same after everybody had left."""


def run_soak(run: SoakRun, seconds: float, directory: Path) -> None:
    """Raises `AssertionError` or `TimeoutError` at the first promise that is broken."""
    began = time.monotonic()
    senders = make_senders(run.seed_number, run.ledger)
    with ChaosNode(directory / "chain") as node:
        try:
            node.await_ready()
            run.at_start = connections(node)
            with Follower(node.url) as follower:
                follow_some(senders, follower)
                with (
                    Load(senders, node.url, PAUSE_S) as load,
                    Traffic(node.url, run.ledger, run.seed_number) as traffic,
                ):
                    live(run, node, load, traffic, seconds)
                run.answers, run.sockets, run.events = traffic.answers, traffic.sockets, traffic.events
                check_end_of_load(run, node, follower)
                check_end(node, senders, follower, run.ledger)
            check_memory(run)
        except Exception as failure:
            failure.add_note(f"the node's log ends with:\n{node.log()}")
            raise
        finally:
            run.took_s = time.monotonic() - began


def live(run: SoakRun, node: ChaosNode, load: Load, traffic: Traffic, seconds: float) -> None:
    began = run.usage.now_s
    dice = random.Random(run.seed_number)
    half_s = began + seconds / 2
    run.quiet_s = (half_s, began + seconds)
    next_kill_s, next_check_s = began + dice.uniform(*BETWEEN_KILLS_S), began + CHECK_S
    while run.usage.now_s < began + seconds:
        node.tend_for(LOOK_S)
        run.usage.look(node.process)
        load.check()
        traffic.check()
        if run.usage.now_s < half_s:
            run.before_quiet = len(run.ledger.accepted)
        if next_kill_s < run.usage.now_s < half_s:
            kill_one(run, node, load, dice)
            next_kill_s = run.usage.now_s + dice.uniform(*BETWEEN_KILLS_S)
        if next_check_s < run.usage.now_s:
            check_kept(run, node)
            next_check_s = run.usage.now_s + CHECK_S


def kill_one(run: SoakRun, node: ChaosNode, load: Load, dice: random.Random) -> None:
    kill = Kill(dice.choice(("worker", "worker", "core")), dice.randrange(2))
    kill.begin(node)
    run.kills[kill.kind] += 1
    node.await_ready()
    await_progress(node, load, run.ledger)


def check_kept(run: SoakRun, node: ChaosNode) -> None:
    reader = PatientNode(node.url)
    run.ledger.check_kept(reader)
    reader.close()


def connections(node: ChaosNode) -> dict[str, int]:
    """Descriptors other than files, of each process."""
    log = UsageLog()
    log.look(node.process)
    return {name: samples[-1].others for name, samples in log.samples.items()}


def check_end_of_load(run: SoakRun, node: ChaosNode, follower: Follower) -> None:
    """Everybody but the follower has left: its connection alone may be there more than at the start."""
    allowed = sum(run.at_start.values()) + 1

    def is_at_rest() -> bool:
        run.at_rest = connections(node)
        return sum(run.at_rest.values()) <= allowed

    try:
        wait_until(is_at_rest, PATIENCE_S, "")
    except TimeoutError:
        raise AssertionError(f"connections are left: {run.at_rest}, at the start there were {run.at_start}") from None
    run.usage.look(node.process)


def check_memory(run: SoakRun) -> None:
    """Flat at the end, and never much."""
    for name in run.usage.names():
        highest = run.usage.peak(name, 0, run.took_s or run.usage.now_s, rss)
        assert highest < MOST_RSS_MB, f"{name} had {highest:.0f} MB"
        if shows_growth(run):
            before, last = quiet_peaks(run, name, rss)
            assert last - before < MOST_GROWTH_MB, f"{name} grew from {before:.0f} to {last:.0f} MB and did not settle"


def quiet_transfers(run: SoakRun) -> int:
    return len(run.ledger.accepted) - run.before_quiet


def shows_growth(run: SoakRun) -> bool:
    """Whether the quiet half was long enough to tell growth from the ups and downs of memtables."""
    return quiet_transfers(run) >= 3 * FLUSH_TRANSFERS


def quiet_peaks(run: SoakRun, name: str, of: Callable[[Usage], float]) -> tuple[float, float]:
    """In the second and in the last third of the half without kills."""
    first_s, last_s = run.quiet_s
    third_s = (last_s - first_s) / 3
    return (
        run.usage.peak(name, first_s + third_s, last_s - third_s, of),
        run.usage.peak(name, last_s - third_s, last_s, of),
    )


def rss(usage: Usage) -> float:
    return usage.rss_mb


def files(usage: Usage) -> float:
    return usage.files


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
            "in the quiet half": quiet_transfers(run),
            "growth of memory": "checked" if shows_growth(run) else "not checked: too few transfers",
            "blocks": len(ledger.block_hashes),
            "kills": run.kills,
            "reads, by status": run.answers,
            "sockets that came and went": run.sockets,
            "messages that they were sent": run.events,
            "sockets, pipes and the like before": run.at_start,
            "and after": run.at_rest,
        }
    )
    peaks = table(
        ("process", "peak RSS, MB", "second third of the quiet half", "last third", "peak of open files"),
        [
            (
                name,
                run.usage.peak(name, 0, run.took_s, rss),
                *quiet_peaks(run, name, rss),
                int(run.usage.peak(name, 0, run.took_s, files)),
            )
            for name in run.usage.names()
        ],
    )
    return [counts, "\n## Memory\n", peaks, "\n## Over time\n", over_time(run)]


def over_time(run: SoakRun) -> str:
    """RSS and descriptors of each process, a few times from the beginning to the end."""
    names = run.usage.names()
    rows = []
    for number in range(SHOWN_SAMPLES):
        first_s, last_s = (run.quiet_s[1] * part / SHOWN_SAMPLES for part in (number, number + 1))
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
        told = failure_of(lambda: run_soak(run, options.minutes * 60, Path(directory)))
    command = f"make soak MINUTES={options.minutes:g} SEED={options.seed}"
    print(write_report("soak", "A node under mixed load for long", command, sections(run, told), told).read_text())
    sys.exit(told is not None)


if __name__ == "__main__":
    main()
