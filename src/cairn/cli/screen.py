"""Output for people and for scripts: the same at a terminal and in a pipe, except for colour.

Also the standard streams as every command may expect them: open, and waited for while they take no more.
"""

import io
import json
import os
import re
import select
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal, TextIO

import msgspec
from rich.console import Console
from rich.text import Text

from cairn.domain.types import LATEST_TIME

Line = str | Text
GAP = "  "

_UNSEEN = re.compile(
    r"^ +| +\Z| {2,}|[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0]"
    r"|[\U0001d159\U000e0100-\U000e01ef]"
)
"""Printable, but nobody sees or can count it: spaces that are not between words, and letters that look like nothing."""


class Output(Console):
    """Neither wrapped nor read as markup, so that keys, paths and URLs can be copied."""

    def __init__(self, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, soft_wrap=True, markup=False, emoji=False)

    def on_broken_pipe(self) -> None:
        """The reader has closed the pipe (`cairn dev | head`); the command goes on."""
        drop_output()


def drop_output() -> None:
    """Discard further output: the pipe is closed, and Python must not fail at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def has_colour() -> bool:
    """Whether standard output is a terminal that shows colours, and nobody asked for none (NO_COLOR)."""
    output = Output()
    return output.color_system is not None and not output.no_color


def print_line(line: str, stream: TextIO | None = None) -> None:
    """Print one line, by default on standard output."""
    print(escaped(line), file=stream, flush=True)


def print_lines(lines: Iterable[Line]) -> None:
    Output().print(*map(plain, lines), sep="\n")
    sys.stdout.flush()


def is_confirmed(question: str) -> bool:
    """Whether the person at the terminal says yes."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def print_pairs(pairs: Sequence[tuple[str, Line]]) -> None:
    """The fields of one thing, a line for each."""
    width = max(len(name) for name, _ in pairs)
    print_lines(Text.assemble((f"{name:<{width}}{GAP}", "bold"), plain(value)) for name, value in pairs)


def print_table(headings: Sequence[str], rows: Sequence[Sequence[Line]]) -> None:
    """A table with a line for each item; numbers are aligned to the right, even where some are left out."""
    cells = [[plain(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(map(Text, headings), *cells, strict=True)]
    right = [
        bool(cells) and all(not row[index] or is_count(row[index]) for row in cells) for index in range(len(headings))
    ]
    print_lines(_row(row, widths, right) for row in ([Text(heading, "bold") for heading in headings], *cells))


def print_json(value: Any) -> None:
    """JSON as the node writes it: no spaces, exact integers, the API's field names."""
    print_line(json.dumps(msgspec.to_builtins(value), separators=(",", ":"), ensure_ascii=False))


def plain(value: Line) -> Text:
    """A copy, so that padding it changes nothing of the caller's; escaped, and then without its style."""
    if isinstance(value, Text) and value.plain.isprintable():
        return value.copy()
    return Text(escaped(value.plain if isinstance(value, Text) else value))


def escaped(text: str) -> str:
    """With escapes for what is not printable: control codes, and what turns the direction of writing.

    Each escape is JSON's, so that text which is JSON means the same afterwards.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _escape(letter) for letter in text)


def quoted(text: str) -> str:
    """Somebody else's text in quotes, with escapes for what is not seen.

    So it can neither seem to end and something else to begin, nor look like another text by what nobody sees.
    """
    text = text.replace("\\", r"\\").replace('"', r"\"")
    text = _UNSEEN.sub(lambda unseen: "".join(map(_escape, unseen[0])), text)
    return f'"{escaped(text)}"'


def _escape(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def data_text(reference: str | None, data: str | None) -> str:
    """What a transfer is for: its reference in quotes, or its data in hex if that is no text. Empty without data."""
    return escaped(data or "") if reference is None else quoted(reference)


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def shortened(address: str) -> str:
    """Both ends of an address."""
    return f"{address[:6]}…{address[-4:]}"


def counted(number: int, what: str) -> str:
    """So many of something, in words that fit one, too."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def is_count(cell: Text) -> bool:
    return cell.plain.split(" ")[0].lstrip("+−").replace(",", "").replace(".", "").isdigit()


def when(timestamp_s: float, now_s: float | None = None) -> str:
    """A moment in local time, and how long ago it was."""
    moment = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(timestamp_s))
    return f"{moment} ({ago(timestamp_s, now_s)})"


def utc(timestamp_s: int) -> str:
    """A moment in UTC, for whoever reads it somewhere else."""
    if timestamp_s > LATEST_TIME:
        return f"{timestamp_s} s after 1970"
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(timestamp_s))


def ago(timestamp_s: float, now_s: float | None = None) -> str:
    passed = int((time.time() if now_s is None else now_s) - timestamp_s)
    if passed < 1:
        return "now"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if passed >= 2 * size:
            return f"{passed // size} {unit} ago"
    return f"{passed} s ago"


def _row(cells: Sequence[Text], widths: Sequence[int], right: Sequence[bool]) -> Text:
    for cell, width, is_right in zip(cells, widths, right, strict=True):
        (cell.pad_left if is_right else cell.pad_right)(width - len(cell))
    line = Text(GAP).join(cells)
    line.rstrip()
    return line


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
    """Open those that are closed, and make standard output wait. Call it before anything else opens a file."""
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
