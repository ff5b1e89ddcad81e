"""`make test` runs all its parts, also after one has failed, and names those at the end."""

import subprocess
from pathlib import Path

import pytest

from tests.support.pages import ROOT

PARTS = """
one three:
\t@echo made $@
two four:
\t@echo made $@; false
"""


@pytest.mark.parametrize(
    ("parts", "failed"),
    [
        (["one", "three"], []),
        (["two", "one", "four", "three"], ["two", "four"]),
        (["missing", "one"], ["missing"]),
        ([], []),
    ],
)
def test_a_part_that_fails_keeps_no_other_from_being_run(tmp_path: Path, parts: list[str], failed: list[str]) -> None:
    (tmp_path / "Makefile").write_text(PARTS)
    script = ROOT / "tools" / "every_part.sh"
    done = subprocess.run(["sh", script, *parts], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.split("\n")[:-1] == [f"made {part}" for part in parts if part != "missing"]
    assert done.returncode == (1 if failed else 0)
    if failed:
        assert done.stderr.splitlines()[-1] == "failed: " + " ".join(failed)


def test_the_parts_of_test_are_run_so_and_by_ci_too() -> None:
    dry = ["make", "--dry-run", "--no-print-directory"]
    for goal, last in (("check", "test-unit"), ("test", "test-network"), ("ci", "interop")):
        [line] = subprocess.check_output([*dry, goal], cwd=ROOT, text=True).splitlines()
        assert "sh tools/every_part.sh " in line
        assert line.endswith(f" {last}")
    assert (ROOT / ".ci" / "run").read_text().endswith("exec make ci\n")
