"""Imports the tests once, and tries each mutant of a function in a fork of that, on which only its code is changed."""

import gc
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import CodeType, FunctionType
from typing import IO

import msgspec
import pytest

from tools.mutants.coverage import Coverage, Recorder
from tools.mutants.mutations import Mutant
from tools.mutants.processes import Children, cpu_limit_s

PYTEST = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
OURS = ("cairn", "tests", "tools", "conftest")
NO_FIT = 77
"""The status of a mutant that cannot be made out of the functions as they are."""


class Fate(msgspec.Struct):
    index: int
    """Of the mutant."""
    status: int
    """0 when no test noticed it."""


class Session:
    """In a process of its own, so that this one never imports what mutants are made of."""

    def __init__(self, tests: Sequence[str], mutants: Sequence[Mutant], jobs: int, scratch: Path) -> None:
        """Run the tests on the code as it is. Raises `RuntimeError` unless all pass."""
        reading, writing = os.pipe()
        self._log = scratch / "session.log"
        self._children = Children(scratch)
        self._pid = self._children.start(lambda: self._run(tests, mutants, jobs, scratch, writing))
        os.close(writing)
        self._results = os.fdopen(reading, "rb")
        first = self._results.readline()
        if not first:
            self._children.wait(self._pid)
            raise RuntimeError(f"the tests do not pass as they are:\n{self._log.read_text()}")
        self.coverage = msgspec.json.decode(first, type=Coverage)

    def fates(self) -> Iterator[Fate]:
        """Of the mutants in functions, as they come to be known."""
        with self._results:
            for line in self._results:
                yield msgspec.json.decode(line, type=Fate)
        if self._children.wait(self._pid)[1]:
            raise RuntimeError(f"the session of the tests failed:\n{self._log.read_text()}")

    def _run(self, tests: Sequence[str], mutants: Sequence[Mutant], jobs: int, scratch: Path, results: int) -> int:
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        with os.fdopen(results, "wb", buffering=0) as writing:
            return int(pytest.main([*PYTEST, *tests], plugins=[_Trials(mutants, jobs, scratch, writing)]))


class _Trials:
    """A plugin of pytest that runs the collected tests again and again, in forks."""

    def __init__(self, mutants: Sequence[Mutant], jobs: int, scratch: Path, results: IO[bytes]) -> None:
        self._mutants = mutants
        self._jobs = jobs
        self._scratch = scratch
        self._children = Children(scratch)
        self._results = results
        self._recorder = Recorder()
        # While the tests are imported.
        self._recorder.listen()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._recorder.stop()
        if session.testsfailed:
            raise session.Interrupted("the tests cannot be imported")
        coverage = self._measure(session)
        self._results.write(msgspec.json.encode(coverage) + b"\n")
        items = {item.nodeid: item for item in session.items}
        functions = _functions()
        running: dict[int, int] = {}
        for index, mutant in enumerate(self._mutants):
            tests = coverage.tests_for(mutant)
            if not tests or coverage.is_at_import(mutant):
                continue
            if len(running) >= self._jobs:
                self._tell_next(running)
            chosen = [items[test] for test in tests]
            cpu_s = cpu_limit_s(sum(coverage.took_s[test] for test in tests))
            running[self._children.start(_trial(mutant, functions, chosen), cpu_s)] = index
        while running:
            self._tell_next(running)
        return True

    def _tell_next(self, running: dict[int, int]) -> None:
        pid, status = self._children.wait()
        self._results.write(msgspec.json.encode(Fate(running.pop(pid), status)) + b"\n")

    def _measure(self, session: pytest.Session) -> Coverage:
        found = self._scratch / "coverage.json"

        def work() -> int:
            session.config.pluginmanager.register(self._recorder)
            if _run(session.items):
                reporter = session.config.pluginmanager.get_plugin("terminalreporter")
                hook = session.config.hook
                hook.pytest_terminal_summary(terminalreporter=reporter, exitstatus=1, config=session.config)
                sys.stdout.flush()
                return 1
            coverage = self._recorder.coverage
            coverage.libraries = [name for name in sys.modules if name.partition(".")[0] not in OURS]
            found.write_bytes(msgspec.json.encode(coverage))
            return 0

        if self._children.wait(self._children.start(work))[1]:
            raise session.Failed("tests fail on the code as it is")
        return msgspec.json.decode(found.read_bytes(), type=Coverage)


def _trial(mutant: Mutant, functions: dict[str, list[FunctionType]], items: Sequence[pytest.Item]) -> Callable[[], int]:
    return lambda: _run(items) if _plant(mutant, functions[str(mutant.path.resolve())]) else NO_FIT


def _run(items: Sequence[pytest.Item]) -> int:
    """1 as soon as one fails."""
    for item, following in pairwise([*items, None]):
        assert item is not None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if item.session.testsfailed:
            return 1
    return 0


def _functions() -> dict[str, list[FunctionType]]:
    """All that there are, by the file of their code."""
    functions = defaultdict(list)
    for each in gc.get_objects():
        if isinstance(each, FunctionType):
            functions[each.__code__.co_filename].append(each)
    return functions


def _plant(mutant: Mutant, functions: Sequence[FunctionType]) -> bool:
    """Give the functions the code that the mutant has; whether that could be done."""
    codes = defaultdict(list)
    for code in _codes_in(compile(mutant.plant(), str(mutant.path.resolve()), "exec")):
        codes[code.co_qualname, code.co_firstlineno].append(code)
    is_planted = False
    for function in functions:
        old = function.__code__
        found = codes[old.co_qualname, old.co_firstlineno]
        if old in found:
            continue
        # Two lambdas of one line cannot be told apart, and what a function closes over stays as it is.
        if len(found) != 1 or found[0].co_freevars != old.co_freevars:
            return False
        function.__code__ = found[0]
        is_planted = True
    return is_planted


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes_in(each)
