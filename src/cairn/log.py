"""How the node logs: one line an event on standard error, for people or as JSON; quiet while all is well."""

import io
import logging
import sys
from contextlib import suppress
from typing import TextIO

import structlog
from structlog.types import EventDict, ExcInfo, Processor, WrappedLogger

from cairn.domain.errors import Fatal


def configure_logging(level: str, style: str) -> None:
    """Send what we log, and what libraries log, the same way. Call once, before the first fork."""
    least = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper("iso", utc=True)
        if style == "json"
        else structlog.processors.TimeStamper("%H:%M:%S", utc=False),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        # Filters by class: a debug call below the level costs next to nothing.
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(style)],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    # Messages of libraries below a warning are shown at the level debug only.
    root.setLevel(least if least == logging.DEBUG else max(least, logging.WARNING))
    logging.getLogger("cairn").setLevel(least)


def print_fatal(failure: Fatal) -> None:
    """Say why the node ends. That nobody reads it any more must not change how the process ends."""
    with suppress(OSError):
        print(f"cairn: {type(failure).__name__}: {failure.detail}", file=sys.stderr, flush=True)


def _rendering(style: str) -> list[Processor]:
    if style == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return [
        _escape_values,
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_write_traceback),
    ]


def _escape_values(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    return {name: _escape(value) if isinstance(value, str) else value for name, value in event.items()}


def _write_traceback(file: TextIO, exc_info: ExcInfo) -> None:
    # The plain one on purpose: the rich one shows local variables, and those may be keys.
    plain = io.StringIO()
    structlog.dev.plain_traceback(plain, exc_info)
    file.write("\n".join(map(_escape, plain.getvalue().split("\n"))))


def _escape(text: str) -> str:
    """Escape control codes and line ends in what a client or a peer sent. JSON does that, too."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
