"""Runs tests on a mutant in a process of its own, and finds out which tests a mutant can matter to."""

import ast
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import sys
import tempfile
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType, FrameType, ModuleType

import pytest

from tools.mutants.mutations import Mutant

SOURCE = Path("src")
OURS = ("cairn", "tests", "tools", "conftest")
CPU_SPARE_S = 10
"""On top of what the tests took before: for starting, and for one that only became slow."""
CPU_TIMES = 10
MEMORY_BYTES = 4 * 1024**3

# No limit by the clock but the tests' own: on a busy machine it would count as killed what only had to wait.
PYTEST = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
# Its plugins are loaded once too.
PYTEST += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]


@dataclass
class Coverage:
    """Which tests call which function, by file and first line; what is called before any test matters to all."""

    took_s: dict[str, float] = field(default_factory=dict)
    """Processor time, by test."""
    callers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    called_at_import: set[str] = field(default_factory=set)
    libraries: list[str] = field(default_factory=list)
    """What the tests import that is not ours: loaded once, for all mutants."""

    def tests_for(self, mutant: Mutant) -> list[str]:
        """Quickest first."""
        place = f"{mutant.path}:{mutant.function_line}"
        everywhere = mutant.function_line is None or place in self.called_at_import
        tests = self._users_of(mutant.path) if everywhere else self.callers.get(place, set())
        return sorted(tests, key=lambda test: (self.took_s[test], test))

    def _users_of(self, path: Path) -> Iterable[str]:
        users = {test for place, tests in self.callers.items() if place.startswith(f"{path}:") for test in tests}
        # Also those that only read what the module sets: tests mirror the source.
        users |= {test for test in self.took_s if f"/test_{path.stem}.py" in test}
        return users or set(self.took_s)


def measure(tests: Sequence[str]) -> Coverage:
    """Run the tests on the code as it is. Raises `RuntimeError` unless all pass."""
    with tempfile.TemporaryDirectory() as scratch:
        found = Path(scratch, "coverage.json")
        pid = _fork(lambda: _measure_here(tests, found))
        _, status = os.waitpid(pid, 0)
        if status or not found.exists():
            raise RuntimeError("the tests do not pass as they are: see what pytest says")
        read = json.loads(found.read_text())
    coverage = Coverage(read["took_s"], defaultdict(set), set(read["called_at_import"]), read["libraries"])
    for place, callers in read["callers"].items():
        coverage.callers[place] = set(callers)
    return coverage


def _measure_here(tests: Sequence[str], found: Path) -> int:
    recorder = _Recorder()
    status = pytest.main([*PYTEST, *tests], plugins=[recorder])
    recorder.coverage.libraries = [name for name in sys.modules if name.partition(".")[0] not in OURS]
    content = {
        "took_s": recorder.coverage.took_s,
        "callers": {place: sorted(callers) for place, callers in recorder.coverage.callers.items()},
        "called_at_import": sorted(recorder.coverage.called_at_import),
        "libraries": recorder.coverage.libraries,
    }
    found.write_text(json.dumps(content))
    return int(status)


class _Recorder:
    """A plugin of pytest that notes the calls of each test."""

    def __init__(self) -> None:
        self.coverage = Coverage()
        self._root = f"{SOURCE.resolve()}{os.sep}"
        self._known: dict[CodeType, str | None] = {}
        self._called = self.coverage.called_at_import
        self._listen()

    def _listen(self) -> None:
        # The tests' own fixtures, and libraries, may take it away.
        sys.settrace(self._hear)
        threading.settrace(self._hear)

    def _hear(self, frame: FrameType, event: str, arg: object) -> None:
        code = frame.f_code
        if code not in self._known:
            self._known[code] = self._place_of(code)
        place = self._known[code]
        if place is not None:
            self._called.add(place)

    def _place_of(self, code: CodeType) -> str | None:
        if not code.co_filename.startswith(self._root):
            return None
        return f"{Path(code.co_filename).relative_to(Path.cwd())}:{code.co_firstlineno}"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        began = time.process_time()
        called = self._called = set()
        self._listen()
        try:
            return (yield)
        finally:
            self.coverage.took_s[item.nodeid] = time.process_time() - began
            for place in called:
                self.coverage.callers[place].add(item.nodeid)


def load(libraries: Iterable[str]) -> None:
    """So that the process of a mutant has only our own code to import."""
    for name in libraries:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def unchanged(mutant: Mutant) -> Mutant:
    """Which every test must let live: otherwise it is the trial itself that fails."""
    return replace(mutant, after=mutant.before, plant=lambda: ast.parse(mutant.path.read_text()))


def start(mutant: Mutant, coverage: Coverage) -> int:
    """Run the tests on `mutant` in a new process; its pid. It ends with 0 when no test notices."""
    tests = coverage.tests_for(mutant)
    cpu_s = CPU_SPARE_S + CPU_TIMES * sum(coverage.took_s[test] for test in tests)
    return _fork(lambda: _try_here(mutant, tests, int(cpu_s)))


def _try_here(mutant: Mutant, tests: Sequence[str], cpu_s: int) -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    sys.meta_path.insert(0, _Planted(mutant))
    return int(pytest.main([*PYTEST, *tests]))


def _fork(work: Callable[[], int]) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        # Random tests then try the same each time, so that a mutant's fate is too.
        os.environ["CI"] = "mutants"
        status = work()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


class _Planted(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Gives the mutant when its module is imported."""

    def __init__(self, mutant: Mutant) -> None:
        self._path = mutant.path.resolve()
        parts = mutant.path.relative_to(SOURCE).with_suffix("").parts
        self._name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if self._name in sys.modules:
            raise RuntimeError(f"{self._name} is imported already: the tests would run on the code as it is")
        self._tree = mutant.plant()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.util.spec_from_file_location(fullname, self._path, loader=self)

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._tree, str(self._path), "exec")

    def get_source(self, fullname: str) -> str:
        return ast.unparse(self._tree)

    def is_package(self, fullname: str) -> bool:
        return self._path.name == "__init__.py"
