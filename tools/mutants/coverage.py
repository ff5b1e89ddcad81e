"""Which tests a mutant can matter to: those that call the function it is in."""

import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path
from types import CodeType, FrameType

import msgspec
import pytest

from tools.mutants.mutations import Mutant

SOURCE = Path("src")


class Coverage(msgspec.Struct):
    """Which tests call which function, by file and first line; what is called before any test matters to all."""

    took_s: dict[str, float] = {}
    """Processor time, by test."""
    callers: dict[str, set[str]] = {}
    called_at_import: set[str] = set()
    libraries: list[str] = []
    """What the tests import that is not ours."""

    def is_at_import(self, mutant: Mutant) -> bool:
        """Whether it is too late for it once the tests are imported."""
        return mutant.function_line is None or _place(mutant) in self.called_at_import

    def tests_for(self, mutant: Mutant) -> list[str]:
        """Quickest first."""
        tests = self._users_of(mutant.path) if self.is_at_import(mutant) else self.callers.get(_place(mutant), set())
        return sorted(tests, key=lambda test: (self.took_s[test], test))

    def _users_of(self, path: Path) -> Iterable[str]:
        users = {test for place, tests in self.callers.items() if place.startswith(f"{path}:") for test in tests}
        # Also those that only read what the module sets: tests mirror the source.
        users |= {test for test in self.took_s if f"/test_{path.stem}.py" in test}
        return users or set(self.took_s)


def _place(mutant: Mutant) -> str:
    return f"{mutant.path}:{mutant.function_line}"


class Recorder:
    """A plugin of pytest that notes the calls of each test."""

    def __init__(self) -> None:
        self.coverage = Coverage(callers=defaultdict(set))
        self._root = f"{SOURCE.resolve()}{os.sep}"
        self._known: dict[CodeType, str | None] = {}
        self._called = self.coverage.called_at_import

    def listen(self) -> None:
        sys.settrace(self._hear)
        threading.settrace(self._hear)

    def stop(self) -> None:
        sys.settrace(None)
        threading.settrace(None)

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
        # The tests' own fixtures, and libraries, may have taken it away.
        self.listen()
        try:
            return (yield)
        finally:
            self.coverage.took_s[item.nodeid] = time.process_time() - began
            for place in called:
                self.coverage.callers[place].add(item.nodeid)
