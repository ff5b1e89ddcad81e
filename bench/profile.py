"""Where the CPU time of a transaction goes, function by function, in the worker and in the core.

    make profile

A node is put under the load of `make bench`, once as it is, for what a transaction costs, and once with a sampler in
each of its processes (`bench/sampler`), for how that is shared. Time of C code and of the kernel belongs to the Python
function that called it; time between two Python functions, as in the event loop, to the one that runs the loop.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from bench.machine import this_machine
from bench.node import BenchNode, make_home
from bench.phases import LoadCost, measure_load, split
from bench.workload import bench_genesis, presign

ACCOUNTS = 1_000
SHOWN = 18
"""Functions of each process."""
SAMPLER = Path(__file__).parent / "sampler"
REPORT = Path(__file__).parents[1] / "reports" / "profile.md"
SOURCE = "src/cairn/"


@dataclass(frozen=True, slots=True)
class Profile:
    """Samples by function, of one kind of process."""

    process: str
    seen: Counter[str]

    def shares(self) -> list[tuple[str, float]]:
        """The functions with the greatest shares first, and what all others have together."""
        most = self.seen.most_common(SHOWN)
        total = self.seen.total()
        rest = total - sum(count for _, count in most)
        return [(name, count / total) for name, count in most] + [
            (f"{len(self.seen) - len(most)} others", rest / total)
        ]


def measure(transactions: int) -> tuple[LoadCost, list[Profile]]:
    plain, sampled = split(presign(2 * transactions, ACCOUNTS), 2)
    with tempfile.TemporaryDirectory(prefix="cairn-profile-") as scratch:
        home, samples = Path(scratch, "home"), Path(scratch, "samples")
        samples.mkdir()
        make_home(home, bench_genesis(ACCOUNTS))
        with BenchNode(home) as node:
            node.await_quiet()
            cost = measure_load(node, plain)
        with BenchNode(home, env={"PYTHONPATH": str(SAMPLER), "SAMPLES_DIR": str(samples)}) as node:
            measure_load(node, sampled)
        return cost, read_profiles(samples)


def read_profiles(samples: Path) -> list[Profile]:
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for path in samples.iterdir():
        of_process = json.loads(path.read_text())
        kind = "core" if of_process["process"] == "cairn-core" else "worker"
        seen[kind].update({short_name(name): count for name, count in of_process["seen"].items()})
    return [Profile(kind, seen[kind]) for kind in ("worker", "core")]


def short_name(name: str) -> str:
    """Ours by their path in the source, others by their last two."""
    file, _, function = name.rpartition(":")
    _, ours, path = file.rpartition(SOURCE)
    return f"{path if ours else '/'.join(Path(file).parts[-2:])}: {function}"


def report(cost: LoadCost, profiles: list[Profile], transactions: int) -> str:
    lines = [
        "# Where the CPU time of a transaction goes",
        "",
        f"`make profile`: {transactions:,} transfers over 64 connections to one worker, from the first byte to",
        f"the block that is on disk. Machine: {this_machine()}.",
        "",
        f"A transaction costs {cost.cpu_us:.0f} us of CPU: {cost.cpu_us - cost.core_cpu_us:.0f} in the worker and"
        f" {cost.core_cpu_us:.0f} in the core. A bare recovery of its signature takes {cost.recovery.mean_us:.0f} us"
        " beside that load.",
        "",
        "The processes were sampled every few milliseconds of their own CPU time. C code and the kernel count for the",
        "Python function that called them.",
    ]
    for profile in profiles:
        of_process = cost.core_cpu_us if profile.process == "core" else cost.cpu_us - cost.core_cpu_us
        lines += [
            "",
            f"## The {profile.process}: {of_process:.0f} us, {profile.seen.total():,} samples",
            "",
            "| function | us | share |",
            "|---|--:|--:|",
        ]
        lines += [f"| {name} | {share * of_process:.1f} | {share:.1%} |" for name, share in profile.shares()]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make profile", description=__doc__.splitlines()[0])
    parser.add_argument("--transactions", type=int, default=60_000)
    parser.add_argument("--output", type=Path, default=REPORT)
    options = parser.parse_args()
    written = report(*measure(options.transactions), options.transactions)
    options.output.write_text(written)
    print(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
