"""tools/parts.py runs all parts, also after one has failed."""

import subprocess
import sys

from tests.support.pages import ROOT
from tools.parts import GROUPS

PROGRAM = """
import sys
from tools import parts

parts.GROUPS = {"all": tuple(parts.Part(name, command, name != "beside") for name, command in %r)}
sys.argv[1:] = ["all"]
sys.exit(parts.main())
"""


def program(*parts: tuple[str, str]) -> list[str]:
    return [sys.executable, "-c", PROGRAM % (parts,)]


def test_a_part_that_fails_keeps_no_other_from_being_run() -> None:
    parts = (("first", "exit 3"), ("beside", "echo besides; false"), ("last", "echo at last"))
    done = subprocess.run(program(*parts), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert ("besides" in done.stdout, "at last" in done.stdout) == (True, True)
    assert done.stdout.endswith("failed: first, beside\n")


def test_ci_runs_every_group() -> None:
    [line] = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if "tools/parts.py" in line]
    assert line.split("tools/parts.py ")[1].split() == [name for name in GROUPS if name != "fmt"]
