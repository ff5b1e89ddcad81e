"""The picture of the explorer: small enough for the first page of a repository, and packed without a change."""

import struct
import zlib

from tools.explorer_picture import PICTURE, SIGNATURE, chunks_of, packed

MOST_BYTES = 200_000


def pixels_of(png: bytes) -> bytes:
    return zlib.decompress(b"".join(data for kind, data in chunks_of(png) if kind == b"IDAT"))


def test_the_picture_is_small_and_wider_than_high() -> None:
    data = PICTURE.read_bytes()
    assert data.startswith(SIGNATURE)
    assert len(data) < MOST_BYTES, "run `make pictures`"
    width, height = struct.unpack(">II", dict(chunks_of(data))[b"IHDR"][:8])
    assert 1_000 < width < 1_280
    assert height < width


def test_a_packed_picture_shows_the_same() -> None:
    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 100, 90, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + bytes(100 * [row, 2, 3]) for row in range(90)), 1)
    drawn = SIGNATURE + b"".join(
        part(kind, data)
        for kind, data in ((b"IHDR", header), (b"IDAT", rows[:50]), (b"IDAT", rows[50:]), (b"IEND", b""))
    )
    smaller = packed(drawn)
    assert len(smaller) < len(drawn)
    assert [kind for kind, _ in chunks_of(smaller)] == [b"IHDR", b"IDAT", b"IEND"]
    assert pixels_of(smaller) == pixels_of(drawn)
    assert smaller.endswith(part(b"IEND", b""))
