"""Faults of a disk, done for real to real files."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cairn.store.directory import watermark_path
from cairn.store.reader import ChainReader
from cairn.store.rocks import Database
from cairn.store.snapshot import Restore
from cairn.store.watermark import StoreBounds, Watermark


def database_of(store: ChainReader | Restore) -> Database:
    """For what no reader of a chain may do: to damage it, to look at its keys, or to make it write."""
    return store._database


def bounds_of(directory: Path) -> StoreBounds:
    """What the watermark in a data directory says."""
    watermark = Watermark.follow(watermark_path(directory))
    try:
        return watermark.bounds()
    finally:
        watermark.close()


def only_file(directory: Path, pattern: str) -> Path:
    """The one file that matches and is not empty."""
    [found] = [path for path in directory.glob(pattern) if path.stat().st_size]
    return found


def flip_byte(path: Path, offset: int) -> None:
    """Change one byte in place, as a failing disk would."""
    overwrite(path, offset, bytes((path.read_bytes()[offset] ^ 0x40,)))


def overwrite(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


@contextmanager
def no_file_beyond(size_bytes: int) -> Iterator[None]:
    """Let every write of this process fail beyond this size, in the middle if need be, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def flush(database: Database) -> None:
    """Write the memtables out now rather than when they are full."""
    for family in database._families.values():
        family.flush(wait=True)


def compact(database: Database) -> None:
    """Merge every family's files now rather than when RocksDB sees fit."""
    for family in database._families.values():
        family.compact_range(None, None)


def files_of(directory: Path) -> dict[str, bytes]:
    """Every file below `directory` by its relative path."""
    return {
        os.path.relpath(path, directory): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }
