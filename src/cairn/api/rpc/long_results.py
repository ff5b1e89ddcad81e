"""Results of megabytes: JSON in pieces. Encoding or copying all of one at once would make others wait."""

from binascii import hexlify
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import chain

import msgspec

from cairn.time_shares import in_slices

COPIED_AT_ONCE = 256 * 1024
"""Bytes. Each page of new memory is also cleared, which takes longer than the copy."""

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class LongResult:
    """JSON in pieces. They can be read once: most are made only then, in slices of time."""

    pieces: Iterable[bytes]


def long_array(items: Iterable[bytes]) -> LongResult:
    """An array of encoded items."""
    return LongResult(_array(items))


def _array(items: Iterable[bytes]) -> Iterator[bytes]:
    separator = b"["
    for item in items:
        yield separator
        yield item
        separator = b","
    yield b"]" if separator == b"," else b"[]"


def with_long_array(shown: dict[str, object], name: str, items: Iterable[bytes]) -> LongResult:
    """An object whose field `name`, an empty list so far, gets the encoded items."""
    before, empty, after = _encode(shown).partition(b'"%b":[]' % name.encode())
    assert empty, f"{name} is not an empty list"
    return LongResult(chain((before, b'"%b":' % name.encode()), _array(items), (after,)))


def long_object(fields: Iterable[tuple[str, LongResult]]) -> LongResult:
    """An object of encoded values. The names need no escapes."""
    return LongResult(_object(fields))


def _object(fields: Iterable[tuple[str, LongResult]]) -> Iterator[bytes]:
    separator = b"{"
    for name, value in fields:
        yield b'%b"%b":' % (separator, name.encode())
        yield from value.pieces
        separator = b","
    yield b"}" if separator == b"," else b"{}"


def long_data(parts: Iterable[bytes]) -> LongResult:
    """The bytes of all parts as one string of hexadecimal digits."""
    return LongResult(chain((b'"0x',), map(hexlify, parts), (b'"',)))


async def joined(pieces: Iterable[bytes]) -> bytes:
    """The bytes of all pieces, put together in slices of time."""
    whole = BytesIO()
    async for part in in_slices(_short_parts(pieces)):
        whole.write(part)
    # It is not copied again.
    return whole.getvalue()


def _short_parts(pieces: Iterable[bytes]) -> Iterator[bytes | memoryview]:
    """The pieces, but none so long that copying it takes more than a slice."""
    for piece in pieces:
        if len(piece) <= COPIED_AT_ONCE:
            yield piece
        else:
            content = memoryview(piece)
            yield from (content[at : at + COPIED_AT_ONCE] for at in range(0, len(piece), COPIED_AT_ONCE))
