"""Kinds of damage to a data directory that leave no wrong byte behind: what is missing looks as if it never was."""

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.support.disk import only_file, overwrite

SECTOR = 512

Damage = Callable[[Path], Path]
"""Does it to a data directory; returns the file or directory that the node must name."""


def _segment(directory: Path) -> Path:
    return only_file(directory / "journal", "*.seg")


def journal_missing(directory: Path) -> Path:
    shutil.rmtree(directory / "journal")
    return directory / "journal"


def segment_missing(directory: Path) -> Path:
    _segment(directory).unlink()
    return directory / "journal"


def segment_empty(directory: Path) -> Path:
    segment = _segment(directory)
    segment.write_bytes(b"")
    return segment


def segment_zeroed(directory: Path) -> Path:
    segment = _segment(directory)
    segment.write_bytes(bytes(segment.stat().st_size))
    return segment


def segment_truncated(directory: Path) -> Path:
    """Where a frame ends, so that nothing in it is broken."""
    segment = _segment(directory)
    content = segment.read_bytes()
    segment.write_bytes(content[: content.rindex(b"CJFR")])
    return segment


def segment_cut_in_its_zeros(directory: Path) -> Path:
    segment = _segment(directory)
    segment.write_bytes(segment.read_bytes()[:-SECTOR])
    return segment


def last_sectors_zeroed(directory: Path) -> Path:
    """As a disk shows what it never wrote, though it said so."""
    segment = _segment(directory)
    used = len(segment.read_bytes().rstrip(b"\0"))
    start = used // SECTOR * SECTOR - SECTOR
    overwrite(segment, start, bytes(2 * SECTOR))
    return segment


def current_missing(directory: Path) -> Path:
    """Remove the file whose absence RocksDB takes for a store that is yet to be made."""
    (directory / "chain" / "CURRENT").unlink()
    return directory / "chain" / "CURRENT"


def manifest_missing(directory: Path) -> Path:
    manifest = only_file(directory / "chain", "MANIFEST-*")
    manifest.unlink()
    return manifest


def watermark_missing(directory: Path) -> Path:
    (directory / "watermark").unlink()
    return directory / "watermark"


def watermark_empty(directory: Path) -> Path:
    (directory / "watermark").write_bytes(b"")
    return directory / "watermark"


def watermark_zeroed(directory: Path) -> Path:
    path = directory / "watermark"
    path.write_bytes(bytes(path.stat().st_size))
    return path


def stray_segment(directory: Path) -> Path:
    path = directory / "journal" / "copy of 1.seg"
    path.write_bytes(b"anything")
    return path


def segment_without_zeros(directory: Path) -> Path:
    """A number, but not as we write it."""
    path = directory / "journal" / "7.seg"
    path.write_bytes(b"anything")
    return path


DAMAGES: tuple[Damage, ...] = (
    journal_missing,
    segment_missing,
    segment_empty,
    segment_zeroed,
    segment_truncated,
    segment_cut_in_its_zeros,
    last_sectors_zeroed,
    current_missing,
    manifest_missing,
    watermark_missing,
    watermark_empty,
    watermark_zeroed,
    stray_segment,
    segment_without_zeros,
)
