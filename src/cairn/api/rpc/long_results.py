"""Results of megabytes, made in pieces: encoding or copying all of one at once would make others wait."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO

import msgspec

from cairn.time_shares import in_slices

COPIED_AT_ONCE = 256 * 1024
"""Bytes. Each page of new memory is also cleared, which takes longer than the copy."""

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class LongResult:
    """JSON in pieces."""

    pieces: list[bytes] = field(default_factory=list)


def long_array(items: Iterable[bytes]) -> LongResult:
    """An array of encoded items."""
    pieces, separator = list[bytes](), b"["
    for item in items:
        pieces += (separator, item)
        separator = b","
    return LongResult([*pieces, b"]"] if pieces else [b"[]"])


def with_long_array(shown: dict[str, object], name: str, items: Iterable[bytes]) -> LongResult:
    """An object whose field `name`, an empty list so far, gets the encoded items."""
    before, empty, after = _encode(shown).partition(b'"%b":[]' % name.encode())
    assert empty, f"{name} is not an empty list"
    return LongResult([before, b'"%b":' % name.encode(), *long_array(items).pieces, after])


def long_object(fields: Mapping[str, LongResult]) -> LongResult:
    """An object of encoded values. The names need no escapes."""
    pieces, separator = list[bytes](), b"{"
    for name, value in fields.items():
        pieces += (b'%b"%b":' % (separator, name.encode()), *value.pieces)
        separator = b","
    return LongResult([*pieces, b"}"] if pieces else [b"{}"])


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
