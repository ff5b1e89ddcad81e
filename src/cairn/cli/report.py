"""How a command fails: a line on standard error that says what to do next, and an exit code."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import ClassVar

import structlog
import typer

from cairn.cli.screen import drop_output, print_line
from cairn.config import EXIT_DIVERGED, EXIT_FATAL, EXIT_VERSION
from cairn.domain.errors import AddressUnavailable, InvalidConfig, StoreUnavailable


class ExitCode(IntEnum):
    """Every exit code of every command, with what it means."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> "ExitCode":
        code = int.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning
        return code

    DONE = 0, "done, or a clean stop"
    REFUSED = 1, "refused by the node or its network, not proven, something is wrong with the node, or you answered no"
    USAGE = 2, "a wrong option, setting or file"
    DATA = EXIT_FATAL, "a node's data cannot be used"
    NOT_FOUND = 4, "there is no such transaction, block or key"
    UNREACHABLE = 5, "the node does not answer, or cannot do it now"
    TIMED_OUT = 6, "it did not happen in time, but still may"
    LOCKED = 7, "a wrong password"
    DIVERGED = EXIT_DIVERGED, "the node's state differs from its network's"
    VERSION = EXIT_VERSION, "another version must continue: this one has different rules, or has reached halt_height"
    INTERRUPTED = 130, "Ctrl-C"


log = structlog.get_logger("cairn.node")


class Told:
    """How a command tells of failures and warnings: by lines for people, or by those of the node's log."""

    by_log = False


UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""The exception for every usage error of typer; its name depends on the version."""

EXIT_CODES = "Exit codes: " + "; ".join(f"{code.value} {code.meaning}" for code in ExitCode) + "."


class CommandFailed(Exception):
    """Why a command failed."""

    exit_code: ClassVar[ExitCode] = ExitCode.REFUSED

    def __init__(self, detail: str, code: str = "", tx_hash: str | None = None) -> None:
        """`code` is the node's error code, if the node refused; `tx_hash` is the transaction that it is about."""
        super().__init__(detail)
        self.code = code or self.exit_code.name
        self.tx_hash = tx_hash


class WrongUsage(CommandFailed):
    exit_code = ExitCode.USAGE


class DataUnusable(CommandFailed):
    exit_code = ExitCode.DATA


class NewerVersionNeeded(CommandFailed):
    exit_code = ExitCode.VERSION


class NoSuchItem(CommandFailed):
    exit_code = ExitCode.NOT_FOUND


class Unreachable(CommandFailed):
    exit_code = ExitCode.UNREACHABLE


class TimedOut(CommandFailed):
    exit_code = ExitCode.TIMED_OUT


class PasswordRefused(CommandFailed):
    exit_code = ExitCode.LOCKED


@contextmanager
def reported_errors(as_json: bool = False) -> Iterator[None]:
    """Print an expected failure as one line on standard error, without a traceback."""
    try:
        yield
    except AddressUnavailable as error:
        raise reported_exit(Unreachable(error.detail), as_json) from None
    except (InvalidConfig, StoreUnavailable) as error:
        raise reported_exit(WrongUsage(error.detail), as_json) from None
    except CommandFailed as failure:
        raise reported_exit(failure, as_json) from None
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except BrokenPipeError:
        # The reader has closed the pipe (`cairn watch | head`).
        drop_output()
        raise typer.Exit(ExitCode.DONE) from None


def reported_exit(failure: CommandFailed, as_json: bool) -> typer.Exit:
    """The exit, after the line that says why."""
    if Told.by_log:
        log.critical("the node cannot start", code=failure.code, exit_code=int(failure.exit_code), reason=str(failure))
        return typer.Exit(failure.exit_code)
    about = {"code": failure.code} | ({} if failure.tx_hash is None else {"txHash": failure.tx_hash})
    fields = {"exitCode": failure.exit_code} | about | {"detail": str(failure)}
    problem = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    print_line(problem if as_json else f"cairn: {failure}", sys.stderr)
    return typer.Exit(failure.exit_code)


def warn(text: str) -> None:
    if Told.by_log:
        log.warning("a warning about the settings", reason=text)
        return
    print_line(f"cairn: warning: {text}", sys.stderr)
