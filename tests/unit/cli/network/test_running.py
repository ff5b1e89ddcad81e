"""A network that runs in one command: what the signals mean to it."""

import os
import signal
import subprocess
import sys

import pytest

CODE = """
import os, signal, sys
if "ignored" in sys.argv:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
from cairn.cli.network.running import SignalsSeen
told = SignalsSeen()
told._terminal.was_there = "terminal" in sys.argv
os.kill(os.getpid(), getattr(signal, sys.argv[1]))
print(told.to_stop, told.to_reload)
"""


@pytest.mark.parametrize(
    ("number", "how", "wanted"),
    [
        ("SIGTERM", "service", "True False"),
        ("SIGINT", "terminal", "True False"),
        ("SIGHUP", "terminal", "True False"),
        ("SIGHUP", "service", "False True"),
        ("SIGHUP", "ignored terminal", "False False"),
    ],
)
def test_a_hang_up_stops_in_a_terminal_reloads_without_one_and_is_ignored_with_nohup(
    number: str, how: str, wanted: str
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", CODE, number, *how.split()], capture_output=True, text=True, check=False, env=os.environ
    )
    assert (ran.stdout.strip(), ran.stderr) == (wanted, "")


def test_a_program_that_is_started_inherits_an_ignored_hang_up() -> None:
    """So the nodes of a network that nohup protects are protected, too."""
    code = "import signal; print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)"
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        ran = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, start_new_session=True
        )
    finally:
        signal.signal(signal.SIGHUP, previous)
    assert ran.stdout == "True\n"
