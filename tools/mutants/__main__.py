"""Change the code in one small way after the other, and see whether a test notices.

    make mutants                                  domain, mempool, store/journal and engine/network
    make mutants ARGS="domain --sample 200"
    make mutants ARGS="domain --file codec.py"

The report goes to reports/mutants.md. Exits with 1 when the domain's share of killed mutants is below its bar.
"""

import argparse
import os
import random
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tools.mutants import trial
from tools.mutants.mutations import Mutant, find_mutants

REPORT = Path("reports/mutants.md")


@dataclass(frozen=True)
class Target:
    name: str
    source: Path
    tests: tuple[str, ...]
    bar_percent: float = 0

    def files(self) -> list[Path]:
        return [self.source] if self.source.is_file() else sorted(self.source.glob("*.py"))


TARGETS = (
    Target("domain", Path("src/cairn/domain"), ("tests/unit/domain", "tests/vectors"), bar_percent=95),
    Target("mempool", Path("src/cairn/mempool"), ("tests/unit/mempool",)),
    Target("store/journal", Path("src/cairn/store/journal.py"), ("tests/unit/store",)),
    Target("engine/network", Path("src/cairn/engine/network"), ("tests/unit/engine/network",)),
)


@dataclass
class Result:
    target: Target
    tried: int = 0
    all: int = 0
    killed: int = 0
    survivors: list[Mutant] = field(default_factory=list)
    untested: list[Mutant] = field(default_factory=list)
    """Of these, no test even calls the function."""
    took_s: float = 0.0

    @property
    def percent(self) -> float:
        return 100 * self.killed / self.tried if self.tried else 0.0

    def __str__(self) -> str:
        return f"{self.target.name}: {self.killed} of {self.tried} mutants killed, {self.percent:.1f} %"


def run(target: Target, files: list[str], sample: int | None, seed: int, jobs: int) -> Result:
    """Raises `RuntimeError` when the tests do not pass on the code as it is."""
    result = Result(target)
    began = time.monotonic()
    coverage = trial.measure(target.tests)
    trial.load(coverage.libraries)
    chosen = [path for path in target.files() if not files or path.name in files]
    mutants = [mutant for path in chosen for mutant in find_mutants(path)]
    result.all = len(mutants)
    if sample is not None and sample < len(mutants):
        mutants = sorted(random.Random(seed).sample(mutants, sample), key=lambda mutant: (mutant.path, mutant.line))
    result.tried = len(mutants)
    result.untested = [mutant for mutant in mutants if not coverage.tests_for(mutant)]
    _check_trial(mutants, coverage)
    running: dict[int, Mutant] = {}
    for mutant in mutants:
        if not coverage.tests_for(mutant):
            continue
        while len(running) >= jobs:
            _reap(running, result)
        running[trial.start(mutant, coverage)] = mutant
    while running:
        _reap(running, result)
    result.took_s = time.monotonic() - began
    return result


def _check_trial(mutants: list[Mutant], coverage: trial.Coverage) -> None:
    """Raises `RuntimeError` when tests fail on a module that was loaded as a mutant is, and not changed."""
    for path in {mutant.path for mutant in mutants}:
        widest = max((each for each in mutants if each.path == path), key=lambda each: len(coverage.tests_for(each)))
        _, status = os.waitpid(trial.start(trial.unchanged(widest), coverage), 0)
        if status:
            raise RuntimeError(f"the tests of {path} fail on the unchanged module: the trial is broken")


def _reap(running: dict[int, Mutant], result: Result) -> None:
    pid, status = os.wait()
    mutant = running.pop(pid)
    if status:
        result.killed += 1
    else:
        result.survivors.append(mutant)
        print(f"survived: {mutant}", flush=True)


def report(results: list[Result], command: str) -> str:
    lines = [
        "# Mutants",
        "",
        f"`{command}`: each is the code with one small change; killed when a test fails on it.",
        "",
    ]
    lines += ["| part | mutants | tried | killed | survived | no test calls it | killed, % | minutes |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    lines += [
        f"| {result.target.name} | {result.all} | {result.tried} | {result.killed} | {len(result.survivors)} "
        f"| {len(result.untested)} | {result.percent:.1f} | {result.took_s / 60:.0f} |"
        for result in results
    ]
    for result in results:
        for title, mutants in (("survived", result.survivors), ("no test calls it", result.untested)):
            if mutants:
                lines += ["", f"## {result.target.name}: {title}", ""]
                lines += [
                    f"- {mutant.path}:{mutant.line} `{mutant.before}` to `{mutant.after}`"
                    for mutant in sorted(mutants, key=lambda mutant: (mutant.path, mutant.line, mutant.after))
                ]
    return "\n".join(lines) + "\n"


def invocation() -> str:
    return f'make mutants ARGS="{" ".join(sys.argv[1:])}"' if sys.argv[1:] else "make mutants"


def main() -> None:
    names = [target.name for target in TARGETS]
    parser = argparse.ArgumentParser(
        prog="make mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", default=names, metavar="PART", help=f"of {', '.join(names)}")
    parser.add_argument("--file", nargs="+", default=[], help="only these files of the parts")
    parser.add_argument("--sample", type=int, help="so many of each part, chosen by chance")
    parser.add_argument("--seed", type=int, default=0, help="of that choice")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants at a time")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(names):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    results = []
    for target in TARGETS:
        if target.name in options.parts:
            results.append(run(target, options.file, options.sample, options.seed, options.jobs))
            print(results[-1], flush=True)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(report(results, invocation()))
    print(f"mutants: the report is {REPORT}")
    sys.exit(any(result.percent < result.target.bar_percent for result in results))


if __name__ == "__main__":
    main()
