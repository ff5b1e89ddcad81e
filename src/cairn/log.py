"""How the node logs: one line an event on standard error, for people or as JSON; quiet while all is well.

A line that is like one of the last minute is held back, and told once a minute with the number of its kind (`Repeats`).
Where standard error is the system's journal, each line begins with its priority, which the journal takes off.
"""

import io
import logging
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, TextIO

import structlog
from structlog.types import EventDict, ExcInfo, Processor, WrappedLogger

from cairn.domain.errors import Fatal

REPEAT_S = 60.0
"""A line of the same kind is told once in this time."""
MOST_KINDS = 256
"""Kinds of lines that are remembered; with more, the one that was told longest ago is forgotten."""
MOST_LIKE_IT = 16
"""Kinds with the same text. What strangers send is in some reasons: with more of them all others are of one kind."""
NAMES = ("process", "part", "peer", "validator", "proposer", "added", "removed", "changed", "missing")
"""Fields that make two lines with the same text different kinds: node2 is not node3."""
CAUSES = ("file", "work", "how", "reason")
"""Fields that do so apart from numbers in them. All others may differ."""
ENDS = {
    "the node is not ready": "the node is ready again",
    "the disk is nearly full": "the disk has enough free space again",
    "the network makes no blocks": "the network makes blocks again",
    "a peer is lost": "a peer is connected",
}
"""The line that each state ends with. Once its beginning is told, its end is no repeat: nobody must wait for it."""
TRACE = "stack"
"""The field of a text that has several lines, such as a trace: in the style for people they follow the line."""

log = structlog.get_logger("cairn.log")


def configure_logging(level: str, style: str) -> None:
    """Send what we log, and what libraries log, the same way. Call before the first fork, and after each change."""
    tell_repeats(is_last=True)
    least = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper("iso", utc=True)
        if style == "json"
        else structlog.processors.TimeStamper("%Y-%m-%d %H:%M:%S", utc=False),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        # Filters by class: a debug call below the level costs next to nothing.
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    handler = LineHandler(sys.stderr)
    handler.setFormatter(
        LineFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(style)],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    # Messages of libraries below a warning are shown at the level debug only.
    root.setLevel(least if least == logging.DEBUG else max(least, logging.WARNING))
    logging.getLogger("cairn").setLevel(least)


def log_uncaught() -> None:
    """Log what would be printed as it is: tracebacks of errors that nobody catches, and warnings of libraries."""
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = lambda failed: log.error("a thread failed", exc_info=failed.exc_value)
    sys.unraisablehook = lambda failed: log.error("an error could not be raised", exc_info=failed.exc_value)


def _uncaught(kind: type[BaseException], failure: BaseException, trace: TracebackType | None) -> None:
    log.critical("a process fails by an error in the program", exc_info=failure)


def print_fatal(failure: Fatal) -> None:
    """Say why the node ends. That nobody reads it any more must not change how the process ends."""
    reason = f"{type(failure).__name__}: {failure.detail}"
    if structlog.is_configured():
        log.critical("the node cannot go on", reason=reason)
    else:
        with suppress(OSError):
            print(f"cairn: {reason}", file=sys.stderr, flush=True)


# Repeats.

_Kind = tuple[tuple[str, str], tuple[object, ...]]
"""The logger and the text of a line, and what else makes it different from others."""
_DIGITS = re.compile("[0-9]+")


class Repeats:
    """Which lines are written now. One that is like another of the last minute waits for the end of that minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told_at: dict[_Kind, float] = {}
        """When each kind was told last, the earliest first."""
        self._held: dict[_Kind, tuple[logging.LogRecord, int]] = {}
        """The latest line of each kind since then, and how many there were."""
        self._like_it: Counter[tuple[str, str]] = Counter()
        """How many kinds there are of each text."""

    def take(self, record: logging.LogRecord) -> Iterator[logging.LogRecord]:
        """The lines to write now that there is this one."""
        kind, now = self._kind_of(record), self._clock()
        told_at = self._told_at.get(kind)
        if told_at is not None and now - told_at < REPEAT_S:
            _, times = self._held.get(kind, (record, 0))
            self._held[kind] = record, times + 1
            return
        yield from self._forget(kind)
        if len(self._told_at) >= MOST_KINDS:
            yield from self._forget(next(iter(self._told_at)))
        yield from self._tell(kind, now, record)

    def due(self) -> Iterator[logging.LogRecord]:
        """What was held back for a minute."""
        now = self._clock()
        kinds = [kind for kind, told_at in self._told_at.items() if now - told_at >= REPEAT_S]
        for kind in sorted(kinds, key=lambda each: self._held[each][0].created if each in self._held else 0.0):
            for record in self._forget(kind):
                yield from self._tell(kind, now, record)

    def rest(self) -> Iterator[logging.LogRecord]:
        """All that was held back: this is the end."""
        for kind in list(self._held):
            yield from self._forget(kind)

    def clear(self) -> None:
        """Forget everything: the process that it was of tells it."""
        self._told_at.clear()
        self._held.clear()
        self._like_it.clear()

    def _tell(self, kind: _Kind, now: float, record: logging.LogRecord) -> Iterator[logging.LogRecord]:
        """This line, and before or after it the end of that state that was held back."""
        self._told_at[kind] = now
        self._like_it[kind[0]] += 1
        (logger, text), _ = kind
        end = logger, ENDS.get(text)
        ends = [each for other in list(self._told_at) if other[0] == end for each in self._forget(other)]
        yield from sorted([record, *ends], key=lambda each: each.created)

    def _forget(self, kind: _Kind) -> Iterator[logging.LogRecord]:
        if self._told_at.pop(kind, None) is not None:
            self._like_it[kind[0]] -= 1
            if not self._like_it[kind[0]]:
                del self._like_it[kind[0]]
        held = self._held.pop(kind, None)
        if held is not None:
            yield _with_times(*held)

    def _kind_of(self, record: logging.LogRecord) -> _Kind:
        event = record.msg
        if not isinstance(event, Mapping):
            return (record.name, str(event)), ()
        text = record.name, str(event["event"])
        failure = event.get("exc_info")
        cause = type(failure) if isinstance(failure, BaseException) else sys.exc_info()[0] if failure else None
        names = (str(event.get(name)) for name in NAMES)
        causes = (_DIGITS.sub("0", str(event.get(name))) for name in CAUSES)
        kind: _Kind = text, (cause, *names, *causes)
        return kind if kind in self._told_at or self._like_it[text] < MOST_LIKE_IT else (text, ())


def _with_times(record: logging.LogRecord, times: int) -> logging.LogRecord:
    if isinstance(record.msg, dict):
        # The first one had the traceback. To keep this one would keep all that its frames refer to.
        record.msg = {name: value for name, value in record.msg.items() if name != "exc_info"} | {"repeated": times}
    else:
        record.msg, record.args = f"{record.getMessage()} (repeated {times} times)", None
    return record


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes lines, each kind at most once a minute. All its methods hold the handler's lock."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.repeats = Repeats()

    def emit(self, record: logging.LogRecord) -> None:
        # Whoever wants every line wants every line.
        if record.levelno <= logging.DEBUG:
            super().emit(record)
            return
        for each in self.repeats.take(record):
            super().emit(each)

    def tell(self, *, is_last: bool = False) -> None:
        self.acquire()
        try:
            for each in self.repeats.rest() if is_last else self.repeats.due():
                super().emit(each)
        finally:
            self.release()


def tell_repeats(*, is_last: bool = False) -> None:
    """Write what was held back for a minute, or, at the end of a process, all of it. Call it about once a second."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LineHandler):
            handler.tell(is_last=is_last)


def keep_telling(call_later: Callable[[float, Callable[[], None]], object]) -> None:
    """Write what was held back, when it is due, from now on, in the event loop of `call_later`."""
    tell_repeats()
    call_later(1.0, lambda: keep_telling(call_later))


def _begin_fork() -> None:
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LineHandler):
            handler.repeats.clear()


os.register_at_fork(after_in_child=_begin_fork)


# Lines.


class LineFormatter(structlog.stdlib.ProcessorFormatter):
    """Puts its priority before each line, where the journal reads it (sd-daemon(3))."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._is_journal = is_journal(sys.stderr)

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        if not self._is_journal:
            return text
        mark = f"<{_PRIORITIES.get(record.levelno, 5)}>"
        return mark + text.replace("\n", f"\n{mark}")


_PRIORITIES = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}


def is_journal(stream: TextIO) -> bool:
    """Whether the system's journal reads this stream: systemd names its device and number (systemd.exec(5))."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def _rendering(style: str) -> list[Processor]:
    if style == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    return [
        _escape_values,
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_write_traceback),
    ]


def _escape_values(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    return {
        name: (_escape_lines(value) if name == TRACE else _escape(value)) if isinstance(value, str) else value
        for name, value in event.items()
    }


def _write_traceback(file: TextIO, exc_info: ExcInfo) -> None:
    # The plain one on purpose: the rich one shows local variables, and those may be keys.
    plain = io.StringIO()
    structlog.dev.plain_traceback(plain, exc_info)
    file.write(_escape_lines(plain.getvalue()))


def _escape_lines(text: str) -> str:
    return "\n".join(map(_escape, text.split("\n")))


def _escape(text: str) -> str:
    """Escape control codes and line ends in what a client or a peer sent. JSON does that, too."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
