"""The standard streams as every command may expect them: open, and waited for while they take no more."""

import io
import os
import select
import sys
from contextlib import suppress
from typing import Any, Literal, TextIO


class PatientFile(io.FileIO):
    """Waits where a write would fail with `BlockingIOError`.

    Any program that shares a terminal or a pipe with us can make it non-blocking, at any time.
    """

    def write(self, content: Any, /) -> int:
        while True:
            try:
                return os.write(self.fileno(), content)
            except BlockingIOError:
                select.select([], [self], [])


def prepare_streams() -> None:
    """Call it before anything else opens a file."""
    if sys.stdin is None:
        sys.stdin = _open_nothing("r")
    if sys.stdout is None:
        sys.stdout = _open_nothing("w")
    if sys.stderr is None:
        sys.stderr = _open_nothing("w")
    # A stream that is no file, as in tests, has no number.
    with suppress(OSError):
        if not os.get_blocking(sys.stdout.fileno()):
            sys.stdout = _made_patient(sys.stdout)


def is_text(text: str) -> bool:
    """Whether it was made from UTF-8: of other bytes, Python makes halves of surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _open_nothing(mode: Literal["r", "w"]) -> TextIO:
    """A stand-in for a stream that was closed at the start (`cairn dev >&-`).

    It takes the stream's number, the lowest that is free. Otherwise the next file would, such as one of the store, and
    what is printed would be written into it.
    """
    number = os.open(os.devnull, os.O_RDWR)
    # As the standard streams are, so that the programs we start have them, too.
    os.set_inheritable(number, True)
    return open(number, mode, encoding="utf-8", errors="backslashreplace")


def _made_patient(stream: TextIO) -> TextIO:
    stream.flush()
    raw = PatientFile(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=True)
