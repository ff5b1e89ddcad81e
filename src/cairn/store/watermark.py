"""The watermark: how much of the chain and of the journal the next opening must find, recorded outside of both.

RocksDB's own log cannot tell a torn tail, which a crash leaves and which was never acknowledged, from damage to blocks
that were: both end the log early. This file can. It is advanced after a block's write is synced and before anybody
hears of the block, so a store that comes back below it has lost something, and one that comes back at it has not.
Followers read it too: a block above it may be in RocksDB's log already, but is not on disk for certain.

The same holds for the journal, whose last frame may be torn: the end that it must reach is noted here after each of its
syncs, before anybody is answered, and is synced with every block; where it must start, before its oldest segment goes.

    numbers, 4 pages each:                   first page    written                            synced
        blocks on disk (newest height + 1)            0    after a block's write is synced    at once
        oldest height that is kept                    4    before blocks are removed          no
        first frame of the journal                    8    before a segment is removed        at once
        frames of the journal since its beginning    12    after each of its syncs            with the next block

    page of 4,096 bytes:      number 8 | CRC-32 of its kind and it 4 | zeros           (big-endian)

Pages 0 and 1 of a number are written in turn, by its lowest bit, so a write that is torn leaves the number before it;
pages 2 and 3 hold the same again, apart from each other, so a number is still known when a page or two neighbours are
damaged. All of them are whole from the file's first moment on (it is made under another name): one that has no whole
page is damaged, and so is a file of another size. A copy of a store gets a watermark of its own, with all four.

Workers learn the oldest height before anything below it is removed. It need not be synced: the writer has its own
record in RocksDB, and writes it here again at every opening.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from cairn.domain.errors import Corrupt, StoreUnavailable, reason_of
from cairn.store.directory import check_linked, sync_file, write_at, write_file

PAGE = 4096
_NUMBER = Struct(">Q")
_CHECKSUM = Struct(">I")
_COPIES = 2
_TURNS = 2
_BLOCKS, _OLDEST, _JOURNAL_START, _JOURNAL_END = _KINDS = range(4)
_NAMES = ("the blocks on disk", "the oldest block", "the journal's start", "the journal's end")
_KIND_BYTES = _COPIES * _TURNS * PAGE
SIZE = len(_KINDS) * _KIND_BYTES


class StoreBounds(NamedTuple):
    """All that a watermark says: none has a default, so that whoever makes one for a copy can forget none."""

    height: int
    """Of the newest block on disk; -1 if there is none."""
    oldest: int
    """The oldest height that is kept."""
    journal_start: int
    """The journal's first frame."""
    journal_end: int
    """The frame behind its last."""


NOTHING_YET = StoreBounds(-1, 0, 0, 0)
"""Of a directory in which a chain is begun."""


class Watermark:
    """Opened by the writer with `open`, by followers with `follow`."""

    def __init__(self, path: Path, file: int) -> None:
        self._path = path
        self._file = file

    @classmethod
    def create(cls, path: Path, bounds: StoreBounds) -> None:
        """Make the file of a chain and a journal that have these bounds. Raises `OSError`."""
        numbers = (bounds.height + 1, *bounds[1:])
        pages = [
            _encode(kind, number).ljust(PAGE, b"\0") * (_COPIES * _TURNS)
            for kind, number in zip(_KINDS, numbers, strict=True)
        ]
        write_file(path, b"".join(pages))

    @classmethod
    def open(cls, path: Path) -> "Watermark":
        """Open the file for writing. Raises `Corrupt` or `StoreUnavailable`."""
        watermark = cls(path, _open(path, os.O_RDWR))
        try:
            watermark.check()
        except BaseException:
            watermark.close()
            raise
        return watermark

    @classmethod
    def follow(cls, path: Path) -> "Watermark":
        return cls(path, _open(path, os.O_RDONLY))

    def height(self) -> int:
        """The newest height on disk; -1 when there is no block yet. Raises `Corrupt`."""
        return self._read(_BLOCKS) - 1

    def oldest(self) -> int:
        """The oldest height that is kept, as last written."""
        return self._read(_OLDEST)

    def advance(self, height: int) -> None:
        """Record that `height` is on disk. Raises `StoreUnavailable`."""
        # Check first: workers read the number as soon as it is written, even in a file that was removed.
        self._try(check_linked)
        self._write(_BLOCKS, height + 1)
        self._sync()

    def tell_oldest(self, height: int) -> None:
        """Record for workers that nothing below `height` is kept. Raises `StoreUnavailable`."""
        self._write(_OLDEST, height)

    # What the journal must be found to hold; see `journal.Bounds`.

    def journal_start(self) -> int:
        return self._read(_JOURNAL_START)

    def journal_end(self) -> int:
        return self._read(_JOURNAL_END)

    def raise_journal_start(self, frame: int) -> None:
        self._write(_JOURNAL_START, frame)
        self._sync()

    def raise_journal_end(self, frame: int) -> None:
        # Unsynced, so that no submission waits for it: a power loss may lower it to what the last block synced.
        self._write(_JOURNAL_END, frame)

    def bounds(self) -> StoreBounds:
        """All of its numbers. Raises `Corrupt`."""
        return StoreBounds(self.height(), self.oldest(), self.journal_start(), self.journal_end())

    def is_in_place(self) -> bool:
        """Whether its path still leads to it: another directory may be there by now."""
        try:
            return os.path.samestat(os.fstat(self._file), os.stat(self._path))
        except OSError:
            return False

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def check(self) -> None:
        """Raise `Corrupt` unless every number can be read."""
        size = os.fstat(self._file).st_size
        if size != SIZE:
            raise Corrupt(f"{self._path} has {size} bytes, not {SIZE}")
        for kind in _KINDS:
            self._read(kind)

    def damaged_copies(self) -> Iterator[str]:
        """Which of its copies have a wrong checksum: each number can still be known from another one."""
        for at in range(0, SIZE, PAGE):
            kind = at // _KIND_BYTES
            page = os.pread(self._file, _NUMBER.size + _CHECKSUM.size, at)
            if page != _encode(kind, int.from_bytes(page[: _NUMBER.size], "big")):
                yield f"{_NAMES[kind]}: the copy at byte {at} does not have its checksum"

    def _read(self, kind: int) -> int:
        try:
            content = os.pread(self._file, _KIND_BYTES, kind * _KIND_BYTES)
        except OSError as failure:
            raise StoreUnavailable(f"cannot read {self._path}: {reason_of(failure)}") from failure
        pages = [content[start : start + _NUMBER.size + _CHECKSUM.size] for start in range(0, len(content), PAGE)]
        # The greatest number first.
        for page in sorted(pages, reverse=True):
            number = int.from_bytes(page[: _NUMBER.size], "big")
            if page == _encode(kind, number):
                return number
        raise Corrupt(f"{self._path}: {_NAMES[kind]}: none of its copies has its checksum")

    def _write(self, kind: int, number: int) -> None:
        content = _encode(kind, number)
        try:
            for copy in range(_COPIES):
                write_at(self._file, content, kind * _KIND_BYTES + (copy * _TURNS + number % _TURNS) * PAGE)
        except OSError as failure:
            raise StoreUnavailable(f"cannot write {self._path}: {reason_of(failure)}") from failure

    def _sync(self) -> None:
        self._try(sync_file)

    def _try(self, action: Callable[[int], None]) -> None:
        try:
            action(self._file)
        except OSError as failure:
            raise StoreUnavailable(f"cannot write {self._path}: {reason_of(failure)}") from failure


def _open(path: Path, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except OSError as failure:
        raise StoreUnavailable(f"cannot open {path}: {reason_of(failure)}") from failure


def _encode(kind: int, number: int) -> bytes:
    packed = _NUMBER.pack(number)
    # With the kind, so that one number's page cannot stand for another's; never zero for a page of zeros.
    return packed + _CHECKSUM.pack(crc32(bytes((kind + 1,)) + packed))
