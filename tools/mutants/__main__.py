"""Change the code in one small way after the other, and see whether a test notices.

    make mutants                                  domain, mempool, store/journal and engine/network
    make mutants ARGS="domain --sample 200"
    make mutants ARGS="domain --file transactions.py"

The report goes to reports/mutants.md, where other parts stay as they are; what is tried of single files is only
printed. Exits with 1 when the domain's share of killed mutants is below its bar.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.mutants import trial
from tools.mutants.coverage import Coverage
from tools.mutants.equivalent import set_aside
from tools.mutants.mutations import Mutant, find_mutants
from tools.mutants.processes import Children, cpu_limit_s
from tools.mutants.session import NO_FIT, Session

REPORT = Path("reports/mutants.md")
INTRODUCTION = """# Mutants

Each is the code with one small change; it is killed when a test fails on it. Where the code is another one by now than
the one that a part names, `make mutants ARGS=PART` tells how many are killed of that."""
ENOUGH_TESTS = 20


@dataclass(frozen=True)
class Target:
    name: str
    source: Path
    tests: tuple[str, ...]
    bar_percent: float = 0

    def files(self) -> list[Path]:
        return [self.source] if self.source.is_file() else sorted(self.source.glob("*.py"))


# Those of the whole store open a journal too, but look at other things and take far longer.
JOURNAL_TESTS = ("tests/unit/store/test_journal.py", "tests/unit/store/test_journal_faults.py")
TARGETS = (
    Target("domain", Path("src/cairn/domain"), ("tests/unit/domain", "tests/vectors"), bar_percent=95),
    Target("mempool", Path("src/cairn/mempool"), ("tests/unit/mempool",)),
    Target("store/journal", Path("src/cairn/store/journal.py"), JOURNAL_TESTS),
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
    equivalent: Mapping[Mutant, str] = field(default_factory=dict)
    """With the reason why no test can notice it; not tried."""
    seed: int = 0
    took_s: float = 0.0
    version: str = ""
    """Of the source, as git has it."""

    def note(self, mutant: Mutant, status: int) -> None:
        if status:
            self.killed += 1
        else:
            self.survivors.append(mutant)
            print(f"survived: {mutant}", flush=True)

    @property
    def percent(self) -> float:
        return 100 * self.killed / self.tried if self.tried else 0.0

    def __str__(self) -> str:
        return f"{self.target.name}: {self.killed} of {self.tried} mutants killed, {self.percent:.1f} %"


def run(target: Target, files: list[str], sample: int | None, seed: int, jobs: int) -> Result:
    """Raises `RuntimeError` when the tests do not pass on the code as it is."""
    began = time.monotonic()
    mutants = [mutant for path in target.files() if not files or path.name in files for mutant in find_mutants(path)]
    equivalent = set_aside(mutants)
    result = Result(target, all=len(mutants), equivalent=equivalent, seed=seed, version=version_of(target.source))
    mutants = [mutant for mutant in mutants if mutant not in result.equivalent]
    if sample is not None and sample < len(mutants):
        mutants = sorted(random.Random(seed).sample(mutants, sample), key=lambda mutant: (mutant.path, mutant.line))
    result.tried = len(mutants)
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        session = Session(target.tests, mutants, jobs, Path(scratch))
        coverage = session.coverage
        result.untested = [mutant for mutant in mutants if not coverage.tests_for(mutant)]
        at_import = [mutant for mutant in mutants if coverage.is_at_import(mutant) and coverage.tests_for(mutant)]
        for fate in session.fates():
            if fate.status == NO_FIT:
                at_import.append(mutants[fate.index])
            else:
                result.note(mutants[fate.index], fate.status)
        if at_import:
            _try_imports(at_import, coverage, jobs, Children(Path(scratch)), result)
    result.took_s = time.monotonic() - began
    return result


def version_of(path: Path) -> str:
    """Git's name of what is there, which is the same in every commit with the same content."""
    name = subprocess.run(["git", "rev-parse", "--short", f"HEAD:{path}"], capture_output=True, text=True, check=True)
    is_changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", path], check=False).returncode
    return name.stdout.strip() + (", changed" if is_changed else "")


def _try_imports(mutants: list[Mutant], coverage: Coverage, jobs: int, children: Children, result: Result) -> None:
    trial.load(coverage.libraries)
    _check_trial(mutants, coverage, children)
    running: dict[int, Mutant] = {}

    def note_next() -> None:
        pid, status = children.wait()
        result.note(running.pop(pid), status)

    for mutant in mutants:
        if len(running) >= jobs:
            note_next()
        running[_start(mutant, coverage.tests_for(mutant), coverage, children)] = mutant
    while running:
        note_next()


def _start(mutant: Mutant, tests: list[str], coverage: Coverage, children: Children) -> int:
    return trial.start(mutant, tests, cpu_limit_s(sum(coverage.took_s[test] for test in tests)), children)


def _check_trial(mutants: list[Mutant], coverage: Coverage, children: Children) -> None:
    """Raises `RuntimeError` when tests fail on a module that was loaded as a mutant is, and not changed."""
    for mutant in {mutant.path: mutant for mutant in mutants}.values():
        # A trial that is broken fails with the first ones.
        tests = coverage.tests_for(mutant)[:ENOUGH_TESTS]
        _, status = children.wait(_start(trial.unchanged(mutant), tests, coverage, children))
        if status:
            raise RuntimeError(f"the tests of {mutant.path} fail on the unchanged module: the trial is broken")


def report(results: list[Result], command: str, before: str = "") -> str:
    """What there is in the report from `before` of other parts stays."""
    sections = {section.partition("\n")[0]: section for section in before.split("\n## ")[1:]}
    sections |= {result.target.name: "\n".join(_section(result, command)) for result in results}
    ordered = [sections[target.name].strip() for target in TARGETS if target.name in sections]
    return "\n\n## ".join([INTRODUCTION, *ordered]) + "\n"


def _section(result: Result, command: str) -> Iterator[str]:
    yield f"{result.target.name}\n"
    yield f"{_share(result)} `{command}` took {result.took_s / 60:.1f} minutes."
    yield f"The code was what `git rev-parse --short HEAD:{result.target.source}` calls {result.version}.\n"
    yield "| mutants | equivalent | tried | killed | survived | no test calls it | killed, % |"
    yield "|---|---|---|---|---|---|---|"
    yield (
        f"| {result.all} | {len(result.equivalent)} | {result.tried} | {result.killed} | {len(result.survivors)} "
        f"| {len(result.untested)} | {result.percent:.1f} |"
    )
    parts: tuple[tuple[str, Mapping[Mutant, str]], ...] = (
        ("Survived", dict.fromkeys(result.survivors, "")),
        ("No test calls it", dict.fromkeys(result.untested, "")),
        ("Equivalent", result.equivalent),
    )
    for title, mutants in parts:
        if mutants:
            yield f"\n### {result.target.name}: {title.lower()}\n"
        for mutant in sorted(mutants, key=lambda mutant: (mutant.path, mutant.line, mutant.after)):
            why = f": {mutants[mutant]}" if mutants[mutant] else ""
            yield f"- {mutant.path}:{mutant.line} `{mutant.before}` to `{mutant.after}`{why}"


def _share(result: Result) -> str:
    if result.tried == result.all - len(result.equivalent):
        return "All of them were tried."
    return f"A sample of {result.tried} was tried (seed {result.seed})."


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
    if not options.file:
        REPORT.parent.mkdir(exist_ok=True)
        before = REPORT.read_text() if REPORT.exists() else ""
        REPORT.write_text(report(results, invocation(), before))
        print(f"mutants: the report is {REPORT}")
    sys.exit(any(result.percent < result.target.bar_percent for result in results))


if __name__ == "__main__":
    main()
