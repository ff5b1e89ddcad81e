"""Runs tests on a mutant in a process of its own that imports it anew: for what is set while a module is imported."""

import ast
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import CodeType, ModuleType

import pytest

from tools.mutants.coverage import SOURCE
from tools.mutants.mutations import Mutant
from tools.mutants.processes import Children, be_silent

START_CPU_S = 10
"""For importing the tests, and all that they use."""

PYTEST = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
# Its plugins are loaded once, for all mutants.
PYTEST += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]


def load(libraries: Iterable[str]) -> None:
    """So that the process of a mutant has only our own code to import."""
    for name in libraries:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def unchanged(mutant: Mutant) -> Mutant:
    """Which every test must let live: otherwise it is the trial itself that fails."""
    return replace(mutant, after=mutant.before, plant=lambda: ast.parse(mutant.path.read_text()))


def start(mutant: Mutant, tests: Sequence[str], cpu_s: float, children: Children) -> int:
    """Run the tests on `mutant` in a new process; its pid. It ends with 0 when no test notices."""
    return children.start(lambda: _try_here(mutant, tests), cpu_s + START_CPU_S)


def _try_here(mutant: Mutant, tests: Sequence[str]) -> int:
    be_silent()
    sys.meta_path.insert(0, _Planted(mutant))
    return int(pytest.main([*PYTEST, *tests]))


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
