"""How a command says what went wrong."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from cairn.domain.errors import InvalidConfig

EXIT_CONFIG = 2


@contextmanager
def reported_errors() -> Iterator[None]:
    """What the user can put right is one line on standard error, never a traceback."""
    try:
        yield
    except InvalidConfig as error:
        print(f"cairn: {error.detail}", file=sys.stderr)
        raise typer.Exit(EXIT_CONFIG) from None


def warn(text: str) -> None:
    print(f"cairn: warning: {text}", file=sys.stderr, flush=True)
