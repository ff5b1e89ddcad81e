"""tools/parts.py runs all parts, also after one has failed, and leaves nothing running."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.node_process import is_alive, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.pages import ROOT
from tools.parts import GROUPS

PROGRAM = """
import sys
from tools import parts

parts.GROUPS = {"all": tuple(parts.Part(name, command, name != "beside") for name, command in %r)}
sys.argv[1:] = ["all"]
sys.exit(parts.main())
"""
RUNS_ON = "setsid sh -c 'trap \"\" INT TERM; echo $$ >> %s; while :; do sleep 1; done' & wait"
"""A part that starts a process in a session of its own, which hears of nothing."""


def program(*parts: tuple[str, str]) -> list[str]:
    return [sys.executable, "-c", PROGRAM % (parts,)]


def test_a_part_that_fails_keeps_no_other_from_being_run() -> None:
    parts = (("first", "exit 3"), ("beside", "echo besides; false"), ("last", "echo at last"))
    done = subprocess.run(program(*parts), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert ("besides" in done.stdout, "at last" in done.stdout) == (True, True)
    assert done.stdout.endswith("failed: first, beside\n")


def test_what_a_part_leaves_behind_is_ended_with_it(tmp_path: Path) -> None:
    left = tmp_path / "left"
    parts = (("leaving", f"{RUNS_ON % left} & while [ ! -s {left} ]; do :; done"), ("last", "true"))
    done = subprocess.run(program(*parts), cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.endswith("failed: none\n")
    assert not is_alive(int(left.read_text()))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_run_leaves_nothing_running(tmp_path: Path, number: signal.Signals) -> None:
    """Also where what has started it is killed, as `make` may be."""
    started = tmp_path / "started"
    line = program(("long", RUNS_ON % started))
    # The shell stands for make: it waits for the run, and is gone with a signal of its own.
    with subprocess.Popen(
        ["sh", "-c", '"$@" & echo $! && wait', "sh", *line], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as make:
        assert make.stdout is not None
        run = int(make.stdout.readline())
        wait_until(lambda: started.exists() and bool(started.read_text()), PATIENCE_S, "the part")
        deep = int(started.read_text())
        os.kill(make.pid if number == signal.SIGKILL else run, number)
        wait_until(lambda: not is_alive(deep) and not is_alive(run), PATIENCE_S, "the end of all")


def test_ci_runs_every_group() -> None:
    [line] = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if "tools/parts.py" in line]
    assert line.split("tools/parts.py ")[1].split() == [name for name in GROUPS if name != "fmt"]
