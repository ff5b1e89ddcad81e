"""The loss of a machine's page cache: of what the node had written and not synced, its disk has all, a part or nothing.

The shim keeps what each write has replaced until the file is synced. Here that is put back, sector by sector, the
newest first, where fate says that the sector had not reached the disk. Entries of directories are left as they are.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import NamedTuple

SECTOR = 512
_HEAD = Struct("=3Q")


class Replaced(NamedTuple):
    """What a write has replaced: `content` at `offset`, in a file of `size` bytes."""

    offset: int
    content: bytes
    size: int


class Cache:
    """What the processes of a node have written below `under` since the last syncs of its files."""

    def __init__(self, kept: Path, under: Path) -> None:
        self._kept = kept
        self._under = under
        self.lost_files = 0
        """Files that were found to have lost something, over all losses."""

    def lose(self, dice: random.Random) -> None:
        """The power fails. No process of the node may run."""
        share = dice.choice((0.0, 0.5, 1.0))
        for path in _files_below(self._under):
            kept = self._kept / str(path.stat().st_ino)
            if kept.exists():
                before = path.read_bytes()
                after = after_power_loss(before, list(_read(kept.read_bytes())), share, dice)
                if after != before:
                    self.lost_files += 1
                    with path.open("r+b") as file:
                        file.write(after)
                        file.truncate()
        self.keep()

    def keep(self) -> None:
        """The power stays on: all that was written is there for the next life, and the kernel writes it out."""
        for kept in self._kept.iterdir():
            kept.unlink()


def after_power_loss(shown: bytes, replaced: list[Replaced], share: float, dice: random.Random) -> bytes:
    """What is on disk of a file that shows `shown`; `share` is how much of the rest has arrived."""
    if not replaced:
        return shown
    content = bytearray(shown)
    arrived: dict[int, bool] = {}
    for offset, before, _ in reversed(replaced):
        first, last = offset // SECTOR, (offset + max(1, len(before))) // SECTOR
        for sector in range(first, last + 1):
            if arrived.setdefault(sector, dice.random() < share):
                continue
            start, end = max(offset, sector * SECTOR), min(offset + len(before), (sector + 1) * SECTOR)
            if start < end:
                content += bytes(max(0, end - len(content)))
                content[start:end] = before[start - offset : end - offset]
    # Of what was added behind the end, the length may have arrived without the bytes: those are zeros then.
    size = min(each.size for each in replaced)
    for sector in range(size // SECTOR, -(-len(content) // SECTOR)):
        if not arrived.setdefault(sector, dice.random() < share):
            start, end = max(size, sector * SECTOR), min(len(content), (sector + 1) * SECTOR)
            content[start:end] = bytes(max(0, end - start))
    has_length = dice.random() < share or any(arrived[sector] for sector in arrived if sector >= size // SECTOR)
    return bytes(content if has_length else content[:size])


def _files_below(directory: Path) -> Iterator[Path]:
    for place, _, names in os.walk(directory):
        for name in sorted(names):
            yield Path(place, name)


def _read(kept: bytes) -> Iterator[Replaced]:
    """A process that was killed may have left the last record unfinished: then it had not written either."""
    at = 0
    while at + _HEAD.size <= len(kept):
        offset, length, size = _HEAD.unpack_from(kept, at)
        at += _HEAD.size
        if at + length > len(kept):
            return
        yield Replaced(offset, kept[at : at + length], size)
        at += length
