"""Reverts closed dev chains, and is killed at one of the moments when it is about to change something on disk.

`python revert_process.py SNAPSHOT` reads paths of directories that hold the same chain, one per line. In the first it
comes to SIGKILL instead of the first change, in the second instead of the second, and so on; each time it prints how
that process ended, as `subprocess` would tell it: 0 where there are no more changes.
"""

import os
import signal
import sys
from pathlib import Path

from cairn.store.dev_snapshots import DevDirectory, finish_revert

CHANGES = {"os.rename", "os.mkdir", "shutil.rmtree"}
"""Files are removed only as whole directories that nobody looks at any more: one kill in front of each will do."""


class Killer:
    """An audit hook: Python tells it of every change before it is made."""

    def __init__(self, point: int) -> None:
        self._left = point

    def __call__(self, event: str, args: tuple[object, ...]) -> None:
        if event in CHANGES or (event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)):
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self._left -= 1


def revert(directory: Path, number: int, point: int) -> None:
    kept = DevDirectory(directory)
    sys.addaudithook(Killer(point))
    kept.decide_revert(number)
    finish_revert(directory)


def main() -> None:
    number = int(sys.argv[1])
    for point, line in enumerate(sys.stdin):
        # A process of its own for each, without a start of its own.
        child = os.fork()
        if child == 0:
            revert(Path(line.rstrip("\n")), number, point)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
