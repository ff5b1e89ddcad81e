"""A directory for work that is not whole yet, one for each place: what a killed command left there is removed."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cairn.cli.report import CommandFailed

LOCK_FILE = "lock"


@contextmanager
def scratch_directory(path: Path) -> Iterator[Path]:
    """Make it, empty, and remove it at the end.

    Raises `CommandFailed` while another command works there, or if what has this name was not made by such a command.
    """
    lock = _locked(path)
    try:
        _clear(path)
        yield path
    finally:
        with suppress(OSError):
            # The lock last: what a killed command leaves is known by it.
            _clear(path)
            os.unlink(path / LOCK_FILE)
            path.rmdir()
        os.close(lock)


def _clear(path: Path) -> None:
    for entry in list(os.scandir(path)):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        elif entry.name != LOCK_FILE:
            os.unlink(entry.path)


def _check_ours(path: Path) -> None:
    """What is in it will be removed: it must be a directory that such a command has made, and no link to another."""
    if path.is_symlink() or not path.is_dir():
        raise CommandFailed(f"{path} is no directory of a command: move it away; nothing was removed")
    names = os.listdir(path)
    if names and LOCK_FILE not in names:
        raise CommandFailed(f"{path} holds what no command has left there: move it away; nothing was removed")


def _locked(path: Path) -> int:
    while True:
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        try:
            _check_ours(path)
        except FileNotFoundError:
            continue
        try:
            file = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            # Its last owner has just removed it.
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_in_place(file, path / LOCK_FILE):
                return file
        except BlockingIOError:
            os.close(file)
            raise CommandFailed(f"another command works in {path}: wait for its end") from None
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _is_in_place(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False
