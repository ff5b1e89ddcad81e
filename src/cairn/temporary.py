"""Temporary directories that are removed at the end, even if a signal ends the program while it makes or removes one.

After SIGKILL or a power loss, the next program removes them: each directory has a lock file that its owner's processes
hold while one of them lives, and making a directory first removes those whose lock is free.
"""

import fcntl
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

OWNER_NAME = ".owner"
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@contextmanager
def temporary_directory(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A private directory in `parent`, or where the system wants them. Only its owner may enter it.

    For a process without other threads: one of those would take the signal that is held back here.
    """
    parent = parent or Path(tempfile.gettempdir())
    remove_abandoned(prefix, parent)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    path, owner = None, -1
    try:
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        owner = _own(path)
        # A signal that came meanwhile is delivered here, where the directory is known.
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        yield path
    finally:
        try:
            # One that came just before strikes within this call.
            signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        finally:
            if path is not None:
                _remove(path)
            if owner >= 0:
                os.close(owner)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def keep(path: Path) -> Path:
    """Keep a temporary directory after its end, under another name, which is returned."""
    kept = path.rename(path.with_name(f"kept-{path.name}"))
    (kept / OWNER_NAME).unlink(missing_ok=True)
    return kept


def remove_abandoned(prefix: str, parent: Path) -> None:
    """Remove the directories of this user that nobody owns any more; others are left as they are."""
    with suppress(OSError):
        for path in parent.glob(f"{prefix}*"):
            # A link is not followed, and another user's directory is not even looked into.
            if path.lstat().st_uid == os.geteuid() and not path.is_symlink():
                _remove_if_abandoned(path)


def _remove_if_abandoned(path: Path) -> None:
    # Without the file it is being made at this moment, or is none of ours.
    with suppress(OSError):
        owner = os.open(path / OWNER_NAME, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)
        finally:
            os.close(owner)


def _remove(path: Path) -> None:
    """Remove as much as possible, the lock file last, so that an interrupted removal is completed next time."""
    with suppress(OSError):
        for entry in list(os.scandir(path)):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name != OWNER_NAME:
                os.unlink(entry.path)
    shutil.rmtree(path, ignore_errors=True)


def _own(path: Path) -> int:
    """Lock the directory as in use; the lock ends with the last process that has the file open."""
    draft = path / f"{OWNER_NAME}.new"
    owner = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(owner, fcntl.LOCK_EX)
        # Named only when locked, so that nobody finds it free.
        draft.rename(path / OWNER_NAME)
    except BaseException:
        os.close(owner)
        raise
    return owner
