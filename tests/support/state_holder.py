"""Another process that has a state file, as a node does: `python -m tests.support.state_holder FILE`."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cairn.store.state_file import hold_state_file


@contextmanager
def held_by_another(file: Path) -> Iterator[subprocess.Popen[str]]:
    """Held until the process is told to end by `communicate`, or killed. Its child lives until the end of this."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.state_holder", str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        yield other


if __name__ == "__main__":
    with hold_state_file(Path(sys.argv[1])):
        if os.fork() == 0:
            sys.stdin.read()
            os._exit(0)
        print("held", flush=True)
        sys.stdin.read()
