"""The data directory: one node at a time, one format, and entries that survive a power loss.

DIR/cairn.lock   held with flock by the running node, for as long as it lives
DIR/FORMAT       the format version of everything beside it
DIR/RULES        on a network, by which version of the rules its blocks were made
DIR/chain/       RocksDB
DIR/watermark    how far the chain and the journal have come for certain
DIR/journal/     the mempool's journal
DIR/snapshots/   the newest snapshots of the state, for other nodes to start from
DIR/dev/         on a dev chain, the snapshots that it can be reverted to
DIR/backup-copy/ while a backup is made, further names of the files of one moment
"""

import contextlib
import errno
import fcntl
import mmap
import os
import stat
import struct
import sys
import time
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog

from cairn import metrics
from cairn.build import DATA_FORMAT
from cairn.domain.errors import DirectoryInUse, StoreUnavailable, WrongFormat, reason_of
from cairn.domain.types import BlockHash
from cairn.heartbeat import Work, doing

LEAST_FREE_BYTES = 16 << 20
SLOW_SYNC_S = 0.5
"""A sync that takes longer is logged: whoever submits waits for it."""
BLOCK_BYTES = 512
"""The unit of `st_blocks`, whatever the disk's own blocks are."""
_FORMAT_PREFIX = "cairn data format "
FIRST_RELEASED_FORMAT = 6
"""Blocks of earlier ones are hashed otherwise, so no chain of theirs can be continued."""
BEGUN_TEXT = """\
The chain of this node was begun. While this file exists, the node refuses to start without that chain, for example
when the disk with the data directory is not mounted. Remove this file only to start over on purpose.
"""

_SLOT = struct.Struct(">QQ32s")
_NEWEST_AT = 0
"""The valid slot: 0 for none yet, else 1 or 2. The other one is written first, so a kill leaves a valid one."""
_SLOTS_AT = 8

log = structlog.get_logger("cairn.store")


def chain_path(directory: Path) -> Path:
    return directory / "chain"


def watermark_path(directory: Path) -> Path:
    return directory / "watermark"


def rules_path(directory: Path) -> Path:
    return directory / "RULES"


def snapshots_path(directory: Path) -> Path:
    return directory / "snapshots"


def journal_path(directory: Path) -> Path:
    return directory / "journal"


def dev_path(directory: Path) -> Path:
    return directory / "dev"


class Parts(NamedTuple):
    """Where the parts of a chain are: in a data directory, or in a snapshot that it is to be reverted to."""

    chain: Path
    watermark: Path
    journal: Path


def parts_in(directory: Path) -> Parts:
    return Parts(chain_path(directory), watermark_path(directory), journal_path(directory))


class DirectoryLock:
    """The right to write to a directory. The kernel takes it back when the process ends, however it ends."""

    def __init__(self, file: int) -> None:
        self._file = file

    @classmethod
    def acquire(cls, directory: Path) -> "DirectoryLock":
        """Make the directory if need be, and lock it. Raises `DirectoryInUse` naming the process that has it."""
        try:
            make_directory(directory)
            file = os.open(directory / "cairn.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as failure:
            raise StoreUnavailable(f"cannot use {directory}: {reason_of(failure)}") from failure
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = lock_holder(file)
            os.close(file)
            raise DirectoryInUse(f"{directory} is in use by the node with process id {holder}") from None
        except OSError as failure:
            os.close(file)
            raise StoreUnavailable(f"cannot lock {directory}: {reason_of(failure)}") from failure
        write_lock_holder(file)
        return cls(file)

    def release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def is_locked(directory: Path) -> bool:
    """Whether a node has the directory, as far as the system lists its locks; asked without touching the lock."""
    try:
        inode = os.stat(directory / "cairn.lock").st_ino
        locks = Path("/proc/locks").read_text()
    except OSError:
        return False
    return any(line.split()[1] == "FLOCK" and line.split()[5].endswith(f":{inode}") for line in locks.splitlines())


def lock_holder(file: int) -> str:
    """The id of the process that holds a lock file, for a message."""
    return os.pread(file, 20, 0).decode("ascii", "replace").strip() or "unknown"


def write_lock_holder(file: int) -> None:
    """Write our process id into a lock file. It is only for a message: a full disk must not make this fail."""
    with contextlib.suppress(OSError):
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)


def find_free_bytes(directory: Path) -> int:
    """The free space on the disk of a directory. Raises `StoreUnavailable`."""
    try:
        disk = os.statvfs(directory)
    except OSError as failure:
        raise StoreUnavailable(f"cannot look at the disk of {directory}: {reason_of(failure)}") from failure
    free_bytes = disk.f_bavail * disk.f_frsize
    metrics.STORE_FREE.set(free_bytes)
    return free_bytes


def check_room(directory: Path, more_bytes: int = 0) -> None:
    """Check that the disk has space to reopen the store, and for `more_bytes` more. Raises `StoreUnavailable`.

    A trial write would not do: a small one may still fit into a page that is already allocated.
    """
    free_bytes = find_free_bytes(directory)
    needed_bytes = LEAST_FREE_BYTES + more_bytes
    if free_bytes < needed_bytes:
        raise StoreUnavailable(f"the disk has {free_bytes:,} bytes left; at least {needed_bytes:,} are needed")


def size_on_disk(directory: Path) -> int:
    """Bytes that the files of a data directory occupy, as `du` counts them. Raises `StoreUnavailable`."""
    check_present(directory)
    # By file: snapshots of a dev chain are further names of the same files.
    blocks: dict[tuple[int, int], int] = {}
    try:
        for parent, _, names in os.walk(directory):
            for name in names:
                # The store removes files at any time.
                with contextlib.suppress(FileNotFoundError):
                    file = os.lstat(os.path.join(parent, name))
                    blocks[file.st_dev, file.st_ino] = file.st_blocks
    except OSError as failure:
        raise StoreUnavailable(f"cannot look at {directory}: {reason_of(failure)}") from failure
    return BLOCK_BYTES * sum(blocks.values())


def is_there(path: Path) -> bool:
    """Whether there is a file or directory of this name. Raises `StoreUnavailable` when that cannot be said.

    Not `Path.exists`, for which a disk that cannot be read is an empty one: in Python 3.14 for every error. Then a new
    chain would be begun beside the old one.
    """
    return _stat(path) is not None


def is_directory(path: Path) -> bool:
    """Whether there is a directory of this name. Raises `StoreUnavailable` when that cannot be said."""
    found = _stat(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def is_file(path: Path) -> bool:
    """Whether there is a regular file of this name. Raises `StoreUnavailable` when that cannot be said."""
    found = _stat(path)
    return found is not None and stat.S_ISREG(found.st_mode)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as failure:
        raise StoreUnavailable(f"cannot look for {path}: {failure.strerror}") from failure


def names_in(directory: Path) -> list[str]:
    """The names in a directory, none if there is no such directory. Raises `StoreUnavailable`.

    Not `Path.glob`, which finds nothing in a directory that cannot be read.
    """
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []
    except OSError as failure:
        raise StoreUnavailable(f"cannot look into {directory}: {failure.strerror}") from failure


def check_present(directory: Path) -> None:
    """For a directory that held a chain a moment ago: nothing may be made in it. Raises `StoreUnavailable`."""
    if not is_there(format_path(directory)):
        raise StoreUnavailable(f"the data directory {directory} is gone: bring it back; no new chain is started in it")


def check_parts(parts: Parts) -> None:
    """For the parts of a chain that was open a moment ago: each must still be there. Raises `StoreUnavailable`."""
    for part in (*parts, parts.chain / "CURRENT"):
        if not is_there(part):
            raise StoreUnavailable(f"{part} is gone: bring it back; no new one is started")


def check_unused(directory: Path) -> None:
    """For a directory without FORMAT: raises `WrongFormat` if there is data in it."""
    for part in (*parts_in(directory), snapshots_path(directory), dev_path(directory)):
        if has_files(part):
            raise WrongFormat(f"{part} holds data, but {format_path(directory)} does not say in which format")


def has_files(path: Path) -> bool:
    """Whether it is a file, or a directory with anything in it. Raises `StoreUnavailable`."""
    return bool(names_in(path)) if is_directory(path) else is_there(path)


def holds_chain(directory: Path) -> bool:
    """Whether any part of a chain is in it. Raises `StoreUnavailable`."""
    return any(map(has_files, (format_path(directory), *parts_in(directory))))


def mark_format(directory: Path) -> None:
    """Say that the directory is in our format. Raises `OSError`."""
    write_file(format_path(directory), f"{_FORMAT_PREFIX}{DATA_FORMAT}\n".encode())


def check_format(directory: Path) -> None:
    """Check that the directory is in our format. Raises `WrongFormat` or `StoreUnavailable`."""
    path = format_path(directory)
    try:
        found = path.read_text("ascii", "replace").strip()
    except OSError as failure:
        raise StoreUnavailable(f"cannot read {path}: {reason_of(failure)}") from failure
    if found != f"{_FORMAT_PREFIX}{DATA_FORMAT}":
        shown = found.removeprefix(_FORMAT_PREFIX)[:40]
        raise WrongFormat(
            f"{directory} is in format {shown!r}; this version of cairn reads format {DATA_FORMAT}: {_way_on(shown)}"
        )


def _way_on(found: str) -> str:
    """What to do with a directory of another format; docs/upgrades.md has the steps."""
    if not found.isdecimal():
        return "it was not written by cairn, or is damaged"
    if int(found) < FIRST_RELEASED_FORMAT:
        return "no release has written that one, and its blocks have other hashes: begin a new chain with its balances"
    older = "an older" if int(found) < DATA_FORMAT else "a newer"
    return (
        f"{older} version wrote it: with that one run `cairn export FILE --home HOME`, move the directory away, "
        "then run `cairn import FILE HOME` with this one"
    )


def format_path(directory: Path) -> Path:
    return directory / "FORMAT"


def make_directory(path: Path) -> None:
    """Make a directory and those above it, and put their entries on disk. Raises `OSError` or `StoreUnavailable`."""
    if is_directory(path):
        return
    make_directory(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
    sync_directory(path.parent)


def write_file(path: Path, content: bytes, *, is_synced: bool = True) -> None:
    """Write a file that only its owner can read; if it is synced, it is complete or absent after a power loss."""
    draft = path.with_name(path.name + ".new")
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_at(file, content, 0)
        if is_synced:
            sync_file(file)
    finally:
        os.close(file)
    draft.rename(path)
    if is_synced:
        sync_directory(path.parent)


def write_at(file: int, content: bytes, offset: int) -> None:
    """Write all of `content`: a single `pwrite` may stop short."""
    view = memoryview(content)
    while view:
        written = os.pwrite(file, view, offset)
        view = view[written:]
        offset += written


class Syncs:
    """Whether this process syncs what it writes."""

    are_left_out = False

    @classmethod
    def leave_out(cls) -> None:
        """The process writes only to a temporary directory, which is removed after a power loss, too (`temporary`).

        A process that is killed loses nothing that it has written: the kernel has it.
        """
        cls.are_left_out = True


@doing(Work.DISK)
def sync_file(file: int) -> None:
    """Sync the file's content to the disk. Raises `OSError`."""
    began = time.monotonic()
    if Syncs.are_left_out:
        pass
    elif sys.platform == "darwin":
        # On other systems fsync reaches the disk; on macOS it stops at the drive's cache.
        fcntl.fcntl(file, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(file)
    if time.monotonic() - began > SLOW_SYNC_S:
        tell_slow_sync(began, path_of(file))
    check_linked(file)


def begin_sync(file: int, offset: int, size: int) -> None:
    """Have the system begin to write a part of the file to disk, where it can be asked to; `sync_file` must follow."""
    if sys.platform == "linux" and not Syncs.are_left_out:
        # It says that the part is not read soon, upon which Linux writes it out, and does not wait for that.
        with contextlib.suppress(OSError):
            os.posix_fadvise(file, offset, size, os.POSIX_FADV_DONTNEED)


def tell_slow_sync(began: float, path: str) -> None:
    """Log a sync that took longer than `SLOW_SYNC_S`; `began` is by the monotonic clock."""
    # A command that keeps no log would print it among its answers.
    if structlog.is_configured():
        log.warning("a sync to disk took long", took_s=round(time.monotonic() - began, 2), file=path)


def path_of(file: int) -> str:
    """The path of an open file, where the system tells (Linux)."""
    try:
        return os.readlink(f"/proc/self/fd/{file}")
    except OSError:
        return "unknown"


def check_linked(file: int) -> None:
    """Check that the file still has a name: writes to a removed one succeed, but are lost. Raises `OSError`."""
    if os.fstat(file).st_nlink == 0:
        raise FileNotFoundError(errno.ENOENT, "the file was removed")


@doing(Work.DISK)
def sync_directory(path: Path) -> None:
    """Sync the directory's entries: a synced file whose name is not on disk is lost."""
    if Syncs.are_left_out:
        return
    began = time.monotonic()
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
    if time.monotonic() - began > SLOW_SYNC_S:
        tell_slow_sync(began, str(path))


class SeenHead(msgspec.Struct, frozen=True):
    height: int
    hash: BlockHash
    reverts: int
    """How often the dev chain was reverted; only a revert makes a chain shorter."""


class SeenChain:
    """The newest head that this node has had, so that it never mistakes another directory for its own.

    A data directory can vanish under a running node: a volume that is unmounted, a path that is removed. A core that
    reopens the chain then finds an empty directory, or an older copy, and cannot know from the disk what was there
    before. This memory does: it belongs to the supervisor and is shared with forked processes, so it outlives the core.

    A node that is started finds its directory empty when a volume is not mounted. So a home has a file beside its data
    directory that is made once the first chain is on disk: as long as it is there, no other chain is begun.
    """

    def __init__(self, begun_file: Path | None = None) -> None:
        """`begun_file` is outside of the data directory; None for a chain that nobody would miss."""
        self._begun_file = begun_file
        self._memory = mmap.mmap(-1, _SLOTS_AT + 2 * _SLOT.size)

    def note(self, head: SeenHead) -> None:
        slot = 2 if self._memory[_NEWEST_AT] == 1 else 1
        _SLOT.pack_into(self._memory, _offset(slot), head.height, head.reverts, head.hash)
        self._memory[_NEWEST_AT] = slot

    def find_begun_file(self) -> Path | None:
        """The file that says that a chain was begun, if there is one. Raises `StoreUnavailable`."""
        path = self._begun_file
        return path if path is not None and is_there(path) else None

    def note_begun(self) -> None:
        """A chain is on disk: from now on only that one is opened. Raises `OSError` or `StoreUnavailable`."""
        path = self._begun_file
        if path is not None and not is_there(path):
            write_file(path, BEGUN_TEXT.encode())

    def last(self) -> SeenHead | None:
        """None before the chain was first opened; only then may a new chain be started."""
        slot = self._memory[_NEWEST_AT]
        if slot == 0:
            return None
        height, reverts, block_hash = _SLOT.unpack_from(self._memory, _offset(slot))
        return SeenHead(height, BlockHash(block_hash), reverts)


def _offset(slot: int) -> int:
    return _SLOTS_AT + (slot - 1) * _SLOT.size
