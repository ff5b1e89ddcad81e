"""The long run of kills as a program: wherever it is ended, it takes its nodes with it."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S


def running_in(directory: Path) -> list[int]:
    """The processes that were started with a path below `directory`."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                command = (process / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if os.fsencode(directory) in command:
                found.append(int(process.name))
    return found


def test_an_end_from_outside_leaves_no_node_running(disk_path: Path) -> None:
    """Also when it is told more than once, as by a signal to its group and by `make`, which passes that on."""
    command = [sys.executable, "-m", "tests.chaos.kills", "--kills", "1000"]
    with subprocess.Popen(command, env=os.environ | {"TMPDIR": str(disk_path)}) as program:
        try:
            # Two nodes, of several processes each.
            wait_until(lambda: len(running_in(disk_path)) > 4, PATIENCE_S, "nodes")
            while program.poll() is None:
                program.send_signal(signal.SIGTERM)
                time.sleep(0.1)
            # A process that was killed needs a processor once more to end.
            wait_until(lambda: not running_in(disk_path), PATIENCE_S, "the end of all nodes")
        finally:
            program.kill()
            for pid in running_in(disk_path):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    assert program.returncode == 128 + signal.SIGTERM
