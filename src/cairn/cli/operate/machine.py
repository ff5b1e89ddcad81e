"""What this machine says about itself: clock, disks, limits, memory, and who listens on a port."""

import ctypes
import ctypes.util
import os
import platform
import resource
import socket
import statistics
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cairn.processors import CGROUPS

SYNCS = 5
SYNCED_BYTES = 4_096
CONNECT_TIMEOUT_S = 2.0

_TIME_ERROR = 5
"""What adjtimex returns while nothing keeps the clock right."""
_TIMEX_BYTES = 512
_LISTENS = "0A"
_LIMIT_NAMES = {resource.RLIMIT_NOFILE: "Max open files", resource.RLIMIT_NPROC: "Max processes"}


class Space(NamedTuple):
    """What a disk has left for a user."""

    free_bytes: int
    free_files: int | None
    """None if the disk has no limit of them."""
    is_read_only: bool


class Machine:
    """This machine. Every figure is read when it is asked for."""

    def now(self) -> float:
        return time.time()

    def clock_is_kept(self) -> bool | None:
        """Whether a program keeps the clock right, as the kernel knows; None if it does not tell."""
        if platform.system() != "Linux":
            return None
        # With nothing but zeros it changes nothing.
        library = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
        state = library.adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
        return None if state < 0 else bool(state != _TIME_ERROR)

    def space(self, path: Path) -> Space:
        """What the disk of a path has left. Raises `OSError`."""
        disk = os.statvfs(path)
        files = disk.f_favail if disk.f_files else None
        return Space(disk.f_bavail * disk.f_frsize, files, bool(disk.f_flag & os.ST_RDONLY))

    def sync_seconds(self, directory: Path) -> float:
        """How long it takes to have a small write on disk, the median of a few. Raises `OSError`."""
        took = []
        # It has no name where the system can do that, and is gone whatever happens.
        with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
            for _ in range(SYNCS):
                begun = time.monotonic()
                file.write(bytes(SYNCED_BYTES))
                os.fsync(file.fileno())
                took.append(time.monotonic() - begun)
        return statistics.median(took)

    def owner(self, path: Path) -> int:
        """The user id. Raises `OSError`."""
        return path.lstat().st_uid

    def user(self) -> int:
        """The id of the user who runs this command."""
        return os.geteuid()

    def hard_limit(self, kind: int, pid: int | None) -> int | None:
        """How far this process, or another one, may raise a limit; None for no limit."""
        if pid is not None:
            with suppress(OSError, LookupError, ValueError):
                return _limit_of(Path(f"/proc/{pid}/limits").read_text(), _LIMIT_NAMES[kind])
        hard = resource.getrlimit(kind)[1]
        return None if hard == resource.RLIM_INFINITY else hard

    def memory_bytes(self, pid: int | None, cgroups: Path = CGROUPS) -> int | None:
        """What this process, or another one, may use: the machine's memory, or less by its container or service."""
        found = [
            *(_number(path) for path in _memory_files(Path(f"/proc/{pid or 'self'}/cgroup"), cgroups)),
            _total_memory(),
        ]
        return min((each for each in found if each is not None), default=None)

    def reaches(self, host: str, port: int) -> str | None:
        """Why nobody answers there; None if somebody does."""
        try:
            socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
        except OSError as failure:
            return failure.strerror or str(failure)
        return None

    def listener_of(self, port: int) -> str | None:
        """Name and id of the process that listens on a port, if this user may see it."""
        inodes = {f"socket:[{inode}]" for inode in _listening(port)}
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                for file in (process / "fd").iterdir():
                    if os.readlink(file) in inodes:
                        return f"{(process / 'comm').read_text().strip()} (process {process.name})"
        return None


def _limit_of(limits: str, name: str) -> int | None:
    for line in limits.splitlines():
        if line.startswith(name):
            hard = line.removeprefix(name).split()[1]
            return None if hard == "unlimited" else int(hard)
    raise LookupError(name)


def _memory_files(membership: Path, cgroups: Path) -> list[Path]:
    """Where the limits of a process' control group, and of those around it, are."""
    group = ""
    with suppress(OSError):
        for line in membership.read_text().splitlines():
            number, _, path = line.split(":", 2)
            if number == "0":
                group = path.strip("/")
    found = [cgroups / "memory.max", cgroups / "memory" / "memory.limit_in_bytes"]
    directory = cgroups
    for part in filter(None, group.split("/")):
        directory /= part
        found.append(directory / "memory.max")
    return found


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        # There is none, or it says "max".
        return None


def _total_memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def _listening(port: int) -> list[str]:
    """The inodes of the sockets that listen on a port, of any address."""
    inodes = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                _, local, _, state, *_, inode = line.split()[:10]
                if state == _LISTENS and int(local.rpartition(":")[2], 16) == port:
                    inodes.append(inode)
    return inodes
