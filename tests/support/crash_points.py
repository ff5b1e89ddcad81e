"""Ends a process at each point where it changes a disk, one after the other."""

import os
import signal
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_CHANGES: list[tuple[Any, str]] = [
    (os, "link"),
    (os, "mkdir"),
    (os, "open"),
    (os, "rename"),
    (os, "unlink"),
    (os, "fsync"),
    (os, "fdatasync"),
    (os, "pwrite"),
]


def killed_at_each_point(work: Callable[[], object], every: int = 1) -> Iterator[int]:
    """Fork a process that does the work and is killed before a change of the disk; again, and later each time.

    After each of them its point is given. It ends when one has done all of the work, and raises `AssertionError` if
    that one failed.
    """
    point = 0
    while True:
        pid = os.fork()
        if pid == 0:
            _do(work, point)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSIGNALED(status):
            assert os.waitstatus_to_exitcode(status) == 0, f"the work failed by itself with status {status}"
            return
        yield point
        point += every


def _do(work: Callable[[], object], point: int) -> None:
    """In the fork. Never returns."""
    left = [point]
    code = 1
    try:
        for module, name in _CHANGES:
            setattr(module, name, _counted(getattr(module, name), left))
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _counted(change: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    def counted(*args: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return change(*args, **options)

    return counted


def entries(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()} if directory.exists() else set()
