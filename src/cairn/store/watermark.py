"""The newest height that is known to be on disk, and the oldest that is kept, outside RocksDB.

RocksDB's own log cannot tell a torn tail, which a crash leaves and which was never acknowledged, from damage to blocks
that were: both end the log early. This file can. It is advanced after a block's write is synced and before anybody
hears of the block, so a store that comes back below it has lost something, and one that comes back at it has not.
Followers read it too: a block above it may be in RocksDB's log already, but is not on disk for certain.

    slot 0 at byte 0,     slot 1 at byte 4,096:    newest height 8 | CRC-32 of it 4        (big-endian)
    slot 2 at byte 8,192, slot 3 at byte 12,288:   oldest height 8 | CRC-32 of it 4

The newest height goes to slot `height % 2`: a write that is torn spoils one slot and leaves the other, one lower,
readable. The oldest goes to slots 2 and 3 in turn, for followers only: it is told to them before anything below it is
removed, so it need not be synced, and the writer, whose own record is in RocksDB, tells it anew at every opening.
"""

import os
from pathlib import Path
from struct import Struct
from zlib import crc32

from cairn.domain.errors import Corrupt, StoreUnavailable
from cairn.store.directory import sync_directory, sync_file, write_at

_SLOT = Struct(">QI")
_SLOT_DISTANCE = 4096
_SIZE = 4 * _SLOT_DISTANCE
_NEWEST, _OLDEST = 0, 2


class Watermark:
    """Opened by the writer with `open`, by followers with `follow`."""

    def __init__(self, path: Path, file: int) -> None:
        self._path = path
        self._file = file
        self._oldest_slot = _OLDEST

    @classmethod
    def open(cls, path: Path) -> "Watermark":
        """Open the file, making an empty one if there is none."""
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if os.fstat(file).st_size < _SIZE:
                # Real zeros rather than a hole: no later write can then run out of space.
                write_at(file, bytes(_SIZE - os.fstat(file).st_size), os.fstat(file).st_size)
                sync_file(file)
                sync_directory(path.parent)
        except OSError as failure:
            raise StoreUnavailable(f"cannot open {path}: {failure}") from failure
        return cls(path, file)

    @classmethod
    def follow(cls, path: Path) -> "Watermark":
        try:
            return cls(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as failure:
            raise StoreUnavailable(f"cannot open {path}: {failure}") from failure

    def height(self) -> int:
        """The newest height on disk; -1 when there is no block yet. Raises `Corrupt`."""
        content = self._read(_NEWEST)
        heights = _heights_in(content)
        if heights:
            return max(heights)
        if any(content):
            raise Corrupt(f"{self._path}: neither of its two heights has its checksum")
        return -1

    def oldest(self) -> int:
        """The oldest height that is kept, as last told."""
        return max(_heights_in(self._read(_OLDEST)), default=0)

    def advance(self, height: int) -> None:
        """Say that `height` is on disk. Raises `StoreUnavailable`."""
        try:
            write_at(self._file, _SLOT.pack(height, _checksum(height)), height % 2 * _SLOT_DISTANCE)
            sync_file(self._file)
        except OSError as failure:
            raise StoreUnavailable(f"cannot write {self._path}: {failure}") from failure

    def tell_oldest(self, height: int) -> None:
        """Tell followers that nothing below `height` is kept. Raises `StoreUnavailable`."""
        try:
            write_at(self._file, _SLOT.pack(height, _checksum(height)), self._oldest_slot * _SLOT_DISTANCE)
        except OSError as failure:
            raise StoreUnavailable(f"cannot write {self._path}: {failure}") from failure
        self._oldest_slot = 5 - self._oldest_slot

    def _read(self, first_slot: int) -> bytes:
        """Two neighbouring slots with all between them."""
        try:
            return os.pread(self._file, 2 * _SLOT_DISTANCE, first_slot * _SLOT_DISTANCE)
        except OSError as failure:
            raise StoreUnavailable(f"cannot read {self._path}: {failure}") from failure

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _heights_in(content: bytes) -> list[int]:
    heights = []
    for offset in (0, _SLOT_DISTANCE):
        slot = content[offset : offset + _SLOT.size]
        if len(slot) == _SLOT.size:
            height, checksum = _SLOT.unpack(slot)
            if checksum == _checksum(height):
                heights.append(int(height))
    return heights


def _checksum(height: int) -> int:
    # Never zero for height 0, so that an empty slot does not read as one that holds it.
    return crc32(height.to_bytes(8, "big"))
