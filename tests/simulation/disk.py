"""A machine's disk that fails, tears and forgets, below the node's real files.

What the node writes through `os` and `pathlib` goes to real files, but each file has a second content: what is on the
platter. A write changes the file only; a sync copies the sectors written since to the platter. After a power loss the
node finds the platter, with any of the sectors that were on their way. After a failed sync the sectors count as written
though they are not, as Linux has it. Entries of directories work alike: made, renamed and removed ones may be taken
back, the latest first, until their directory is synced.

RocksDB writes its files itself, so its log is cut instead: a power loss leaves any part of what was not synced.
A dead machine writes nothing more: from its last moment on, each operation raises `Crash`.
"""

import errno
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

SECTOR = 512
FaultKind = Literal["kill", "power", "write", "short", "sync", "refuse"]
"""The process ends; the machine does; a write fails half done; a write stops short; a sync fails; nothing is done."""
FAULTS: dict[FaultKind, str] = {
    "kill": "kills within a write",
    "power": "power losses within a write",
    "write": "writes that failed half done",
    "short": "writes that stopped short",
    "sync": "syncs that failed",
    "refuse": "operations that were refused",
}
"""What the report of a run calls them."""
HEADER_BYTES = 40
"""A segment of the journal that has no more holds nothing yet."""
NOT_COPIED = ("LOG", "LOCK", "cairn.lock")
"""What no start reads: RocksDB's own messages, and locks."""


class Crash(BaseException):
    """The process is gone at this very write. Nothing catches it but the simulator."""


class Fault(NamedTuple):
    at_op: int
    """When so many operations were made."""
    kind: FaultKind
    seed: int


@dataclass
class FileState:
    """A file whose platter may differ from what the kernel shows."""

    platter: bytes
    dirty: set[int] = field(default_factory=set)
    """Sectors written since the last sync."""

    def synced(self, shown: bytes) -> None:
        content = bytearray(self.platter)
        _extend(content, len(shown))
        for sector in self.dirty:
            start = sector * SECTOR
            content[start : start + SECTOR] = shown[start : start + SECTOR]
        self.platter = bytes(content)
        self.dirty.clear()

    def after_power_loss(self, shown: bytes, rng: random.Random) -> bytes:
        """All, none or any of the sectors on their way have arrived; so may the file's length."""
        share = rng.choice((0.0, 0.5, 1.0))
        arrived = [sector for sector in sorted(self.dirty) if rng.random() < share]
        content = bytearray(self.platter)
        if arrived or rng.random() < share:
            _extend(content, len(shown))
        for sector in arrived:
            start = sector * SECTOR
            content[start : start + SECTOR] = shown[start : start + SECTOR]
        return bytes(content)


def _extend(content: bytearray, size: int) -> None:
    if len(content) < size:
        content += bytes(size - len(content))


@dataclass
class Entry:
    """A change of a directory that may be taken back, with what it replaced or removed."""

    kind: Literal["made", "moved", "removed"]
    directories: tuple[Path, ...]
    """The sync of any of them makes it last."""
    path: Path
    source: Path | None = None
    content: bytes | None = None


class Disk:
    """One machine's. Every crash leaves an image of itself, from which the next life goes on."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lives = 0
        self.path = root / "0"
        """The data directory of the present life."""
        os.makedirs(self.path)
        self._files: dict[int, FileState] = {}
        self._entries: list[Entry] = []
        self._logs: dict[int, int] = {}
        """How much of each of RocksDB's logs is on the platter."""
        self._journal_ends: dict[int, int] = {}
        """How far each segment of the journal was written when it was synced last."""
        self._anchored: dict[int, int] = {}
        """The same, as of the newest block."""
        self.ops = 0
        self.fault: Fault | None = None
        self.is_dead = False
        self.on_death: Callable[[], None] = lambda: None
        self.is_full = False
        self.met: Counter[str] = Counter()
        """What became of its files, for the report of a run."""

    # Faults.

    def arm(self, after_ops: int, kind: FaultKind, seed: int) -> None:
        self.fault = Fault(self.ops + after_ops, kind, seed)

    def _next_fault(self) -> Fault | None:
        """Count an operation; what is to go wrong with it, if anything."""
        if self.is_dead:
            raise Crash
        self.ops += 1
        fault = self.fault
        if fault is None or self.ops < fault.at_op:
            return None
        self.fault = None
        self.met[FAULTS[fault.kind]] += 1
        return fault

    def crash(self, power: bool, seed: int) -> None:
        """End this life, now: what follows in this process leaves no trace."""
        rng = random.Random(seed)
        self.met["power losses" if power else "kills"] += 1
        self._lives += 1
        image = self._root / str(self._lives)
        self._files, self._logs = self._copy(image, power, rng)
        # The files of the next life are others.
        self._journal_ends, self._anchored = {}, {}
        if power:
            kept = rng.randrange(len(self._entries) + 1)
            for entry in reversed(self._entries[kept:]):
                self.met["entries of directories lost"] += 1
                self._take_back(entry, image)
            self._entries.clear()
        else:
            self._entries = [_moved(entry, self.path, image) for entry in self._entries]
        self.previous, self.path = self.path, image
        self.is_dead = True
        self.on_death()

    def revive(self) -> None:
        shutil.rmtree(self.previous, ignore_errors=True)
        self.is_dead = self.is_full = False
        self.fault = None

    def wipe(self) -> None:
        """The operator empties the data directory."""
        shutil.rmtree(self.path)
        os.makedirs(self.path)
        self._files.clear()
        self._entries.clear()
        self._logs.clear()
        self._anchored = {}

    def anchor(self) -> None:
        """A block was committed: what the journal held by then must never be lost unnoticed."""
        self._anchored = self._journal_ends.copy()

    def anchored_journal(self) -> list[tuple[Path, int]]:
        """The segments that a later block has followed, and where what they held by then ends."""
        journal = self.path / "journal"
        found = sorted(journal.iterdir()) if journal.is_dir() else []
        ends = [(path, self._anchored.get(path.stat().st_ino, 0)) for path in found]
        return [(path, end) for path, end in ends if end > HEADER_BYTES]

    def _copy(self, image: Path, power: bool, rng: random.Random) -> tuple[dict[int, FileState], dict[int, int]]:
        files: dict[int, FileState] = {}
        logs: dict[int, int] = {}
        os.makedirs(image)
        for place, folders, names in os.walk(self.path):
            folders.sort()
            target = image / os.path.relpath(place, self.path)
            for folder in folders:
                os.mkdir(target / folder)
            for name in sorted(names):
                if name.startswith(NOT_COPIED):
                    continue
                source = Path(place, name)
                if name.endswith(".sst"):
                    os.link(source, target / name)
                    continue
                self._copy_file(source, target / name, power, rng, files, logs)
        return files, logs

    def _copy_file(
        self,
        source: Path,
        target: Path,
        power: bool,
        rng: random.Random,
        files: dict[int, FileState],
        logs: dict[int, int],
    ) -> None:
        inode = source.stat().st_ino
        content = source.read_bytes()
        state = self._files.get(inode)
        if power and state is not None:
            left, state = state.after_power_loss(content, rng), None
            self.met["files that lost unsynced writes"] += left != content
            content = left
        if source.suffix == ".log" and source.parent.name == "chain":
            synced = self._logs.get(inode, 0)
            if power:
                left = _cut_log(content, synced, rng)
                self.met["logs of RocksDB cut"] += left != content
                content, synced = left, len(left)
            target.write_bytes(content)
            logs[target.stat().st_ino] = synced
            return
        target.write_bytes(content)
        if state is not None:
            files[target.stat().st_ino] = state

    def _take_back(self, entry: Entry, image: Path) -> None:
        path = image / os.path.relpath(entry.path, self.path)
        if entry.kind == "made":
            if path.is_dir():
                shutil.rmtree(path)
            elif path.exists():
                os.unlink(path)
            return
        if entry.kind == "moved" and entry.source is not None:
            source = image / os.path.relpath(entry.source, self.path)
            if path.exists() and source.parent.exists() and not source.exists():
                os.rename(path, source)
        if entry.content is not None and path.parent.exists():
            path.write_bytes(entry.content)

    # What the node does through `os` and `pathlib`.

    def opened(self, path: Path, flags: int) -> None:
        if flags & os.O_CREAT and not path.exists():
            self._maybe_refuse()
            self._entries.append(Entry("made", (path.parent,), path))
        elif flags & os.O_TRUNC:
            self._maybe_refuse()
            self._touch(path.stat().st_ino, path.read_bytes(), 0, 0)
        elif self.is_dead:
            raise Crash

    def made_directory(self, path: Path) -> None:
        self._maybe_refuse()
        self._entries.append(Entry("made", (path.parent,), path))

    def removing(self, path: Path) -> None:
        self._maybe_refuse()
        content = path.read_bytes() if path.is_file() else None
        self._entries.append(Entry("removed", (path.parent,), path, content=content))

    def renaming(self, source: Path, target: Path) -> None:
        self._maybe_refuse()
        content = target.read_bytes() if target.is_file() else None
        self._entries.append(Entry("moved", (source.parent, target.parent), target, source, content))
        self.met["snapshots taken"] += target.parent.name == "snapshots" and target.name.isdigit()

    def _maybe_refuse(self, *kinds: FaultKind) -> None:
        fault = self._next_fault()
        if fault is None:
            return
        if fault.kind in ("kill", "power"):
            self._end(fault)
        if fault.kind in (kinds or ("write", "refuse")):
            raise OSError(errno.EIO, "simulated")

    def write(self, file: int, data: bytes | memoryview, offset: int) -> int:
        shown = os.pread(file, os.fstat(file).st_size, 0)
        fault = self._next_fault()
        if self.is_full and offset + len(data) > len(shown):
            self.met["writes to a full disk"] += 1
            raise OSError(errno.ENOSPC, "simulated")
        length = len(data)
        if fault is not None and fault.kind == "refuse":
            raise OSError(errno.EIO, "simulated")
        if fault is not None and fault.kind != "sync":
            length = random.Random(fault.seed).randrange(length + 1)
        if length:
            self._touch(os.fstat(file).st_ino, shown, offset, length)
            os.pwrite(file, data[:length], offset)
        if fault is None or fault.kind in ("sync", "short"):
            # A write of nothing at all would be tried again for ever.
            return length or self.write(file, data, offset)
        if fault.kind == "write":
            raise OSError(errno.EIO, "simulated")
        self._end(fault)
        return 0

    def sync(self, file: int, path: Path) -> None:
        fault = self._next_fault()
        state = self._files.get(os.fstat(file).st_ino)
        if fault is not None and fault.kind in ("kill", "power"):
            if random.Random(fault.seed).random() < 0.5:
                self._synced(file, state, path)
            self._end(fault)
        if fault is not None and fault.kind in ("sync", "write"):
            if state is not None:
                state.dirty.clear()
            raise OSError(errno.EIO, "simulated")
        self._synced(file, state, path)

    def _synced(self, file: int, state: FileState | None, path: Path) -> None:
        if state is not None and state.dirty:
            shown = os.pread(file, os.fstat(file).st_size, 0)
            state.synced(shown)
            if path.parent == self.path / "journal":
                self._journal_ends[os.fstat(file).st_ino] = len(shown.rstrip(b"\0"))

    def sync_directory(self, path: Path) -> None:
        self._maybe_refuse("write", "refuse", "sync")
        self._entries = [entry for entry in self._entries if path not in entry.directories]

    def _touch(self, inode: int, shown: bytes, offset: int, length: int) -> None:
        state = self._files.get(inode)
        if state is None:
            state = self._files[inode] = FileState(shown)
        state.dirty.update(range(offset // SECTOR, (offset + length + SECTOR - 1) // SECTOR))

    def _end(self, fault: Fault) -> None:
        self.crash(power=fault.kind == "power", seed=fault.seed)
        raise Crash

    # RocksDB.

    def before_batch(self) -> Fault | None:
        """Raises the error that RocksDB would report; returns what is to happen after the batch."""
        fault = self._next_fault()
        if fault is not None and fault.kind in ("write", "refuse"):
            raise OSError(errno.EIO, "simulated")
        if self.is_full:
            self.met["writes to a full disk"] += 1
            raise OSError(errno.ENOSPC, "simulated")
        return fault

    def after_batch(self, database: Path, synced: bool, fault: Fault | None) -> None:
        if fault is not None and fault.kind in ("kill", "power"):
            self._end(fault)
        if synced and fault is not None and fault.kind == "sync":
            raise OSError(errno.EIO, "simulated")
        if synced:
            self.trust_logs(database)

    def trust_logs(self, database: Path) -> None:
        """All that is in its log is on the platter."""
        for entry in os.scandir(database):
            if entry.name.endswith(".log"):
                self._logs[entry.inode()] = entry.stat().st_size

    def opening(self) -> None:
        fault = self._next_fault()
        if fault is not None and fault.kind in ("kill", "power"):
            self._end(fault)
        if fault is not None or self.is_full:
            raise OSError(errno.EIO, "simulated")


def _cut_log(content: bytes, synced: int, rng: random.Random) -> bytes:
    if synced >= len(content):
        return content
    return content[: rng.choice((synced, len(content), rng.randrange(synced, len(content) + 1)))]


def _moved(entry: Entry, old: Path, new: Path) -> Entry:
    def moved(path: Path) -> Path:
        return new / os.path.relpath(path, old) if path.is_relative_to(old) else path

    source = None if entry.source is None else moved(entry.source)
    return Entry(entry.kind, tuple(map(moved, entry.directories)), moved(entry.path), source, entry.content)


class Machines:
    """Whose disk a path is on."""

    def __init__(self) -> None:
        self._disks: list[tuple[str, Disk]] = []

    def add(self, root: Path) -> Disk:
        disk = Disk(root)
        self._disks.append((str(root) + os.sep, disk))
        return disk

    def find(self, path: object) -> Disk | None:
        text = os.fspath(path) if isinstance(path, os.PathLike | str) else ""
        for prefix, disk in self._disks:
            if text.startswith(prefix):
                # A life that ended has no disk any more: its last writes go nowhere that counts.
                if not text.startswith(str(disk.path) + os.sep) and text != str(disk.path):
                    raise Crash
                return disk
        return None

    def __iter__(self) -> Iterator[Disk]:
        return (disk for _, disk in self._disks)
