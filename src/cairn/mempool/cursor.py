"""Where a page of the mempool ended, as text. It names a place, not an item, and so holds when the item is gone."""

import re
from typing import Literal, NamedTuple

from cairn.domain.errors import InvalidQuery

Listing = Literal["ready", "waiting", "sender"]

_LETTERS: dict[Listing, str] = {"ready": "r", "waiting": "w", "sender": "s"}
_LISTINGS: dict[str, Listing] = {letter: listing for listing, letter in _LETTERS.items()}
_SHAPE = re.compile(r"[rws][0-9a-f]{1,96}")


class Cursor(NamedTuple):
    listing: Listing
    number: int
    """A rank, the place of a waiting transaction, or a nonce: whatever orders the listing."""


def encode_cursor(listing: Listing, number: int) -> str:
    return f"{_LETTERS[listing]}{number:x}"


def decode_cursor(text: str) -> Cursor:
    """Raises `InvalidQuery`."""
    if not _SHAPE.fullmatch(text):
        raise InvalidQuery("after: is not a cursor of this node")
    return Cursor(_LISTINGS[text[0]], int(text[1:], 16))
