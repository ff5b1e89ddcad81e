"""The files of the journal: segments of checksummed frames, and what a crash can have left of them.

    segment   header 32 | frames, each aligned to 32 bytes | zeros up to the end of the file
    header    "CJSG" 4 | version 4 | number 8 | first frame's sequence 8 | size of the file 4
              | CRC-32 of these 4                                                                    (big-endian)
    frame     "CJFR" 4 | payload length 4 | sequence 8 | CRC-32 of the payload 4 | CRC-32 of these 4
              | payload | 1 to 32 bytes of 0xa5, up to the alignment

A segment is made under another name, synced, and only then given its own: from its first moment on it has a header and
its full size, and whatever lacks one of them is damaged. It is made in pieces, while the one before it is filled.

A frame is one write and one sync: all of it counts or nothing. The next frame is written only after that sync, so only
the last frame can be torn, and nobody was told of it. What a torn write leaves is telling: the file was zeros before,
and disks write sectors of 512 bytes wholly or not at all. A frame whose checksum or filling is wrong is torn when its
end or one of its sectors is still zero, and nothing is behind it; else a byte was changed after it was written: that is
damage.
Whether such a frame was synced after all, and lost later, only the end tells that the journal had reached (`Bounds`).
(No sector of a whole frame is all zeros: every record has a hash in it, the longest data has 256 bytes, and the last
byte is 0xa5.)
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from struct import Struct
from zlib import crc32

import msgspec

from cairn.domain.errors import Corrupt
from cairn.store.directory import begin_sync, is_file, names_in, sync_directory, sync_file, write_at

VERSION = 2
SECTOR = 512
ALIGNMENT = 32
PIECE_BYTES = 256 << 10
"""How much of a new segment is written at once: a fraction of a millisecond's work."""
FILL = b"\xa5"

_SEGMENT_NAME = re.compile(r"[0-9]{16}\.seg")
_DRAFT_SUFFIX = ".new"
_SEGMENT_MAGIC = b"CJSG"
_SEGMENT_HEADER = Struct(">4sIQQI")
_FRAME_MAGIC = b"CJFR"
_FRAME_HEADER = Struct(">4sIQI")
_CHECKSUM = Struct(">I")
SEGMENT_HEADER_SIZE = _SEGMENT_HEADER.size + _CHECKSUM.size
FRAME_HEADER_SIZE = _FRAME_HEADER.size + _CHECKSUM.size
assert SEGMENT_HEADER_SIZE == ALIGNMENT


class Frame(msgspec.Struct, frozen=True):
    offset: int
    sequence: int
    payload: bytes


class Scan(msgspec.Struct, frozen=True):
    """What a segment holds."""

    number: int
    first_sequence: int
    frames: list[Frame]

    @property
    def next_sequence(self) -> int:
        return self.first_sequence + len(self.frames)


def segment_path(directory: Path, number: int) -> Path:
    return directory / f"{number:016d}.seg"


def list_segments(directory: Path) -> list[int]:
    """The segments in their order; none where there is no directory. Raises `Corrupt` for what only looks like one."""
    paths = [directory / name for name in names_in(directory) if name.endswith(".seg")]
    for path in paths:
        if not _SEGMENT_NAME.fullmatch(path.name) or not is_file(path):
            raise Corrupt(f"{path} is not a segment of the journal: move it elsewhere")
    return sorted(int(path.stem) for path in paths)


def remove_drafts(directory: Path) -> None:
    """Remove segments whose making was interrupted. Raises `OSError`."""
    for name in names_in(directory):
        if name.endswith(_DRAFT_SUFFIX) and _SEGMENT_NAME.fullmatch(name.removesuffix(_DRAFT_SUFFIX)):
            (directory / name).unlink()


class SegmentDraft:
    """A segment in the making. It may be written a piece at a time, since whoever submits waits for each piece.

    The space is written, not just reserved: then no append can find the disk full, and a sync has only data to write,
    not the file system's own record of which blocks have become valid.
    """

    def __init__(self, directory: Path, number: int) -> None:
        """Begin segment `number`. Raises `OSError`."""
        self._number = number
        self._path = segment_path(directory, number)
        self._draft = self._path.with_name(self._path.name + _DRAFT_SUFFIX)
        self._file = os.open(self._draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._written = SEGMENT_HEADER_SIZE
        """How far there are zeros behind the header, which comes last."""

    def grow(self, size: int) -> None:
        """Write one more piece, unless it has `size` bytes. Raises `OSError`."""
        if self._written < size:
            start = self._written
            self._write_piece(size)
            begin_sync(self._file, start, self._written - start)

    def finish(self, first_sequence: int, size: int) -> int:
        """Put `size` bytes on disk, under the name of a segment; returns the open file. Raises `OSError`."""
        header = _SEGMENT_HEADER.pack(_SEGMENT_MAGIC, VERSION, self._number, first_sequence, size)
        try:
            while self._written < size:
                self._write_piece(size)
            write_at(self._file, _checksummed(header), 0)
            sync_file(self._file)
            self._draft.rename(self._path)
            sync_directory(self._path.parent)
        except BaseException:
            self.discard()
            self._path.unlink(missing_ok=True)
            raise
        return self._file

    def discard(self) -> None:
        """Leave nothing of it behind."""
        os.close(self._file)
        # What cannot be removed now is removed by the next opening.
        with suppress(OSError):
            self._draft.unlink()

    def _write_piece(self, size: int) -> None:
        piece = bytes(min(PIECE_BYTES, size - self._written))
        write_at(self._file, piece, self._written)
        self._written += len(piece)


class NextSegment:
    """The segment after the one that is being filled, made in advance, a piece at a time.

    Whether there is room for it is decided when it is needed: until then, what cannot be written refuses nothing.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._draft: SegmentDraft | None = None
        self._has_failed = False

    def grow(self, number: int, size: int) -> None:
        """Make one more piece, unless one could not be made."""
        if self._has_failed:
            return
        try:
            self._draft = self._draft or SegmentDraft(self._directory, number)
            self._draft.grow(size)
        except OSError:
            # Others may need the space that is left.
            self.discard()
            self._has_failed = True

    def finish(self, number: int, first_sequence: int, size: int) -> int:
        """Put it on disk; returns the open file. The next one is then the one after it. Raises `OSError`."""
        draft = self._draft or SegmentDraft(self._directory, number)
        self._draft, self._has_failed = None, False
        return draft.finish(first_sequence, size)

    def discard(self) -> None:
        if self._draft is not None:
            self._draft.discard()
            self._draft = None


def encode_frame(sequence: int, payload: bytes) -> bytes:
    header = _checksummed(_FRAME_HEADER.pack(_FRAME_MAGIC, len(payload), sequence, crc32(payload)))
    return header + payload + FILL * (ALIGNMENT - (FRAME_HEADER_SIZE + len(payload)) % ALIGNMENT)


def frame_size(payload_bytes: int) -> int:
    return (FRAME_HEADER_SIZE + payload_bytes) // ALIGNMENT * ALIGNMENT + ALIGNMENT


def scan_segment(path: Path) -> Scan:
    """Read a segment. Raises `Corrupt` or `OSError`."""
    content = path.read_bytes()
    header = content[:SEGMENT_HEADER_SIZE]
    if not _is_checked(header, SEGMENT_HEADER_SIZE):
        raise Corrupt(f"{path}: the header at byte 0 is damaged")
    magic, version, number, first_sequence, size = _SEGMENT_HEADER.unpack_from(header)
    if magic != _SEGMENT_MAGIC or version != VERSION or number != int(path.stem):
        raise Corrupt(f"{path}: the header at byte 0 is not that of segment {int(path.stem)} in format {VERSION}")
    if len(content) != size:
        raise Corrupt(f"{path}: it has {len(content)} bytes, and {size} by its header at byte 0")
    return Scan(number, first_sequence, list(_frames(path, content, first_sequence)))


def _frames(path: Path, content: bytes, sequence: int) -> Iterator[Frame]:
    offset = SEGMENT_HEADER_SIZE
    while offset + FRAME_HEADER_SIZE <= len(content):
        header = content[offset : offset + FRAME_HEADER_SIZE]
        if not _is_checked(header, FRAME_HEADER_SIZE):
            _check_unwritten(path, content, offset, sequence)
            return
        magic, length, found, checksum = _FRAME_HEADER.unpack_from(header)
        start = offset + FRAME_HEADER_SIZE
        end = offset + frame_size(length)
        if magic != _FRAME_MAGIC or found != sequence or end > len(content):
            raise Corrupt(f"{path}: at byte {offset} frame {sequence} is expected, not frame {found} of {length} bytes")
        payload, filling = content[start : start + length], content[start + length : end]
        # A wrong byte of the filling alone harms nothing, but a disk that changes bytes is not to be trusted further.
        if crc32(payload) != checksum or filling.strip(FILL):
            _check_torn(path, content, offset, end, sequence)
            return
        yield Frame(offset, sequence, payload)
        sequence += 1
        offset = end


def _check_unwritten(path: Path, content: bytes, offset: int, sequence: int) -> None:
    """At `offset` there is no frame header: the rest must be unwritten, or a single frame whose start is missing."""
    behind = content[offset + FRAME_HEADER_SIZE :]
    if _is_zero(behind):
        return
    if not _is_zero(content[offset : offset + FRAME_HEADER_SIZE]):
        raise Corrupt(f"{path}: the frame header at byte {offset} is damaged")
    _check_nothing_behind(path, content, offset, offset + ALIGNMENT, sequence)


def _check_torn(path: Path, content: bytes, offset: int, end: int, sequence: int) -> None:
    """The frame from `offset` to `end` is not as it was written: it must be the torn last one."""
    sectors = range(-(-offset // SECTOR) * SECTOR, end - SECTOR + 1, SECTOR)
    if content[end - 1] and not any(_is_zero(content[start : start + SECTOR]) for start in sectors):
        raise Corrupt(f"{path}: the frame at byte {offset} is damaged")
    _check_nothing_behind(path, content, offset, end, sequence)


def _check_nothing_behind(path: Path, content: bytes, offset: int, behind: int, sequence: int) -> None:
    """Frame `sequence` at `offset` is not whole: then no later one may be there.

    What looks like a frame may be the data of a transaction in the torn one. A later frame has a number that is
    higher by as many frames as may be in between; whoever forges one does not know the number.
    """
    for start in range(behind, len(content) - FRAME_HEADER_SIZE + 1, ALIGNMENT):
        if content.startswith(_FRAME_MAGIC, start) and _is_checked(content[start:], FRAME_HEADER_SIZE):
            found = _FRAME_HEADER.unpack_from(content, start)[2]
            if 0 < found - sequence <= (start - offset) // ALIGNMENT:
                raise Corrupt(f"{path}: the frame at byte {offset} is damaged, and another follows at byte {start}")


def _checksummed(header: bytes) -> bytes:
    return header + _CHECKSUM.pack(crc32(header))


def _is_checked(content: bytes, size: int) -> bool:
    end = size - _CHECKSUM.size
    return content[end:size] == _CHECKSUM.pack(crc32(content[:end])) and not _is_zero(content[:size])


def _is_zero(content: bytes) -> bool:
    return content.count(0) == len(content)
