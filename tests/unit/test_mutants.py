"""`make mutants`: what is changed, which tests are run on it, and the report."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.mutants.__main__ import TARGETS, Result, report, version_of
from tools.mutants.coverage import Coverage
from tools.mutants.equivalent import EQUIVALENTS, Equivalent, set_aside
from tools.mutants.mutations import Mutant, find_mutants

MODULE = Path("src/cairn/domain/rules.py")
DOMAIN, MEMPOOL, *_ = TARGETS


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
    path.write_text("A = 1\n@property\ndef f(a=4):\n    return lambda: 2\n@cache\ndef g():\n    return 3\n")
    lines = {mutant.before: mutant.function_line for mutant in find_mutants(path)}
    assert [lines[constant] for constant in "1234"] == [None, 2, None, None]


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
TRIAL = """
import pathlib
from tools.mutants.__main__ import Target, run

target = Target("cli", pathlib.Path("src/cairn/cli/shared"), ("tests/unit/cli/shared/test_amounts.py",))
result = run(target, ["amounts.py"], None, 0, 2)
print(result.all, result.tried, result.killed, len(result.survivors), len(result.untested))
"""


def test_mutants_of_a_function_are_noticed() -> None:
    ended = subprocess.run([sys.executable, "-c", TRIAL], capture_output=True, text=True, check=True)
    there_are, tried, killed, survivors, untested = map(int, ended.stdout.splitlines()[-1].split())
    assert (tried, killed + survivors, untested) == (there_are, there_are, 0)
    assert killed > 0.9 * there_are


PLANTING = """
import pathlib, sys
from tools.mutants.mutations import find_mutants
from tools.mutants.processes import Children
from tools.mutants.trial import start, unchanged

mutant = next(each for each in find_mutants(pathlib.Path("src/cairn/domain/types.py")) if each.before == "21000")
children = Children(pathlib.Path(sys.argv[1]))
for each in (mutant, unchanged(mutant)):
    print(children.wait(start(each, ["tests/unit/domain/test_types.py"], 60, children))[1])
"""


def test_a_mutant_of_what_is_set_at_import_is_noticed_and_the_code_as_it_is_is_not(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PLANTING, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    on_mutant, on_unchanged = map(int, ended.stdout.split())
    assert on_mutant != 0
    assert on_unchanged == 0
    assert list(tmp_path.iterdir()) == []


def test_what_does_the_same_is_set_aside_with_its_reason() -> None:
    mutant = find("tx.gas < TRANSFER_GAS")
    line = "if tx.gas < TRANSFER_GAS:"
    known = Equivalent(str(MODULE), line, mutant.before, mutant.after, "no reason")
    assert set_aside(find_mutants(MODULE), [known]) == {mutant: "no reason"}
    other_file = Equivalent("src/cairn/domain/types.py", line, mutant.before, mutant.after, "")
    assert set_aside(find_mutants(MODULE), [other_file]) == {}
    gone = Equivalent(str(MODULE), "if True:", mutant.before, mutant.after, "")
    with pytest.raises(ValueError, match="no such mutant any more"):
        set_aside(find_mutants(MODULE), [gone])


def test_every_mutant_that_is_said_to_do_the_same_is_there() -> None:
    for path in {equivalent.path for equivalent in EQUIVALENTS}:
        assert set_aside(find_mutants(Path(path)))


def test_the_report_has_the_score_and_every_survivor() -> None:
    mutant = find("tx.gas < TRANSFER_GAS")
    place = f"- {MODULE}:{mutant.line} `tx.gas < TRANSFER_GAS` to `tx.gas <= TRANSFER_GAS`"
    result = Result(DOMAIN, tried=4, all=9, killed=3, survivors=[mutant], equivalent={mutant: "no reason"}, seed=7)
    text = report([result], "make mutants")
    assert "| 9 | 1 | 4 | 3 | 1 | 0 | 75.0 |" in text
    assert "A sample of 4 was tried (seed 7)." in text
    assert f"{place}\n" in text
    assert f"{place}: no reason\n" in text


def test_the_report_says_which_code_it_is_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text("a = 1\n")
    for command in ("init", "add a.py", "-c user.name=a -c user.email=a@b.example commit -m a"):
        subprocess.run(["git", *command.split()], check=True, capture_output=True)
    version = version_of(Path("a.py"))
    assert f"calls {version}.\n" in report([Result(DOMAIN, version=version)], "make mutants")
    # What git computes from the content alone.
    assert "1337a530cbc1bd7d20aee2d80f1f174a9182417d".startswith(version)
    Path("a.py").write_text("a = 2\n")
    assert version_of(Path("a.py")) == f"{version}, changed"


def test_the_report_keeps_the_parts_that_were_not_tried_again() -> None:
    first = report([Result(DOMAIN, tried=4, all=4), Result(MEMPOOL, tried=5, all=5)], "make mutants")
    again = report([Result(DOMAIN, tried=6, all=6)], "make mutants", first)
    assert "| 4 | 0 | 4 |" in first
    assert [each in again for each in ("| 4 | 0 | 4 |", "| 5 | 0 | 5 |", "| 6 | 0 | 6 |")] == [False, True, True]
    assert report([Result(MEMPOOL, tried=5, all=5)], "make mutants", again) == again
