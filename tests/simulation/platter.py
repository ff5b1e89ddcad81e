"""What a disk has of a file or a directory beside what the kernel shows, and how copies of both are made."""

import os
import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

SECTOR = 512


@dataclass
class FileState:
    """A file whose platter may differ from what the kernel shows."""

    platter: bytes
    dirty: set[int] = field(default_factory=set)
    """Sectors written since the last sync."""
    is_cut: bool = False
    """It was made shorter since."""

    def synced(self, shown: bytes) -> None:
        content = bytearray(self.platter[: len(shown)])
        _extend(content, len(shown))
        for sector in self.dirty:
            start = sector * SECTOR
            content[start : start + SECTOR] = shown[start : start + SECTOR]
        self.platter = bytes(content)
        self.dirty.clear()
        self.is_cut = False

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

    kind: Literal["made", "moved", "removed", "appeared", "vanished"]
    """The last two are the halves of a rename from one directory to another."""
    directory: Path
    """Its sync makes it last."""
    path: Path
    other: Path | None = None
    """Of a rename: what `path` was before; of one that vanished: what it is now."""
    content: bytes | None = None
    """None for a directory, and where nothing was replaced."""


def cut_log(content: bytes, synced: int, rng: random.Random) -> bytes:
    if synced >= len(content):
        return content
    return content[: rng.choice((synced, len(content), rng.randrange(synced, len(content) + 1)))]


def moved(entry: Entry, old: Path, new: Path) -> Entry:
    def there(path: Path) -> Path:
        return new / os.path.relpath(path, old) if path.is_relative_to(old) else path

    other = None if entry.other is None else there(entry.other)
    return Entry(entry.kind, there(entry.directory), there(entry.path), other, entry.content)


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def link(source: Path, target: Path) -> None:
    """Give a file a second place, or the files of a directory a second directory."""
    if source.is_dir():
        shutil.copytree(source, target, copy_function=os.link)
    else:
        os.link(source, target)
