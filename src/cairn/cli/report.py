"""How a command says what went wrong: a line on standard error that says what to do next, and an exit code."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import ClassVar

import typer

from cairn.config import EXIT_FATAL
from cairn.domain.errors import InvalidConfig


class ExitCode(IntEnum):
    """Every exit code of every command, with what it means."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> "ExitCode":
        code = int.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning
        return code

    DONE = 0, "done, or a clean stop"
    REFUSED = 1, "refused by the node or its network, or not confirmed by you"
    USAGE = 2, "a wrong option, setting or file"
    DATA = EXIT_FATAL, "a node's data cannot be used"
    NOT_FOUND = 4, "there is no such transaction, block or key"
    UNREACHABLE = 5, "the node does not answer, or cannot work now"
    TIMED_OUT = 6, "it did not happen in time, but still may"
    LOCKED = 7, "a wrong password"
    INTERRUPTED = 130, "Ctrl-C"


EXIT_CODES = "Exit codes: " + "; ".join(f"{code.value} {code.meaning}" for code in ExitCode) + "."


class CommandFailed(Exception):
    """What the command was to bring about did not happen, through no fault of its options."""

    exit_code: ClassVar[ExitCode] = ExitCode.REFUSED

    def __init__(self, detail: str, code: str = "") -> None:
        """`code` is the node's own, where the node said no."""
        super().__init__(detail)
        self.code = code or self.exit_code.name


class NotFound(CommandFailed):
    exit_code = ExitCode.NOT_FOUND


class Unreachable(CommandFailed):
    exit_code = ExitCode.UNREACHABLE


class TimedOut(CommandFailed):
    exit_code = ExitCode.TIMED_OUT


class WrongPassword(CommandFailed):
    exit_code = ExitCode.LOCKED


@contextmanager
def reported_errors(as_json: bool = False) -> Iterator[None]:
    """What the user can put right is one line on standard error, never a traceback."""
    try:
        yield
    except InvalidConfig as error:
        raise _exit(ExitCode.USAGE, ExitCode.USAGE.name, error.detail, as_json) from None
    except CommandFailed as failure:
        raise _exit(failure.exit_code, failure.code, str(failure), as_json) from None
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def _exit(exit_code: ExitCode, code: str, detail: str, as_json: bool) -> typer.Exit:
    problem = json.dumps({"exitCode": exit_code, "code": code, "detail": detail}, ensure_ascii=False)
    print(problem if as_json else f"cairn: {detail}", file=sys.stderr)
    return typer.Exit(exit_code)


def warn(text: str) -> None:
    print(f"cairn: warning: {text}", file=sys.stderr, flush=True)
