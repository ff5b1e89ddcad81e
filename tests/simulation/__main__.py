"""Runs simulations: the seeds that failed once, then fresh ones for some time; or one again, to look at it.

python -m tests.simulation --seconds 60
python -m tests.simulation --seed 1234 --steps 0-20,31 --trace
"""

import argparse
import math
import os
import platform
import random
import secrets
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from tests.simulation.report import Summary
from tests.simulation.run import STEPS, Result, shrink, simulate

FAILED_ONCE = Path(__file__).parent / "seeds.txt"


def main() -> int:
    arguments = _parse()
    _with_hash_seed(arguments)
    # A seed draws through Python's own `random`, whose ways differ from version to version.
    print(f"Python {platform.python_version()}, hash seed {os.environ['PYTHONHASHSEED']}")
    without = frozenset(arguments.without.split(","))
    if arguments.seed is not None:
        steps = _read_steps(arguments.steps) if arguments.steps else range(STEPS)
        again = simulate(arguments.seed, steps, without, print if arguments.trace else None)
        met = dict(sorted((+again.tally.met).items()))
        outcome = f"fails: {again.failure}" if again.failure else f"is clean: {met}; trace {again.digest}"
        print(f"seed {again.seed} {outcome}")
        return 1 if again.failure else 0
    return _simulate_many(arguments, without)


def _simulate_many(arguments: argparse.Namespace, without: frozenset[str]) -> int:
    known = known_seeds() if arguments.known else []
    summary = Summary(arguments.base)
    fresh = islice(_fresh_seeds(arguments.base, arguments.seconds), arguments.count)
    for seed in chain(known, arguments.first, fresh):
        found = simulate(seed, without=without)
        summary.add(found)
        if found.failure:
            print(f"seed {seed} fails after {summary.seconds:.1f} s: {found.failure}", flush=True)
            if arguments.shrink:
                _show_small(shrink(found, without, arguments.shrink))
            if not arguments.keep_going:
                break
    print(summary.text())
    if arguments.report:
        command = " ".join(["python -m tests.simulation", *sys.argv[1:]])
        arguments.report.parent.mkdir(parents=True, exist_ok=True)
        arguments.report.write_text(summary.markdown(command, known))
    return 1 if summary.failures else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seconds", type=float, default=math.inf, help="how long fresh seeds are tried")
    parser.add_argument("--count", type=int, help="how many fresh seeds are tried at most; for ever without both")
    parser.add_argument("--first", type=int, action="append", default=[], help="try this seed before fresh ones")
    parser.add_argument(
        "--known", action=argparse.BooleanOptionalAction, default=True, help="try those that failed too"
    )
    parser.add_argument("--seed", type=int, help="run this one only")
    parser.add_argument("--steps", default="", help="only these steps of it, as 0-20,31")
    parser.add_argument("--trace", action="store_true", help="show each step")
    parser.add_argument("--without", default="", help="leave out these actions, as damage,outage")
    parser.add_argument("--shrink", type=float, default=60.0, help="seconds to spend on making a failure small")
    parser.add_argument("--base", type=int, default=secrets.randbits(32), help="what the fresh seeds are drawn from")
    parser.add_argument("--hash-seed", type=int, help="Python's own, for its order of sets; drawn from the base")
    parser.add_argument("--keep-going", action="store_true", help="do not end with the first seed that fails")
    parser.add_argument("--report", type=Path, help="write a report to this file too, as reports/simulation.md")
    return parser.parse_args()


def _fresh_seeds(base: int, seconds: float) -> Iterator[int]:
    """For so long from the first one on: those that failed once take none of their time."""
    rng = random.Random(base)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        yield rng.getrandbits(32)


def known_seeds() -> list[int]:
    return [seed for seed, _ in _known()]


def known_seeds_of_the_node() -> list[int]:
    """Those that found a defect of the node; the others found one of the simulator."""
    return [seed for seed, why in _known() if not why.startswith("of the simulator")]


def _known() -> Iterator[tuple[int, str]]:
    for line in FAILED_ONCE.read_text().splitlines():
        seed, _, why = line.partition("#")
        if seed.strip():
            yield int(seed), why.strip()


def _show_small(small: Result) -> None:
    steps = write_steps(small.steps)
    print(f"{len(small.steps)} steps are enough: {small.failure}")
    hashes = os.environ["PYTHONHASHSEED"]
    print(f"  .venv/bin/python -m tests.simulation --seed {small.seed} --hash-seed {hashes} --steps {steps} --trace")


def _read_steps(text: str) -> list[int]:
    steps: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        steps += range(int(first), int(last or first) + 1)
    return steps


def write_steps(steps: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for step in steps:
        if runs and runs[-1][-1] == step - 1:
            runs[-1].append(step)
        else:
            runs.append([step])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _with_hash_seed(arguments: argparse.Namespace) -> None:
    """Sets are walked in the order of hashes, which is set when Python starts: each series of seeds has another."""
    drawn = 0 if arguments.seed is not None else random.Random(arguments.base).getrandbits(32)
    wanted = str(drawn if arguments.hash_seed is None else arguments.hash_seed)
    if os.environ.get("PYTHONHASHSEED") != wanted:
        again = [sys.executable, "-m", "tests.simulation", *sys.argv[1:], "--base", str(arguments.base)]
        os.execve(sys.executable, again, os.environ | {"PYTHONHASHSEED": wanted})


if __name__ == "__main__":
    sys.exit(main())
