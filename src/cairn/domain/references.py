"""References: data of a transfer that is text, so that people can read what a payment is for."""

from cairn.domain.errors import InvalidField


def reference_of(data: bytes) -> str | None:
    """The text that `data` is, if `str.isprintable` says so: no control, format or unassigned characters.

    Those could break the line, turn the direction of writing, or be of no width. It does not make a text unmistakable:
    other characters look like each other, or like nothing.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if text and text.isprintable() else None


def data_of(reference: str) -> bytes:
    """The data of a transfer with this reference. Raises `InvalidField`."""
    if not reference:
        raise InvalidField("reference", "is empty: leave it out")
    if not reference.isprintable():
        # What would not be shown as a reference must not be taken as one.
        hidden = ord(next(character for character in reference if not character.isprintable()))
        # Half a character has no bytes in UTF-8.
        why = "not a character: leave it out" if 0xD800 <= hidden <= 0xDFFF else "not printable: send it as data"
        raise InvalidField("reference", f"holds U+{hidden:04X}, which is {why}")
    return reference.encode()
