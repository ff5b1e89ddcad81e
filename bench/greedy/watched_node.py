"""`cairn`, with a note of the longest time that a callback held an event loop, in each of its processes.

uvloop's callbacks cannot be watched, so the node runs on asyncio's loop here, which runs the same code.
"""

import asyncio
import os
import sys
import time
from asyncio.events import Handle
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import uvloop

from cairn.cli.main import app

NOTES = "GREEDY_NOTES"
"""Names the directory for the notes."""


LEAST_NOTED_S = 0.0005


class Watch:
    """By processor time: on a machine that others use, a process may be put off at any moment."""

    def __init__(self) -> None:
        self._longest_s = 0.0
        self._run = Handle._run

    def begin(self) -> None:
        watch = self

        def run(handle: Handle) -> None:
            began = time.thread_time()
            watch._run(handle)
            held_s = time.thread_time() - began
            if held_s > LEAST_NOTED_S:
                watch.note(held_s, repr(handle))

        Handle._run = run  # type: ignore[method-assign, assignment]

    def note(self, held_s: float, what: str) -> None:
        path = Path(os.environ[NOTES], str(os.getpid()))
        # Whoever reads the notes removes them: then it begins anew.
        if not path.exists():
            self._longest_s = 0.0
        if held_s > self._longest_s:
            self._longest_s = held_s
            path.write_text(f"{held_s * 1_000:.3f} {what}")


def run_on_asyncio(coroutine: Coroutine[Any, Any, object]) -> object:
    return asyncio.run(coroutine)


def take_notes(directory: Path) -> dict[int, tuple[float, str]]:
    """The longest hold in milliseconds since the last call, and what it was, by process."""
    notes = {}
    for path in directory.iterdir():
        held_ms, _, what = path.read_text().partition(" ")
        notes[int(path.name)] = float(held_ms or 0), what
        path.unlink()
    return notes


if __name__ == "__main__":
    Watch().begin()
    uvloop.run = run_on_asyncio  # type: ignore[assignment]
    sys.argv[0] = "cairn"
    app()
