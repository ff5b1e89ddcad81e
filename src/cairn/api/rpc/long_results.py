"""Results of megabytes, made in pieces: encoding or copying all of one at once would make others wait."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from io import BytesIO

import msgspec

from cairn.time_shares import in_slices

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


async def joined(pieces: Iterable[bytes]) -> bytes:
    """The bytes of all pieces, put together in slices of time."""
    whole = BytesIO()
    async for piece in in_slices(pieces):
        whole.write(piece)
    # It is not copied again.
    return whole.getvalue()
