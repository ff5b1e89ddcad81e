"""Numbers and bytes as JSON and files spell them. What cannot be read is None: the caller says which field is wrong."""

from cairn.domain.types import MAX_UINT256

MAX_EXACT_DOUBLE = 2**53
"""Up to here every integer is a double."""
MAX_AMOUNT_DIGITS = len(str(MAX_UINT256))


def find_bytes(text: object, size: int) -> bytes | None:
    """`0x` and two hexadecimal digits for each byte, of either case."""
    # The length of the text, too: fromhex skips white space.
    if not isinstance(text, str) or len(text) != 2 + 2 * size or text[:2] != "0x":
        return None
    try:
        found = bytes.fromhex(text[2:])
    except ValueError:
        return None
    return found if len(found) == size else None


def find_decimal(text: object, most_digits: int = MAX_AMOUNT_DIGITS) -> int | None:
    """Decimal digits in a string, for writers whose numbers are doubles."""
    if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= most_digits:
        return int(text)
    return None


def find_integer(number: object) -> int | None:
    """An integer of JSON; 10.0 is 10, as in JSON Schema, while the double is exact."""
    if isinstance(number, float) and number.is_integer() and abs(number) <= MAX_EXACT_DOUBLE:
        return int(number)
    return number if isinstance(number, int) and not isinstance(number, bool) else None
