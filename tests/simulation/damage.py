"""Damage to the files that say what was promised, done while the node is down: it must never start as if nothing were.

Only bytes that were on the platter before the newest block was: what came after it, a torn write looks like.
"""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.simulation.disk import SECTOR, Disk

PARTS = ("journal", "watermark")


class Damage:
    """What was done to a directory, and how to undo it."""

    def __init__(self, disk: Disk, rng: random.Random) -> None:
        self._directory = disk.path
        self._backup = disk.path.with_name("backup")
        self.what = ""
        """Empty when there was nothing to damage."""
        self._save()
        anchored = disk.anchored_journal()
        kinds: list[Callable[[random.Random], str]] = [self._zero_watermark, self._remove_watermark, self._stray]
        if anchored:
            path, end = rng.choice(anchored)
            kinds += [self._remove_journal, lambda rng: self._remove_newest(anchored)]
            kinds += [lambda rng: self._empty(path), lambda rng: self._zero(path)]
            kinds += [lambda rng: self._truncate(path, end, rng), lambda rng: self._zero_sector(path, end, rng)] * 2
        self.what = rng.choice(kinds)(rng)

    def undo(self) -> None:
        for part in PARTS:
            _remove(self._directory / part)
            _copy(self._backup / part, self._directory / part)

    def _save(self) -> None:
        _remove(self._backup)
        os.makedirs(self._backup)
        for part in PARTS:
            _copy(self._directory / part, self._backup / part)

    def _zero_watermark(self, rng: random.Random) -> str:
        path = self._directory / "watermark"
        path.write_bytes(bytes(path.stat().st_size))
        return "a zeroed watermark"

    def _remove_watermark(self, rng: random.Random) -> str:
        os.unlink(self._directory / "watermark")
        return "no watermark"

    def _stray(self, rng: random.Random) -> str:
        name = rng.choice(("copy.seg", "0000000000000001 (1).seg"))
        (self._directory / "journal" / name).write_bytes(rng.randbytes(rng.choice((0, 100))))
        return f"a stray {name} in its journal"

    def _remove_journal(self, rng: random.Random) -> str:
        shutil.rmtree(self._directory / "journal")
        return "no journal"

    def _remove_newest(self, anchored: list[tuple[Path, int]]) -> str:
        path = max(path for path, _ in anchored)
        for later in path.parent.iterdir():
            if later >= path:
                os.unlink(later)
        return f"no {path.name} and none after it"

    def _empty(self, path: Path) -> str:
        path.write_bytes(b"")
        return f"an empty {path.name}"

    def _zero(self, path: Path) -> str:
        path.write_bytes(bytes(path.stat().st_size))
        return f"a zeroed {path.name}"

    def _truncate(self, path: Path, end: int, rng: random.Random) -> str:
        size = rng.randrange(end)
        os.truncate(path, size)
        return f"{path.name} cut to {size} bytes"

    def _zero_sector(self, path: Path, end: int, rng: random.Random) -> str:
        content = bytearray(path.read_bytes())
        sector = rng.randrange(-(-end // SECTOR))
        start, stop = sector * SECTOR, min((sector + 1) * SECTOR, end)
        content[start:stop] = bytes(stop - start)
        path.write_bytes(content)
        return f"{path.name} with zeros from {start} to {stop}"


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        os.unlink(path)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)
