import os
from pathlib import Path

import pytest

from cairn.domain.errors import Corrupt
from cairn.store.segment import (
    PIECE_BYTES,
    SEGMENT_HEADER_SIZE,
    NextSegment,
    SegmentDraft,
    encode_frame,
    frame_size,
    list_segments,
    scan_segment,
    segment_path,
)
from tests.support.disk import no_file_beyond

SIZE = 4096
PAYLOADS = [b"\x07", b"a" * 7, b"\xff" * 1500, b"\x01" * 40]
FIRST = 5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A segment with one frame for each payload."""
    frames = b"".join(encode_frame(FIRST + number, payload) for number, payload in enumerate(PAYLOADS))
    return write_segment(tmp_path, frames)


def write_segment(directory: Path, frames: bytes) -> Path:
    path = segment_path(directory, 3)
    if not path.exists():
        os.close(SegmentDraft(directory, 3).finish(FIRST, SIZE))
    change(path, SEGMENT_HEADER_SIZE, frames.ljust(SIZE - SEGMENT_HEADER_SIZE, b"\0"))
    return path


def change(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def payloads(path: Path) -> list[bytes]:
    scan = scan_segment(path)
    return [frame.payload for frame in scan.frames]


def start_of(number: int) -> int:
    return SEGMENT_HEADER_SIZE + sum(frame_size(len(payload)) for payload in PAYLOADS[:number])


LAST = start_of(len(PAYLOADS) - 1)


def test_frames_are_read_as_they_were_written(path: Path) -> None:
    scan = scan_segment(path)
    assert [(frame.sequence, frame.payload) for frame in scan.frames] == list(enumerate(PAYLOADS, FIRST))
    assert (scan.number, scan.first_sequence, scan.next_sequence) == (3, 5, 9)
    assert path.stat().st_size == SIZE


def test_segments_are_listed_in_their_order(path: Path) -> None:
    for number in (12, 1):
        segment_path(path.parent, number).touch()
    assert list_segments(path.parent) == [1, 3, 12]


def test_a_frame_never_ends_in_a_zero_and_starts_where_no_sector_ends(path: Path) -> None:
    for length in range(1, 100):
        frame = encode_frame(1, bytes(length))
        assert len(frame) == frame_size(length)
        assert len(frame) % 32 == 0
        assert frame[-1] == 0xA5


@pytest.mark.parametrize("content", [b"", bytes(10), bytes(SIZE), b"CAIRN" + bytes(100)])
def test_a_segment_without_a_header_is_damage(tmp_path: Path, content: bytes) -> None:
    path = segment_path(tmp_path, 1)
    path.write_bytes(content)
    with pytest.raises(Corrupt, match=f"{path}: the header at byte 0 is damaged"):
        scan_segment(path)


@pytest.mark.parametrize("size", [SEGMENT_HEADER_SIZE, LAST, SIZE - 1, SIZE + 512])
def test_a_segment_of_another_size_is_damage(path: Path, size: int) -> None:
    os.truncate(path, size)
    with pytest.raises(Corrupt, match=f"{path}: it has {size} bytes, and 4096 by its header at byte 0"):
        scan_segment(path)


@pytest.mark.parametrize("name", ["notes.seg", "3.seg", "0000000000000003-copy.seg", "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٣.seg"])
def test_a_file_with_a_name_like_a_segments_is_refused_by_name(path: Path, name: str) -> None:
    stray = path.with_name(name)
    stray.touch()
    with pytest.raises(Corrupt, match=f"{stray} is not a segment of the journal"):
        list_segments(path.parent)


def test_a_directory_is_no_segment(path: Path) -> None:
    stray = segment_path(path.parent, 4)
    stray.mkdir()
    with pytest.raises(Corrupt, match=f"{stray} is not a segment of the journal"):
        list_segments(path.parent)


@pytest.mark.parametrize(
    ("offset", "changed"), [(0, b"X"), (7, b"\1"), (15, b"\4"), (23, b"\7"), (26, b"\7"), (31, b"\0")]
)
def test_a_damaged_header_is_found(path: Path, offset: int, changed: bytes) -> None:
    change(path, offset, changed)
    with pytest.raises(Corrupt, match=f"{path}: the header at byte 0"):
        scan_segment(path)


def test_a_segment_under_another_name_is_refused(path: Path) -> None:
    moved = path.rename(segment_path(path.parent, 4))
    with pytest.raises(Corrupt, match="not that of segment 4 in format 2"):
        scan_segment(moved)


def test_any_flipped_byte_of_any_frame_is_found(path: Path) -> None:
    original = path.read_bytes()
    for offset in range(SEGMENT_HEADER_SIZE, start_of(len(PAYLOADS))):
        change(path, offset, bytes((original[offset] ^ 0x10,)))
        with pytest.raises(Corrupt, match=f"{path}: .* byte [0-9]+ "):
            scan_segment(path)
        change(path, offset, original[offset : offset + 1])
    assert payloads(path) == PAYLOADS


def test_a_frame_with_another_sequence_is_corrupt(path: Path) -> None:
    change(path, LAST, encode_frame(FIRST + 1, PAYLOADS[1]))
    with pytest.raises(Corrupt, match=f"{path}: at byte {LAST} frame 8 is expected, not frame 6 of 7 bytes"):
        scan_segment(path)


def test_a_write_that_stopped_at_any_byte_leaves_what_was_before(tmp_path: Path) -> None:
    whole = encode_frame(FIRST, b"first")
    for payload in (b"\x07", b"x" * 1200, bytes(range(256)) * 3):
        frame = encode_frame(FIRST + 1, payload)
        for length in range(len(frame)):
            found = payloads(write_segment(tmp_path, whole + frame[:length]))
            assert found == [b"first"]
        assert payloads(write_segment(tmp_path, whole + frame)) == [b"first", payload]


@pytest.mark.parametrize("lost", [0, 1, 2, 5])
def test_a_write_whose_sectors_reached_the_disk_out_of_order_counts_as_torn(tmp_path: Path, lost: int) -> None:
    whole = encode_frame(FIRST, b"first")
    frame = encode_frame(FIRST + 1, b"\x11" * 3000)
    path = write_segment(tmp_path, whole + frame)
    # The sector that the frame shares with the one before it still has that one's bytes.
    start = max(SEGMENT_HEADER_SIZE + len(whole), lost * 512)
    change(path, start, bytes((lost + 1) * 512 - start))
    assert payloads(path) == [b"first"]


def test_a_torn_frame_with_another_behind_it_is_damage(path: Path) -> None:
    change(path, 512, bytes(1024))
    with pytest.raises(
        Corrupt, match=f"the frame at byte {start_of(2)} is damaged, and another follows at byte {LAST}"
    ):
        scan_segment(path)


def test_a_frame_that_lost_only_its_filling_is_damage_too(path: Path) -> None:
    """A record may end in zeros: then a sector that is lost can leave the checksum right."""
    change(path, LAST - 1, b"\0")
    with pytest.raises(
        Corrupt, match=f"the frame at byte {start_of(2)} is damaged, and another follows at byte {LAST}"
    ):
        scan_segment(path)


def test_a_lost_frame_with_another_behind_it_is_damage(path: Path) -> None:
    change(path, start_of(1), bytes(frame_size(len(PAYLOADS[1]))))
    with pytest.raises(Corrupt, match=f"the frame at byte {start_of(1)} is damaged, and another follows"):
        scan_segment(path)


@pytest.mark.parametrize("forged", [0, FIRST, FIRST + 100_000, 2**63])
def test_a_torn_frame_whose_data_looks_like_a_later_frame_is_torn(tmp_path: Path, forged: int) -> None:
    # 24 bytes of header, and as many of data before it: each copy begins at a multiple of 32.
    data = (encode_frame(forged, b"forged") + encode_frame(forged, b"forged")) * 20
    frame = encode_frame(FIRST, data[:8].rjust(8, b"\xff") + data)
    path = write_segment(tmp_path, frame)
    assert payloads(path) != []
    change(path, SEGMENT_HEADER_SIZE, bytes(512 - SEGMENT_HEADER_SIZE))
    assert payloads(path) == []
    # The one that is really behind it is still found.
    change(path, SEGMENT_HEADER_SIZE + len(frame), encode_frame(FIRST + 1, b"later"))
    with pytest.raises(Corrupt, match=f"another follows at byte {SEGMENT_HEADER_SIZE + len(frame)}"):
        scan_segment(path)


def test_a_segment_that_cannot_be_made_whole_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        SegmentDraft(tmp_path / "missing", 1)
    draft = SegmentDraft(tmp_path, 1)
    draft.grow(SIZE)
    # No file can be renamed to a directory.
    segment_path(tmp_path, 1).mkdir()
    with pytest.raises(OSError, match="directory"):
        draft.finish(0, SIZE)
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_file()] == []


@pytest.mark.parametrize("pieces", [0, 1, 2, 3, 4])
def test_a_segment_that_was_made_in_pieces_is_as_one_that_was_made_at_once(tmp_path: Path, pieces: int) -> None:
    size = 2 * PIECE_BYTES + 100
    draft = SegmentDraft(tmp_path, 7)
    for _ in range(pieces):
        draft.grow(size)
        assert list_segments(tmp_path) == []
    os.close(draft.finish(FIRST, size))
    content = segment_path(tmp_path, 7).read_bytes()
    assert len(content) == size
    assert not content[SEGMENT_HEADER_SIZE:].strip(b"\0")
    assert (scan_segment(segment_path(tmp_path, 7)).first_sequence, list_segments(tmp_path)) == (FIRST, [7])


def test_of_a_segment_that_is_not_needed_nothing_is_left(tmp_path: Path) -> None:
    draft = SegmentDraft(tmp_path, 1)
    draft.grow(SIZE)
    draft.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_segment_that_cannot_be_made_in_advance_is_made_when_it_is_needed(tmp_path: Path) -> None:
    size = 3 * PIECE_BYTES
    following = NextSegment(tmp_path)
    following.grow(1, size)
    with no_file_beyond(PIECE_BYTES):
        following.grow(1, size)
    # Nothing of it takes up space, and it is not tried again: others may need the space that is left.
    following.grow(1, size)
    assert list(tmp_path.iterdir()) == []
    os.close(following.finish(1, FIRST, size))
    assert segment_path(tmp_path, 1).stat().st_size == size
    # The one after it is again made in advance.
    following.grow(2, size)
    assert len(list(tmp_path.iterdir())) == 2
    following.discard()
    assert list_segments(tmp_path) == [1]
    assert len(list(tmp_path.iterdir())) == 1
