"""Whether what a test has started is paused, as by SIGSTOP: `Pace` asks, so that nobody counts that time."""

import os
from pathlib import Path

from tests.support.node_process import is_stopped


def is_any_child_paused() -> bool:
    """Whether any process is paused that this one started, or that those started."""
    return any(map(is_stopped, descendants(os.getpid())))


def descendants(pid: int) -> list[int]:
    """Every process below `pid`."""
    children: dict[int, list[int]] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                parent = int((directory / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(parent, []).append(int(directory.name))
    found = list(children.get(pid, ()))
    for each in found:
        found += children.get(each, ())
    return found
