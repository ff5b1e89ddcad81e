"""Which node runs in a home directory: it says so in `running.json`, for the commands that look after a node.

The processes of the node hold a lock on the file while one of them lives, so what a killed node leaves behind is never
taken for a running one, whatever has its process id by then.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import structlog

from cairn.domain.errors import StoreUnavailable, reason_of
from cairn.store.directory import write_at

RUNNING_FILE = "running.json"

log = structlog.get_logger("cairn.node")


class RunningNode(msgspec.Struct, frozen=True, rename="camel"):
    """A node that runs on this machine."""

    pid: int
    """Its supervisor."""
    url: str
    """Where it answers on this machine."""
    metrics_url: str | None
    runtime_dir: str
    version: str
    started_at: int
    """Unix time in whole seconds."""

    @property
    def core_socket(self) -> Path:
        return core_socket_in(Path(self.runtime_dir))


def core_socket_in(runtime_dir: Path) -> Path:
    return runtime_dir / "core.sock"


def find_running(home: Path) -> RunningNode | None:
    """The node that runs in `home`, if any. Raises `StoreUnavailable` when that cannot be said."""
    path = home / RUNNING_FILE
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as failure:
        raise StoreUnavailable(f"cannot read {path}: {failure.strerror}") from None
    try:
        # Shared, so that two who look at once do not take each other for the node.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _decoded(path, os.pread(file, os.fstat(file).st_size, 0))
    except OSError as failure:
        raise StoreUnavailable(f"cannot lock {path}: {failure.strerror}") from None
    finally:
        os.close(file)
    return None


@contextmanager
def announced(home: Path | None, node: RunningNode) -> Iterator[None]:
    """Say in `home` that the node runs, until the end of the `with` block; None for one that no command looks after.

    A node that cannot write there runs all the same, as one whose home is read-only. Enter it before the first fork:
    then all processes hold the lock.
    """
    held = None if home is None else _announce(home, node)
    try:
        yield
    finally:
        if home is not None and held is not None:
            _withdraw(home / RUNNING_FILE, held)


def _announce(home: Path, node: RunningNode) -> int | None:
    """Write the file; returns it, locked, or None when that was not possible."""
    try:
        with _alone(home):
            # Its core will refuse to start: the other one has the data directory.
            if find_running(home) is not None:
                return None
            return _write_locked(home / RUNNING_FILE, msgspec.json.encode(node))
    except (OSError, StoreUnavailable) as failure:
        log.warning(
            "cannot write down that the node runs, so commands for it do not find it", reason=reason_of(failure)
        )
        return None


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Keep others from announcing a node in `home` meanwhile. Raises `OSError` if one does so right now."""
    directory = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(directory)


def _write_locked(path: Path, content: bytes) -> int:
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        write_at(file, content, 0)
        # Named only when it is locked and complete. Not synced: after a power loss no node runs.
        draft.rename(path)
    except BaseException:
        os.close(file)
        raise
    return file


def _withdraw(path: Path, held: int) -> None:
    with suppress(OSError):
        if os.path.samestat(os.fstat(held), os.stat(path)):
            path.unlink()
    os.close(held)


def _decoded(path: Path, content: bytes) -> RunningNode:
    try:
        return msgspec.json.decode(content, type=RunningNode)
    except msgspec.DecodeError as error:
        raise StoreUnavailable(f"a node runs in {path.parent}, but {path} cannot be read: {error}") from None
