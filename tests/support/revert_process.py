"""Reverts a closed dev chain, and is killed at one of the moments when it is about to change something on disk.

`python revert_process.py DIR SNAPSHOT POINT`: SIGKILL instead of change number POINT, counted from 0. Ends well when
there are fewer.
"""

import os
import signal
import sys
from pathlib import Path

from cairn.store.rewind import DevDirectory, finish_revert

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


def main() -> None:
    directory, number, point = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    kept = DevDirectory(directory)
    sys.addaudithook(Killer(point))
    kept.decide_revert(number)
    finish_revert(directory)


if __name__ == "__main__":
    main()
