"""A machine's disk that fails, tears and forgets, below the node's real files.

What the node writes through Python goes to real files (`files.py`), but each file has a second content: what is on the
platter. A write changes the file only; a sync copies the sectors written since to the platter. After a power loss the
node finds the platter, with any of the sectors that were on their way. After a failed sync the sectors count as written
though they are not, as Linux has it. Entries of directories work alike: made, renamed and removed ones may be taken
back, the latest first, until their directory is synced. A rename from one directory to another is two such entries: a
file system without a log of its own may leave the file in both places, or, synced in the wrong order, in none.

RocksDB writes its files itself, so its log is cut instead: a power loss leaves any part of what was not synced; one
while a memtable is written out leaves the new tables and a torn MANIFEST beside the log that they were made from.
A dead machine writes nothing more: from its last moment on, each operation raises `Crash`.
"""

import errno
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tests.simulation.platter import SECTOR, Entry, FileState, cut_log, link, moved, remove

FaultKind = Literal["kill", "power", "write", "short", "sync", "refuse", "read"]
"""The process ends; the machine does; a write fails half done; a write stops short; a sync fails; nothing is done; a
read fails."""
FAULTS: dict[FaultKind, str] = {
    "kill": "kills within a write",
    "power": "power losses within a write",
    "write": "writes that failed half done",
    "short": "writes that stopped short",
    "sync": "syncs that failed",
    "refuse": "operations that were refused",
    "read": "reads that failed",
}
"""What the report of a run calls them."""
HEADER_BYTES = 40
"""A segment of the journal that has no more holds nothing yet."""
NOT_COPIED = ("LOG", "LOCK", "cairn.lock")
"""What no start reads: RocksDB's own messages, and locks."""


_asides = 0


@contextmanager
def aside() -> Generator[None, None, None]:
    """What is done meanwhile is the simulator's own doing, and no operation of the node's."""
    global _asides
    _asides += 1
    try:
        yield
    finally:
        _asides -= 1


def is_aside() -> bool:
    return _asides > 0


class Crash(BaseException):
    """The process is gone at this very write. Nothing catches it but the simulator."""


class Fault(NamedTuple):
    at_op: int
    """When so many operations were made."""
    kind: FaultKind
    seed: int


class Flush(NamedTuple):
    """What a database was when its memtables began to be written out."""

    fault: Fault | None
    """A crash in the middle of it."""
    manifest: str
    manifest_bytes: int
    logs: dict[str, bytes]
    synced: dict[str, int]


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
        self._reads_left = 0
        """Until one of them fails; 0 while none is to."""
        self.is_dead = False
        self.on_death: Callable[[], None] = lambda: None
        self.is_full = False
        self.primary: Any = None
        """The database that the node has open for writing."""
        self.flush_rate = 0.0
        """How often a batch is followed by the memtables being written out, and a look of a worker's met by that."""
        self.rng = random.Random(0)
        """For what RocksDB does by itself."""
        self.met: Counter[str] = Counter()
        """What became of its files, for the report of a run."""

    # Faults.

    def arm(self, after_ops: int, kind: FaultKind, seed: int) -> None:
        if kind == "read":
            self._reads_left = after_ops
        else:
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
        with aside():
            image = self._next_image()
            self._files, self._logs = self._copy(self.path, image, power, rng)
            if power:
                kept = rng.randrange(len(self._entries) + 1)
                for entry in reversed(self._entries[kept:]):
                    self.met["entries of directories lost"] += 1
                    self._take_back(entry, image)
                self._entries.clear()
            else:
                self._entries = [moved(entry, self.path, image) for entry in self._entries]
        self.previous, self.path = self.path, image
        self.is_dead = True
        self.on_death()

    def _next_image(self) -> Path:
        """Where the next life goes on. Its files are others."""
        self._lives += 1
        self._journal_ends, self._anchored = {}, {}
        return self._root / str(self._lives)

    def revive(self) -> None:
        with aside():
            shutil.rmtree(self.previous, ignore_errors=True)
        self.is_dead = self.is_full = False
        self.heal()

    def heal(self) -> None:
        """Nothing is to go wrong any more."""
        self.fault = None
        self._reads_left = 0

    def wipe(self) -> None:
        """The operator empties the data directory."""
        with aside():
            shutil.rmtree(self.path)
            os.makedirs(self.path)
            shutil.rmtree(self._kept, ignore_errors=True)
        self._files.clear()
        self._entries.clear()
        self._logs.clear()
        self._anchored = {}

    # What an operator can do with a whole disk.

    @property
    def _kept(self) -> Path:
        return self._root / "kept"

    @property
    def has_copy(self) -> bool:
        return self._kept.exists()

    def keep_copy(self) -> None:
        """The disk as it is now, to go back to."""
        with aside():
            shutil.rmtree(self._kept, ignore_errors=True)
            self._copy(self.path, self._kept, False, random.Random(0))

    def put(self, copy: Path | None) -> Path:
        """Put a copy in place of what is there, the kept one if none is named; returns where that is now."""
        before = self.path
        with aside():
            self.path = self._next_image()
            self._files, self._logs = self._copy(copy or self._kept, self.path, False, random.Random(0))
            for file in (self.path / "chain").glob("*.log"):
                self._logs[file.stat().st_ino] = file.stat().st_size
        self._entries.clear()
        return before

    def anchor(self) -> None:
        """A block was committed: what the journal held by then must never be lost unnoticed."""
        self._anchored = self._journal_ends.copy()

    def anchored_journal(self) -> list[tuple[Path, int]]:
        """The segments that a later block has followed, and where what they held by then ends."""
        journal = self.path / "journal"
        found = sorted(journal.iterdir()) if journal.is_dir() else []
        ends = [(path, self._anchored.get(path.stat().st_ino, 0)) for path in found]
        return [(path, end) for path, end in ends if end > HEADER_BYTES]

    def _copy(
        self, whole: Path, image: Path, power: bool, rng: random.Random
    ) -> tuple[dict[int, FileState], dict[int, int]]:
        files: dict[int, FileState] = {}
        logs: dict[int, int] = {}
        os.makedirs(image)
        for place, folders, names in os.walk(whole):
            folders.sort()
            target = image / os.path.relpath(place, whole)
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
                left = cut_log(content, synced, rng)
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
        other = None if entry.other is None else image / os.path.relpath(entry.other, self.path)
        if not path.parent.exists():
            return
        if entry.kind in ("made", "appeared"):
            remove(path)
        elif entry.kind == "vanished" and other is not None and other.exists() and not path.exists():
            link(other, path)
        elif entry.kind == "moved" and other is not None and path.exists() and not other.exists():
            os.rename(path, other)
        elif entry.kind == "removed" and entry.content is None:
            path.mkdir(exist_ok=True)
        if entry.content is not None:
            path.write_bytes(entry.content)

    # What the node does through `os` and what is built on it.

    def opened(self, path: Path, flags: int) -> bool:
        """Whether it is a new file."""
        if flags & os.O_CREAT and not path.exists():
            self._maybe_refuse()
            self._entries.append(Entry("made", path.parent, path))
            return True
        if flags & os.O_TRUNC:
            self._maybe_refuse()
            self._cut(path.stat().st_ino, path.read_bytes())
        elif self.is_dead:
            raise Crash
        return False

    def made_file(self, file: int) -> None:
        # The number of a file that is gone may come again.
        self._files[os.fstat(file).st_ino] = FileState(b"")

    def made_directory(self, path: Path) -> None:
        self._maybe_refuse()
        self._entries.append(Entry("made", path.parent, path))

    def removing(self, path: Path) -> None:
        self._maybe_refuse()
        content = path.read_bytes() if path.is_file() else None
        self._entries.append(Entry("removed", path.parent, path, content=content))

    def renaming(self, source: Path, target: Path) -> None:
        self._maybe_refuse()
        content = target.read_bytes() if target.is_file() else None
        if source.parent == target.parent:
            self._entries.append(Entry("moved", target.parent, target, source, content))
        else:
            self._entries.append(Entry("appeared", target.parent, target, source, content))
            self._entries.append(Entry("vanished", source.parent, source, target))
            self.met["renames to another directory"] += 1
        self.met["snapshots taken"] += target.parent.name == "snapshots" and target.name.isdigit()
        self.met["state trees written"] += target.name == "state-tree"

    def cutting(self, file: int) -> None:
        self._maybe_refuse()
        self._cut(os.fstat(file).st_ino, os.pread(file, os.fstat(file).st_size, 0))

    def _cut(self, inode: int, shown: bytes) -> None:
        self._touch(inode, shown, 0, 0)
        self._files[inode].is_cut = True

    def reading(self) -> None:
        """Something is read, by the node or one of its workers."""
        if self._reads_left:
            self._reads_left -= 1
            if not self._reads_left:
                self.met[FAULTS["read"]] += 1
                raise OSError(errno.EIO, "simulated")

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
        if state is not None and (state.dirty or state.is_cut):
            shown = os.pread(file, os.fstat(file).st_size, 0)
            state.synced(shown)
            if path.parent == self.path / "journal":
                self._journal_ends[os.fstat(file).st_ino] = len(shown.rstrip(b"\0"))

    def sync_directory(self, path: Path) -> None:
        self._maybe_refuse("write", "refuse", "sync")
        lasting = [entry for entry in self._entries if entry.directory == path]
        gone = [entry.path for entry in lasting if entry.kind in ("removed", "vanished")]
        self._entries = [
            entry
            for entry in self._entries
            if entry.directory != path and not any(entry.path.is_relative_to(each) for each in gone)
        ]

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
        """Raise the error that RocksDB would report, or return what is to happen after the batch."""
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

    def begin_flush(self, database: Path) -> Flush | None:
        """Before memtables are written out; None if they are not, for lack of room or by a fault of the disk."""
        fault = self._next_fault()
        if self.is_full or (fault is not None and fault.kind not in ("kill", "power")):
            return None
        manifest = database / (database / "CURRENT").read_text().strip()
        logs = {file.name: file.read_bytes() for file in database.glob("*.log")}
        synced = {file.name: self._logs.get(file.stat().st_ino, 0) for file in database.glob("*.log")}
        return Flush(fault, manifest.name, manifest.stat().st_size, logs, synced)

    def end_flush(self, database: Path, flush: Flush) -> None:
        """The tables are there, and the MANIFEST names them. A crash comes before the log that they replace is gone."""
        self.met["memtables written out"] += 1
        fault = flush.fault
        if fault is None:
            self.trust_logs(database)
            return
        self.met["crashes while memtables were written out"] += 1
        self.crash(power=fault.kind == "power", seed=fault.seed)
        with aside():
            rng = random.Random(f"{fault.seed}/flush")
            image = self.path / os.path.relpath(database, self.previous)
            size = (image / flush.manifest).stat().st_size
            before = min(flush.manifest_bytes, size)
            # RocksDB syncs its log before the MANIFEST names the tables: none of them is ahead of the log.
            is_early = rng.random() < 0.5
            for name, content in flush.logs.items():
                left = cut_log(content, flush.synced[name], rng) if fault.kind == "power" and is_early else content
                (image / name).write_bytes(left)
                self._logs[(image / name).stat().st_ino] = len(left)
            os.truncate(image / flush.manifest, before if is_early else rng.randint(before, size))
        raise Crash

    def opening(self) -> None:
        fault = self._next_fault()
        if fault is not None and fault.kind in ("kill", "power"):
            self._end(fault)
        if fault is not None or self.is_full:
            raise OSError(errno.EIO, "simulated")


class Machines:
    """Whose disk a path is on."""

    def __init__(self) -> None:
        self._disks: list[tuple[str, Disk]] = []

    def add(self, root: Path) -> Disk:
        disk = Disk(root)
        self._disks.append((str(root) + os.sep, disk))
        return disk

    def find(self, path: object) -> Disk | None:
        """None for a path that is on none. Raises `Crash` for a life that ended: its last writes go nowhere."""
        disk = self._find(path)
        if disk is not None and not _is_on(path, disk):
            raise Crash
        return disk

    def find_living(self, path: object) -> Disk | None:
        """The disk of a path for a reader that is not of the life that ended."""
        disk = self._find(path)
        return disk if disk is not None and _is_on(path, disk) else None

    def _find(self, path: object) -> Disk | None:
        if is_aside() or not isinstance(path, os.PathLike | str):
            return None
        text = os.fspath(path)
        if isinstance(text, str):
            for prefix, disk in self._disks:
                if text.startswith(prefix):
                    return disk
        return None

    def __iter__(self) -> Iterator[Disk]:
        return (disk for _, disk in self._disks)


def _is_on(path: object, disk: Disk) -> bool:
    return str(path) == str(disk.path) or str(path).startswith(str(disk.path) + os.sep)
