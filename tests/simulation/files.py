"""What every write of the node's goes through: `os` and `open`, and all that is built on them, on a simulated disk.

They are replaced for the whole process, so that it does not matter who calls them: the store, `pathlib`, `tempfile`,
`zipfile` or `shutil`. Whatever else Python has to change a file with is noticed (`watch`) rather than lost.
"""

import builtins
import io
import os
import shutil
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from tests.simulation import threads
from tests.simulation.disk import Disk, Machines, aside, is_aside

_CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

_watcher: Callable[[Any], None] | None = None


class SimulatedFiles:
    """The functions in place of the real ones; what is not on a simulated disk, they leave to those."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._open: dict[int, str] = {}
        """The open files that are on a simulated disk."""
        self._real = {name: getattr(os, name) for name in REPLACED}
        self._real_open = io.open

    # Opening.

    def open(self, path: Any, flags: int, mode: int = 0o777, **kwargs: Any) -> int:
        # A worker may still read what a life of the node's has left.
        disk = self._disk(path) if flags & _WRITING else self._machines.find_living(path)
        if disk is None:
            file: int = self._real["open"](path, flags, mode, **kwargs)
            return file
        with aside():
            is_new = disk.opened(Path(path), flags)
            if flags & os.O_WRONLY:
                # The disk looks at what was there before a write.
                flags = flags & ~os.O_WRONLY | os.O_RDWR
            file = self._real["open"](path, flags, mode, **kwargs)
            if is_new:
                disk.made_file(file)
        self._open[file] = os.fspath(path)
        return file

    def open_file(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        """In place of `open`, also for a number that `os.open` gave."""
        place = self._open.get(file) if isinstance(file, int) else file
        disk = self._machines.find_living(place)
        if disk is None or not set(mode) & set("wax+"):
            if disk is not None and not is_aside():
                disk.reading()
            return self._real_open(file, mode, *args, **kwargs)
        number = file if isinstance(file, int) else os.open(file, _flags_of(mode), 0o666)
        raw = _File(number, "+" in mode, at_end="a" in mode)
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, kwargs.get("encoding") or "utf-8")

    def close(self, file: int) -> None:
        self._open.pop(file, None)
        self._real["close"](file)

    # Reading and writing.

    def pread(self, file: int, length: int, offset: int) -> bytes:
        disk = self._machines.find_living(self._open.get(file))
        if disk is not None and not is_aside():
            disk.reading()
        found: bytes = self._real["pread"](file, length, offset)
        return found

    def pwrite(self, file: int, data: Any, offset: int) -> int:
        disk = self._disk(self._open.get(file))
        if disk is None:
            written: int = self._real["pwrite"](file, data, offset)
            return written
        with aside():
            return disk.write(file, data, offset)

    def write(self, file: int, data: Any) -> int:
        if file not in self._open:
            written: int = self._real["write"](file, data)
            return written
        at = os.lseek(file, 0, os.SEEK_CUR)
        count = self.pwrite(file, data, at)
        os.lseek(file, at + count, os.SEEK_SET)
        return count

    def ftruncate(self, file: int, length: int) -> None:
        disk = self._disk(self._open.get(file))
        with aside():
            if disk is not None:
                disk.cutting(file)
            self._real["ftruncate"](file, length)

    def fdatasync(self, file: int) -> None:
        path = self._open.get(file)
        disk = self._disk(path)
        if disk is None or path is None:
            self._real["fdatasync"](file)
            return
        with aside():
            if os.path.isdir(path):
                disk.sync_directory(Path(path))
            else:
                disk.sync(file, Path(path))

    fsync = fdatasync

    # Directories.

    def unlink(self, path: Any, **kwargs: Any) -> None:
        self._change("unlink", lambda disk: disk.removing(Path(path)), path, **kwargs)

    remove = unlink

    def rmdir(self, path: Any, **kwargs: Any) -> None:
        self._change("rmdir", lambda disk: disk.removing(Path(path)), path, **kwargs)

    def rename(self, source: Any, target: Any, **kwargs: Any) -> None:
        self._change("rename", lambda disk: disk.renaming(Path(source), Path(target)), source, target, **kwargs)

    replace = rename

    def mkdir(self, path: Any, mode: int = 0o777, **kwargs: Any) -> None:
        self._change("mkdir", lambda disk: disk.made_directory(Path(path)), path, mode, **kwargs)

    def _change(self, name: str, note: Callable[[Disk], None], path: Any, *args: Any, **kwargs: Any) -> None:
        disk = self._disk(path)
        with aside():
            # What the kernel refuses, the disk never hears of.
            if disk is not None and os.path.lexists(path) != (name == "mkdir"):
                note(disk)
            self._real[name](path, *args, **kwargs)

    def statvfs(self, path: Any) -> os.statvfs_result:
        found: os.statvfs_result = self._real["statvfs"](path)
        disk = self._machines.find_living(path)
        if disk is None or not disk.is_full:
            return found
        fields = list(found)
        fields[4] = 0
        return os.statvfs_result(fields)

    def _disk(self, path: Any) -> Disk | None:
        """Where the node is about to do something: another thread may come first."""
        disk = self._machines.find(path)
        if disk is not None:
            threads.give_way()
        return disk


REPLACED = (
    "open", "close", "pread", "pwrite", "write", "ftruncate", "fdatasync", "fsync",
    "unlink", "remove", "rmdir", "rename", "replace", "mkdir", "statvfs",
)  # fmt: skip


class _File(io.RawIOBase):
    """A file object whose every access is one of the functions above."""

    def __init__(self, number: int, reads: bool, at_end: bool) -> None:
        self._number = number
        self._reads = reads
        self._at = os.fstat(number).st_size if at_end else 0

    def fileno(self) -> int:
        return self._number

    def readable(self) -> bool:
        return self._reads

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = os.pread(self._number, len(buffer), self._at)
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)

    def write(self, data: Any) -> int:
        count = os.pwrite(self._number, data, self._at)
        self._at += count
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: os.fstat(self._number).st_size}[whence]
        self._at = start + offset
        return self._at

    def truncate(self, size: int | None = None) -> int:
        length = self._at if size is None else size
        os.ftruncate(self._number, length)
        return length

    def close(self) -> None:
        if not self.closed:
            super().close()
            os.close(self._number)


def _flags_of(mode: str) -> int:
    access = os.O_RDWR if "+" in mode else os.O_WRONLY
    made = {"w": os.O_CREAT | os.O_TRUNC, "x": os.O_CREAT | os.O_EXCL, "a": os.O_CREAT}
    return access | os.O_CLOEXEC | next((flags for kind, flags in made.items() if kind in mode), 0)


@contextmanager
def simulated_files(machines: Machines, passed_by: Callable[[str], None]) -> Generator[None, None, None]:
    """`passed_by` is told of each change of a simulated disk that did not go through it."""
    files = SimulatedFiles(machines)

    def watch(path: Any) -> None:
        if machines.find_living(path) is not None:
            passed_by(os.fspath(path))

    with ExitStack() as patches:
        for name in REPLACED:
            patches.enter_context(mock.patch.object(os, name, getattr(files, name)))
        patches.enter_context(mock.patch.object(io, "open", files.open_file))
        patches.enter_context(mock.patch.object(builtins, "open", files.open_file))
        # By paths, not by the numbers of directories.
        patches.enter_context(mock.patch.object(shutil, "_use_fd_functions", False))
        patches.enter_context(_watched(watch))
        yield


@contextmanager
def _watched(watch: Callable[[Any], None]) -> Generator[None, None, None]:
    global _watcher
    _watcher = watch
    try:
        yield
    finally:
        _watcher = None


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if _watcher is None or is_aside():
        return
    if event in _CHANGES or (event == "open" and isinstance(args[2], int) and args[2] & _WRITING):
        _watcher(args[0])


sys.addaudithook(_audit)
