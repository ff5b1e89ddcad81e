"""Runs tests on a mutant in a process of its own that imports it anew: for what is set while a module is imported."""

import ast
import contextlib
import importlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from tools.mutants.coverage import SOURCE
from tools.mutants.mutations import Mutant
from tools.mutants.planted import Planted
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
    sys.meta_path.insert(0, Planted(mutant.path, SOURCE, mutant.plant()))
    return int(pytest.main([*PYTEST, *tests]))
