"""Damage to a node's files, done while it is down: it must never start as if nothing were.

Of the journal only bytes that were on the platter before the newest block was: what came after it, a torn write looks
like. Of RocksDB's files some bytes are read by nobody, and a cut may leave the end of a log as a crash would: what such
`rot` leaves may be opened, if all of it is what it was.
"""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.simulation.disk import NOT_COPIED, Disk
from tests.simulation.platter import SECTOR
from tests.support.disk import files_of

CHAIN_SHARE = 0.5
PARTS = ("journal", "watermark", "chain")


class Damage:
    """What was done to a directory, and how to undo it."""

    def __init__(self, disk: Disk, rng: random.Random) -> None:
        self._directory = disk.path
        self._backup = disk.path.with_name("backup")
        self.what = ""
        """Empty when there was nothing to damage."""
        self.is_rot = False
        """Whether it may be opened all the same, if nothing of it is wrong."""
        self._save()
        anchored = disk.anchored_journal()
        kinds: list[Callable[[random.Random], str]] = [self._zero_watermark, self._remove_watermark, self._stray]
        if anchored:
            path, end = rng.choice(anchored)
            kinds += [self._remove_journal, lambda rng: self._remove_newest(anchored)]
            kinds += [lambda rng: self._empty(path), lambda rng: self._zero(path)]
            kinds += [lambda rng: self._truncate(path, end, rng), lambda rng: self._zero_sector(path, end, rng)] * 2
        # Drawn aside: what a seed did to the journal before there was more, it still does.
        more = random.Random(f"{rng.random()}/chain")
        self.what = self._harm_chain(more) if more.random() < CHAIN_SHARE else rng.choice(kinds)(rng)
        self.files = _files_of(self._directory)
        """What is there now. A start that is refused changes nothing of it."""

    def changed(self) -> list[str]:
        """The names of files that are not what they were when the harm was done."""
        found = _files_of(self._directory)
        return sorted(name for name in found.keys() | self.files.keys() if found.get(name) != self.files.get(name))

    def undo(self) -> None:
        for part in PARTS:
            _remove(self._directory / part)
            _copy(self._backup / part, self._directory / part)

    def _save(self) -> None:
        _remove(self._backup)
        os.makedirs(self._backup)
        for part in PARTS:
            _copy(self._directory / part, self._backup / part)

    def _harm_chain(self, rng: random.Random) -> str:
        chain = self._directory / "chain"
        current = chain / "CURRENT"
        manifest = chain / current.read_text().strip()
        tables = sorted(chain.glob("*.sst"))
        harm = rng.choice(("lost", "lost", "empty", "astray", "rot", "rot", "cut", "tree"))
        if harm == "astray":
            current.write_text("MANIFEST-999999\n")
            return "a CURRENT that names no file"
        if harm == "empty":
            current.write_bytes(b"")
            return "an empty CURRENT"
        if harm == "tree" and (chain / "state-tree").exists():
            return self._harm_tree(chain / "state-tree", rng)
        # Those that are gone, torn or rotten; a table is shared with snapshots, so it is replaced, not changed.
        path = rng.choice([current, manifest, *tables] if harm in ("lost", "tree") else [manifest, *tables])
        content = path.read_bytes()
        path.unlink()
        if harm in ("lost", "tree"):
            return f"no {path.name}"
        self.is_rot = True
        at = rng.randrange(len(content))
        if harm == "cut":
            path.write_bytes(content[:at])
            return f"{path.name} cut to {at} bytes"
        path.write_bytes(content[:at] + bytes((content[at] ^ 1 << rng.randrange(8),)) + content[at + 1 :])
        return f"{path.name} with a flipped bit at {at}"

    def _harm_tree(self, path: Path, rng: random.Random) -> str:
        content = path.read_bytes()
        at = rng.randrange(len(content))
        harm = rng.choice(("lost", "cut", "flipped"))
        if harm == "lost":
            # Then it is made from the accounts.
            self.is_rot = True
            path.unlink()
            return f"no {path.name}"
        flipped = bytes((content[at] ^ 1 << rng.randrange(8),)) + content[at + 1 :]
        path.write_bytes(content[:at] + (b"" if harm == "cut" else flipped))
        return f"{path.name} {harm} at {at}"

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


def _files_of(directory: Path) -> dict[str, bytes]:
    return {
        name: content for name, content in files_of(directory).items() if not Path(name).name.startswith(NOT_COPIED)
    }


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
