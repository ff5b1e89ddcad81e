"""`make mutants`: what is changed, which tests are run on it, and the report."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.mutants.__main__ import Result, Target, report
from tools.mutants.mutations import Mutant, find_mutants
from tools.mutants.trial import Coverage

MODULE = Path("src/cairn/domain/rules.py")


def changes(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "module.py"
    path.write_text(text)
    return [f"{mutant.before} -> {mutant.after}" for mutant in find_mutants(path)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a < b", ["a < b -> a <= b"]),
        ("a == b", ["a == b -> a != b"]),
        ("a + b", ["a + b -> a - b"]),
        ("a and b", ["a and b -> a or b"]),
        ("not a", ["not a -> a"]),
        ("a = 7", ["7 -> 8"]),
        ("a = True", ["True -> False"]),
        ("a = b'xy'", ["b'xy' -> b'yy'"]),
        ("a = 'name'", ["'name' -> 'namex'"]),
        ("max(a, b)", ["max(a, b) -> pass", "max -> min"]),
        ("a -= b", ["a -= b -> a += b", "a -= b -> pass"]),
        ("a.b = c", ["a.b = c -> pass"]),
        ("if a: b", ["if a: -> if not a:"]),
        ("if a in b: c", ["a in b -> a not in b"]),
        ("raise A(f'it is {b + c}')", ["raise A(f'it is {b + c}') -> pass"]),
        ("def f(): return a", ["return a -> return None"]),
    ],
)
def test_a_small_thing_is_changed(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert changes(tmp_path, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "'Text for people.'",
        "a = 'text for people'",
        "a: Literal['x']",
        "A = NewType('A', bytes)",
        "@cache(16)\ndef f(a: 'B') -> 'C': ...",
        "class A(B, frozen=True): ...",
        "import a",
        "assert a == b",
    ],
)
def test_what_changes_no_behaviour_is_left_alone(tmp_path: Path, text: str) -> None:
    assert changes(tmp_path, text) == []


def test_a_mutant_knows_its_function_as_code_objects_do(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("A = 1\n@property\ndef f():\n    return lambda: 2\n@cache\ndef g():\n    return 3\n")
    lines = {mutant.before: mutant.function_line for mutant in find_mutants(path)}
    assert (lines["1"], lines["2"], lines["3"]) == (None, 2, None)


def find(before: str) -> Mutant:
    return next(mutant for mutant in find_mutants(MODULE) if mutant.before == before)


def test_the_tests_that_call_the_function_are_run_quickest_first() -> None:
    mutant = find("tx.gas < TRANSFER_GAS")
    place = f"{MODULE}:{mutant.function_line}"
    took_s = {"slow": 2.0, "quick": 1.0, "other": 0.5, "tests/test_rules.py::test_reads": 0.1, "stranger": 0.0}
    coverage = Coverage(took_s, {place: {"slow", "quick"}, f"{MODULE}:99": {"other"}})
    assert coverage.tests_for(mutant) == ["quick", "slow"]
    coverage.called_at_import.add(place)
    assert coverage.tests_for(mutant) == ["tests/test_rules.py::test_reads", "other", "quick", "slow"]


# In a process that has not imported the module.
TRIAL = f"""
import os, pathlib
from tools.mutants.mutations import find_mutants
from tools.mutants.trial import Coverage, start, unchanged

mutant = next(each for each in find_mutants(pathlib.Path("{MODULE}")) if each.before == "tx.gas < TRANSFER_GAS")
tests = "tests/unit/domain/test_rules.py"
coverage = Coverage({{tests: 1.0}}, {{f"{{mutant.path}}:{{mutant.function_line}}": {{tests}}}})
for each in (mutant, unchanged(mutant)):
    print(os.waitpid(start(each, coverage), 0)[1])
"""


def test_a_test_notices_a_mutant_and_not_the_code_as_it_is() -> None:
    ended = subprocess.run([sys.executable, "-c", TRIAL], capture_output=True, text=True, check=True)
    on_mutant, on_unchanged = map(int, ended.stdout.split())
    assert on_mutant != 0
    assert on_unchanged == 0


def test_the_report_has_the_score_and_every_survivor() -> None:
    mutant = find("tx.gas < TRANSFER_GAS")
    target = Target("domain", Path("src/cairn/domain"), ("tests/unit/domain",), bar_percent=95)
    result = Result(target, tried=4, all=9, killed=3, survivors=[mutant], took_s=120)
    text = report([result], "make mutants")
    assert "| domain | 9 | 4 | 3 | 1 | 0 | 75.0 | 2 |" in text
    assert f"- {MODULE}:{mutant.line} `tx.gas < TRANSFER_GAS` to `tx.gas <= TRANSFER_GAS`" in text
