"""Where secrets come from: a prompt that does not show them, a file, a variable; never the command line."""

import getpass
import os
import sys
from contextlib import suppress
from pathlib import Path

from cairn.cli.shared.streams import is_text
from cairn.domain.errors import InvalidConfig

VARIABLE = "CAIRN_PASSWORD"
UNDECODED = "\udcff"
"""Stands for bytes that are not UTF-8."""


def read_password(file: Path | None, prompt: str, confirm: bool = False) -> str:
    """From `file`, else the variable, else asked for, twice with `confirm`. Raises `InvalidConfig` without a source."""
    if file is not None:
        password = _first_line(file)
    elif VARIABLE in os.environ:
        password = os.environ[VARIABLE]
    else:
        password = ask_secret(prompt, f"--password-file FILE or {VARIABLE}")
        if confirm and ask_secret("Again: ", "") != password:
            raise InvalidConfig("the two passwords differ; nothing was written")
    if not password:
        raise InvalidConfig("an empty password protects nothing; nothing was done")
    return password


def ask_secret(prompt: str, otherwise: str) -> str:
    """Ask at the terminal, even when standard input is a pipe. Raises `InvalidConfig` when nobody is there."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        raise InvalidConfig(f"there is no terminal to ask at; use {otherwise}") from None
    try:
        typed = getpass.getpass(prompt)
    except EOFError:
        raise InvalidConfig("nothing was typed; nothing was done") from None
    except UnicodeDecodeError:
        typed = UNDECODED
    if not is_text(typed):
        raise InvalidConfig("what was typed is not text in UTF-8; nothing was done")
    return typed


def read_secret(file: Path | None, prompt: str) -> str:
    """A key or words: from `file`, from standard input when it is a pipe or `-`, else asked for."""
    if file is None and sys.stdin.isatty():
        return ask_secret(prompt, "a file or standard input")
    if file is None or str(file) == "-":
        return _standard_input()
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is not text'}") from None


def _standard_input() -> str:
    with suppress(UnicodeDecodeError):
        text = sys.stdin.read()
        if is_text(text):
            return text
    raise InvalidConfig("standard input is not text in UTF-8")


def _first_line(file: Path) -> str:
    try:
        with file.open() as lines:
            return lines.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is not text'}") from None
