"""How a command says what went wrong."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from cairn.domain.errors import InvalidConfig

EXIT_FAILED = 1
EXIT_CONFIG = 2


class CommandFailed(Exception):
    """What the command was to bring about did not happen, through no fault of its options."""


@contextmanager
def reported_errors() -> Iterator[None]:
    """What the user can put right is one line on standard error, never a traceback."""
    try:
        yield
    except InvalidConfig as error:
        print(f"cairn: {error.detail}", file=sys.stderr)
        raise typer.Exit(EXIT_CONFIG) from None
    except CommandFailed as failure:
        print(f"cairn: {failure}", file=sys.stderr)
        raise typer.Exit(EXIT_FAILED) from None


def warn(text: str) -> None:
    print(f"cairn: warning: {text}", file=sys.stderr, flush=True)
