"""Run the tests again and again on a machine made slow, and name every test that ever failed.

    make steady                                   all of it, once under each condition
    make steady ARGS="--runs 10 --under busy --part test-node"

The report goes to reports/steady.md. Exits with 1 when a test failed.
"""

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

PARTS = ("test-unit", "test-node", "test-network")
BUSY_LOOPS = 6
PAUSE_S = (0.2, 4.0)
BETWEEN_PAUSES_S = (1.0, 6.0)
SLOWEST = 20
REPORT = Path("reports/steady.md")


@contextmanager
def busy_loops() -> Iterator[None]:
    """Other programs on every core, as on a machine that others use too."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY_LOOPS)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@contextmanager
def one_core() -> Iterator[None]:
    """Whatever is started from here on shares a single core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@contextmanager
def pauses() -> Iterator[None]:
    """Now and then some process, with all that it started, stands still for up to four seconds.

    That may be everything at once, as when a hypervisor or a laptop's lid stops the machine, or one node, or one of its
    processes. A process that a test itself has stopped is left alone.
    """
    ended = threading.Event()
    thread = threading.Thread(target=_pause_now_and_then, args=(ended,))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _pause_now_and_then(ended: threading.Event) -> None:
    dice = random.Random()
    while not ended.wait(dice.uniform(*BETWEEN_PAUSES_S)):
        tree = _descendants(os.getpid())
        if not tree:
            continue
        chosen = dice.choice(tree)
        stopped = [pid for pid in (chosen, *_descendants(chosen)) if _stop(pid)]
        ended.wait(dice.uniform(*PAUSE_S))
        for pid in reversed(stopped):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _stop(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        if _status(pid)[0] != "T":
            os.kill(pid, signal.SIGSTOP)
            return True
    return False


def _status(pid: int) -> list[str]:
    """State, parent and what follows in /proc."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _descendants(root: int) -> list[int]:
    """Parents before their children."""
    children = defaultdict(list)
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):
                children[int(_status(int(directory.name))[1])].append(int(directory.name))
    found = list(children[root])
    for pid in found:
        found += children[pid]
    return found


CONDITIONS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "idle": nullcontext,
    "busy": busy_loops,
    "one-core": one_core,
    "pauses": pauses,
}


@dataclass
class Run:
    part: str
    condition: str
    passed: int = 0
    skipped: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    """What it said, by test."""
    durations: dict[str, float] = field(default_factory=dict)
    took_s: float = 0.0

    def __str__(self) -> str:
        counts = f"{self.passed} passed, {len(self.failed)} failed, {self.skipped} skipped"
        return f"{self.part} under {self.condition}: {counts} in {self.took_s:.0f} s"


def run_part(part: str, condition: str) -> Run:
    """Run a part of the tests under a condition. Raises `RuntimeError` when they did not even run."""
    run = Run(part, condition)
    with tempfile.TemporaryDirectory() as scratch, CONDITIONS[condition]():
        results = Path(scratch, "results.xml")
        began = time.monotonic()
        ended = subprocess.run(["make", "--no-print-directory", part, f"PYTEST_ARGS=--junitxml={results}"], check=False)
        run.took_s = time.monotonic() - began
        if not results.exists():
            raise RuntimeError(f"make {part} ended with {ended.returncode} and no results")
        read_results(results, run)
    if ended.returncode and not run.failed:
        run.failed[f"make {part}"] = f"ended with {ended.returncode}"
    return run


def read_results(path: Path, run: Run) -> None:
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        run.durations[name] = float(case.get("time", "0"))
        problem = next((case.find(kind) for kind in ("failure", "error") if case.find(kind) is not None), None)
        if problem is not None:
            run.failed[name] = problem.get("message", "").partition("\n")[0][:200]
        elif case.find("skipped") is not None:
            run.skipped += 1
        else:
            run.passed += 1


def report(runs: list[Run]) -> str:
    lines = ["# Steadiness of the tests", "", f"`{invocation()}`, {os.cpu_count()} cores.", ""]
    lines += ["| part | condition | passed | failed | skipped | seconds |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {run.part} | {run.condition} | {run.passed} | {len(run.failed)} | {run.skipped} | {run.took_s:.0f} |"
        for run in runs
    ]
    failures = [(test, run, said) for run in runs for test, said in run.failed.items()]
    lines += ["", "## Failures", ""]
    lines += [f"- `{test}` ({run.condition}): {said}" for test, run, said in sorted(failures, key=lambda row: row[0])]
    lines += [] if failures else ["None."]
    lines += ["", f"## The slowest {SLOWEST}", "", "Median over the runs, in seconds.", ""]
    taken: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        for test, seconds in run.durations.items():
            taken[test].append(seconds)
    slowest = sorted(((statistics.median(all_s), test) for test, all_s in taken.items()), reverse=True)[:SLOWEST]
    lines += [f"- {seconds:.1f} `{test}`" for seconds, test in slowest]
    return "\n".join(lines) + "\n"


def invocation() -> str:
    return f'make steady ARGS="{" ".join(sys.argv[1:])}"' if sys.argv[1:] else "make steady"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1, help="how often each part runs under each condition")
    parser.add_argument("--under", nargs="+", choices=CONDITIONS, default=list(CONDITIONS), metavar="CONDITION")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    runs = []
    for number in range(1, options.runs + 1):
        for condition in options.under:
            for part in options.part:
                runs.append(run_part(part, condition))
                print(f"steady: run {number} of {options.runs}: {runs[-1]}", flush=True)
                REPORT.parent.mkdir(exist_ok=True)
                REPORT.write_text(report(runs))
    print(report(runs))
    sys.exit(any(run.failed for run in runs))


if __name__ == "__main__":
    main()
