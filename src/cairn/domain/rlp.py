"""RLP, Ethereum's encoding: canonical in both directions, as far as transactions and headers need it."""

from cairn.domain.types import MAX_UINT256

# RLP marks a string of n bytes, n up to 55, with 0x80 + n (so 0xa0: 32 bytes, 0x94: 20 bytes), a list with 0xc0 + n,
# and longer ones with the length of n, and n.
_PREFIX = [bytes([0x80 + length]) for length in range(56)]
_SMALL = [b"\x80"] + [bytes([number]) for number in range(1, 128)]


def encode_uint(number: int) -> bytes:
    """RLP of an integer of at most 55 bytes: big-endian without leading zeros."""
    if number < 128:
        return _SMALL[number]
    size = (number.bit_length() + 7) >> 3
    return _PREFIX[size] + number.to_bytes(size, "big")


def decode_list(raw: bytes, count: int) -> tuple[list[bytes], list[int]]:
    """The `count` strings of a flat list, and where each begins. Raises `ValueError` unless `raw` is canonical."""
    at, end = _decode_length(raw, 0, 0xC0)
    if end != len(raw):
        raise ValueError(f"the list takes {end} bytes of {len(raw)}")
    items: list[bytes] = []
    places: list[int] = []
    while at < end:
        first = raw[at]
        if first < 0x80:
            start, after = at, at + 1
        elif first <= 0xB7:
            start, after = at + 1, at + 1 + first - 0x80
        else:
            start, after = _decode_length(raw, at, 0x80)
        if after > end:
            raise ValueError("an item is cut short")
        if first == 0x81 and raw[start] < 0x80:
            raise ValueError("a single byte below 0x80 has a prefix")
        if len(items) == count:
            # Also bounds the work on a hostile input.
            raise ValueError(f"the list has more than {count} items")
        items.append(raw[start:after])
        places.append(at)
        at = after
    if len(items) != count:
        raise ValueError(f"the list has {len(items)} items, not {count}")
    return items, places


def _decode_length(raw: bytes, at: int, offset: int) -> tuple[int, int]:
    """Where the content of the item at `at` starts and ends; its first byte must be in `offset`'s range of 64."""
    if at >= len(raw) or not offset <= raw[at] < offset + 64:
        raise ValueError(f"no {'list' if offset == 0xC0 else 'string'} at byte {at}")
    size = raw[at] - offset
    start = at + 1
    if size > 55:
        start += size - 55
        digits = raw[at + 1 : start]
        size = int.from_bytes(digits, "big")
        if len(digits) != start - at - 1 or digits[0] == 0 or size < 56:
            raise ValueError(f"the length at byte {at} is not canonical")
    return start, start + size


def decode_uint(item: bytes, limit: int) -> int:
    if item[:1] == b"\0":
        raise ValueError("an integer has leading zeros")
    number = int.from_bytes(item, "big")
    if number > limit:
        raise ValueError(f"an integer is above {limit}")
    return number


def decode_word(item: bytes) -> bytes:
    """The 32 bytes of an integer that is written without its leading zeros."""
    if item[:1] == b"\0":
        raise ValueError("an integer has leading zeros")
    if len(item) > 32:
        raise ValueError(f"an integer is above {MAX_UINT256}")
    return item.rjust(32, b"\0")


def encode_list(body: bytes) -> bytes:
    """A list of at most 65,535 bytes, from its items."""
    size = len(body)
    if size < 56:
        return bytes((0xC0 + size,)) + body
    return bytes((0xF8, size)) + body if size < 256 else b"\xf9" + size.to_bytes(2, "big") + body
