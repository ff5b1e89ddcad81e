"""Where a page of the mempool ended, as text. It names a place, not an item, and so holds when the item is gone."""

import re
from typing import Literal, NamedTuple

from cairn.domain.errors import InvalidQuery

Listing = Literal["ready", "waiting", "sender"]

_LETTERS: dict[Listing, str] = {"ready": "r", "waiting": "w", "sender": "s"}
_LISTINGS: dict[str, Listing] = {letter: listing for listing, letter in _LETTERS.items()}
_SHAPE = re.compile(r"([rws])([0-9a-f]{1,80})-([0-9a-f]{1,16})")


class Cursor(NamedTuple):
    listing: Listing
    place: int
    """A lead in `ready`, a sender's arrival in `waiting`; 0 in the listing of one sender."""
    nonce: int


def encode_cursor(cursor: Cursor) -> str:
    return f"{_LETTERS[cursor.listing]}{cursor.place:x}-{cursor.nonce:x}"


def decode_cursor(text: str) -> Cursor:
    """Raises `InvalidQuery`."""
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise InvalidQuery("after: is not a cursor of this node")
    letter, place, nonce = match.groups()
    return Cursor(_LISTINGS[letter], int(place, 16), int(nonce, 16))
