"""Pauses of what a test has started, such as SIGSTOP makes: whoever measures time must not count them."""

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tests.support.node_process import is_stopped

LOOK_S = 0.1


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


class Pauses:
    """A thread that looks at some processes, or at all that this one started, now and then."""

    def __init__(self, pids: Sequence[int] | None = None) -> None:
        self.total_s = 0.0
        """While any of them was paused; rather a little more than less."""
        self._pids = pids
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        looked_at = time.monotonic()
        was_paused = False
        while not self._ended.wait(LOOK_S):
            pids = descendants(os.getpid()) if self._pids is None else self._pids
            is_paused = any(map(is_stopped, pids))
            now = time.monotonic()
            if is_paused or was_paused:
                self.total_s += now - looked_at
            looked_at, was_paused = now, is_paused

    def __enter__(self) -> "Pauses":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
