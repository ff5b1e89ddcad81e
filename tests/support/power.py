"""What a power failure would leave of a directory, at any moment: nothing but what was synced.

Only syncs are watched, so it does not matter how a file was written. A file has the content of its own last sync (none
if there was no sync), under the names that its directory had at the directory's last sync; of removals since then, any
may have happened. RocksDB syncs its files by
itself, out of sight: a directory that holds a CURRENT is taken as it is.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

Inode = int


@dataclass(frozen=True, slots=True)
class Entry:
    path: Path
    inode: Inode
    is_directory: bool
    held: int
    """An open file: as long as it is held, no other file gets the inode."""


class Power:
    """Watches the directory `root`, whose present content counts as synced."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._contents: dict[Inode, bytes] = {}
        self._entries: dict[Inode, dict[str, Entry]] = {}
        self._held: list[int] = []
        self.syncs = 0
        self.before_sync: Callable[[], None] = lambda: None
        """Called before each sync, at a moment at which the power may fail."""
        for directory, _, names in os.walk(root):
            self._note_directory(Path(directory))
            for name in names:
                self._note_file(Path(directory, name))

    def leave(self, target: Path, without: Inode = -1) -> Path:
        """Write down what a power failure would leave now, `without` an inode that was removed since the last sync."""
        self._leave(self._root.stat().st_ino, target, without)
        return target

    def removed(self) -> list[Inode]:
        """What was removed, and may come back: each by itself, for a disk writes unsynced changes in any order."""
        return [
            entry.inode
            for entries in self._entries.values()
            for entry in entries.values()
            # Not what another file took the name of.
            if not entry.is_directory and os.fstat(entry.held).st_nlink == 0 and not entry.path.exists()
        ]

    def _leave(self, inode: Inode, target: Path, without: Inode) -> None:
        target.mkdir()
        for name, entry in self._entries.get(inode, {}).items():
            path = target / name
            if entry.inode == without:
                continue
            if not entry.is_directory:
                path.write_bytes(self._contents.get(entry.inode, b""))
            elif Path(f"/proc/self/fd/{entry.held}/CURRENT").exists():
                shutil.copytree(f"/proc/self/fd/{entry.held}", path)
            else:
                self._leave(entry.inode, path, without)

    def synced(self, file: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{file}"))
        if path.is_relative_to(self._root):
            self.syncs += 1
            if path.is_dir():
                self._note_directory(path)
            else:
                self._note_file(path)

    def _note_directory(self, path: Path) -> None:
        found: dict[str, Entry] = {}
        for child in os.scandir(path):
            held = os.open(child.path, os.O_RDONLY)
            self._held.append(held)
            found[child.name] = Entry(Path(child.path), child.inode(), child.is_dir(), held)
        self._entries[path.stat().st_ino] = found

    def _note_file(self, path: Path) -> None:
        if path.exists():
            self._contents[path.stat().st_ino] = path.read_bytes()

    def close(self) -> None:
        for file in self._held:
            os.close(file)


@contextmanager
def watched(root: Path) -> Iterator[Power]:
    """While this lasts, every sync of this process below `root` is known."""
    power = Power(root)
    real_fsync, real_fdatasync = os.fsync, os.fdatasync

    def sync(real: Callable[[int], None], file: int) -> None:
        power.before_sync()
        real(file)
        power.synced(file)

    with (
        mock.patch.object(os, "fsync", lambda file: sync(real_fsync, file)),
        mock.patch.object(os, "fdatasync", lambda file: sync(real_fdatasync, file)),
    ):
        try:
            yield power
        finally:
            power.close()
