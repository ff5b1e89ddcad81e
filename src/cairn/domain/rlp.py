"""RLP, Ethereum's encoding: canonical in both directions, as far as transactions and headers need it.

What cannot be read is refused in the words of geth, whose names for the fields a `Shape` has.
"""

from typing import NamedTuple

# RLP marks a string of n bytes, n up to 55, with 0x80 + n (so 0xa0: 32 bytes, 0x94: 20 bytes), a list with 0xc0 + n,
# and longer ones with the length of n, and n.
_PREFIX = [bytes([0x80 + length]) for length in range(56)]
_SMALL = [b"\x80"] + [bytes([number]) for number in range(1, 128)]

LIST = 0xC0
"""The first byte of a list, at least."""
_LIST_PREFIX = [bytes([LIST + length]) for length in range(56)] + [bytes([0xF8, length]) for length in range(56, 256)]
CANON_SIZE = "non-canonical size information"


class Shape(NamedTuple):
    """A list of so many strings."""

    name: str
    fields: tuple[tuple[str, str], ...]
    """Name and type of each."""
    list_at: int | None = None
    """Which of them is a list in its turn."""

    def wrong(self, why: str, index: int | None = None) -> ValueError:
        """What is wrong with the whole, or with one of its fields."""
        if index is None:
            return ValueError(f"{why} for types.{self.name}")
        field, kind = self.fields[index]
        return ValueError(f"{why} for {kind}, decoding into (types.{self.name}).{field}")


def encode_uint(number: int) -> bytes:
    """RLP of an integer of at most 55 bytes: big-endian without leading zeros."""
    if 0 <= number < 128:
        return _SMALL[number]
    size = (number.bit_length() + 7) >> 3
    return _PREFIX[size] + number.to_bytes(size, "big")


def encode_list(body: bytes) -> bytes:
    """A list, from its items."""
    size = len(body)
    return _LIST_PREFIX[size] + body if size < 256 else list_start(size) + body


def list_start(size: int) -> bytes:
    """What comes before the items of a list, which have so many bytes together."""
    return _LIST_PREFIX[size] if size < 256 else _long_start(LIST, size)


def encode_string(content: bytes) -> bytes:
    size = len(content)
    if size == 1 and content[0] < 0x80:
        return content
    return _PREFIX[size] + content if size < 56 else _long_start(0x80, size) + content


def _long_start(kind: int, size: int) -> bytes:
    digits = size.to_bytes((size.bit_length() + 7) >> 3, "big")
    return bytes((kind + 55 + len(digits),)) + digits


def decode_list(raw: bytes, at: int, shape: Shape) -> tuple[list[bytes], list[int]]:
    """The content of each item of the list that begins at `at` and ends with `raw`, and where the items begin.

    Raises `ValueError` unless it is canonical.
    """
    if at >= len(raw) or raw[at] < LIST:
        raise shape.wrong("expected input list")
    at, end = _bounds(raw, at, shape)
    if end != len(raw):
        is_cut = end > len(raw)
        raise ValueError(
            "value size exceeds available input length" if is_cut else "input contains more than one value"
        )
    count = len(shape.fields)
    items: list[bytes] = []
    places: list[int] = []
    for index in range(count):
        if at == end:
            raise shape.wrong("too few elements")
        first = raw[at]
        places.append(at)
        if first < 0x80:
            start, after = at, at + 1
        else:
            if first <= 0xB7:
                start, after = at + 1, at + first - 0x7F
            else:
                start, after = _bounds(raw, at, shape, index)
                if first >= LIST and shape.list_at != index:
                    raise shape.wrong("expected input string or byte", index)
            if after > end:
                raise ValueError("element is larger than containing list")
            if first == 0x81 and raw[start] < 0x80:
                raise shape.wrong(CANON_SIZE, index)
        items.append(raw[start:after])
        at = after
    if at != end:
        # They are not read: that bounds the work on a hostile input.
        raise shape.wrong("input list has too many elements")
    if shape.list_at is not None and raw[places[shape.list_at]] < LIST:
        raise shape.wrong("expected input list", shape.list_at)
    return items, places


def split_list(raw: bytes, shape: Shape) -> list[bytes]:
    """The items of a list of any length, each with what marks it. Raises `ValueError` unless that is all of `raw`."""
    if not raw or raw[0] < LIST:
        raise shape.wrong("expected input list")
    at, end = _bounds(raw, 0, shape)
    if end != len(raw):
        raise shape.wrong("another length")
    items = []
    while at < end:
        after = at + 1 if raw[at] < 0x80 else _bounds(raw, at, shape)[1]
        items.append(raw[at:after])
        at = after
    if at != end:
        raise shape.wrong("another length")
    return items


def string_of(item: bytes, shape: Shape) -> bytes:
    """What an item holds that is a string. Raises `ValueError`."""
    if item[0] >= LIST:
        raise shape.wrong("expected input string")
    return item if item[0] < 0x80 else item[_bounds(item, 0, shape)[0] :]


def _bounds(raw: bytes, at: int, shape: Shape, index: int | None = None) -> tuple[int, int]:
    """Where the content of a list, or of a string that has its length before it, starts and ends."""
    size = raw[at] - (LIST if raw[at] >= LIST else 0x80)
    start = at + 1
    if size > 55:
        start += size - 55
        digits = raw[at + 1 : start]
        size = int.from_bytes(digits, "big")
        if len(digits) != start - at - 1:
            raise ValueError("unexpected EOF")
        if digits[0] == 0 or size < 56:
            raise shape.wrong(CANON_SIZE, index)
    return start, start + size


def decode_uint(items: list[bytes], index: int, size: int, shape: Shape) -> int:
    """The integer of at most `size` bytes in one of the items."""
    item = items[index]
    if item and not item[0]:
        raise shape.wrong("non-canonical integer (leading zero bytes)", index)
    if len(item) > size:
        raise shape.wrong("input string too long", index)
    return int.from_bytes(item)


def decode_word(items: list[bytes], index: int, shape: Shape) -> bytes:
    """An integer with its leading zeros, so that it has 32 bytes; more, if it is above 2^256-1."""
    item = items[index]
    if item and not item[0]:
        raise shape.wrong("non-canonical integer (leading zero bytes)", index)
    return item.rjust(32, b"\0")
