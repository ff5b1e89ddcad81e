"""`cairn`, with a note of the longest time that a callback held an event loop, in each of its processes.

uvloop's callbacks cannot be watched, so the node runs on asyncio's loop here, which runs the same code.
"""

import asyncio
import os
import socket
import sys
import time
from asyncio import selector_events
from asyncio.events import Handle
from collections import deque
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
        # Whoever reads the notes removes them: then it begins again.
        if not path.exists():
            self._longest_s = 0.0
        if held_s > self._longest_s:
            self._longest_s = held_s
            path.write_text(f"{held_s * 1_000:.3f} {what}")


class UncopiedTransport(selector_events._SelectorSocketTransport):  # type: ignore[name-defined, misc]
    """A socket of asyncio's loop that keeps what it cannot send yet, as uvloop does.

    Until Python 3.12, asyncio copies that twice: 2 to 10 ms for a full block, which nobody waits for in a real node.
    """

    _buffer_factory = deque

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self._buffer))

    def write(self, data: bytes) -> None:
        if not data or self._conn_lost:
            return
        self._buffer.append(memoryview(data))
        if len(self._buffer) == 1:
            self._loop._add_writer(self._sock_fd, self._write_ready)
            self._write_ready()
        self._maybe_pause_protocol()

    def _write_ready(self) -> None:
        if self._conn_lost:
            return
        try:
            sent = self._sock.send(self._buffer[0])
        except (BlockingIOError, InterruptedError):
            return
        except OSError as failure:
            self._loop._remove_writer(self._sock_fd)
            self._buffer.clear()
            self._fatal_error(failure)
            return
        rest = self._buffer.popleft()[sent:]
        if rest:
            self._buffer.appendleft(rest)
        self._maybe_resume_protocol()
        if not self._buffer:
            self._loop._remove_writer(self._sock_fd)
            if self._closing:
                self._call_connection_lost(None)
            elif self._eof:
                self._sock.shutdown(socket.SHUT_WR)


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
    selector_events._SelectorSocketTransport = UncopiedTransport  # type: ignore[attr-defined]
    uvloop.run = run_on_asyncio  # type: ignore[assignment]
    sys.argv[0] = "cairn"
    app()
