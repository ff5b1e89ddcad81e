"""The mempool in pages. A cursor names a place in the order, so it stays valid when its item is gone."""

import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Literal, NamedTuple

from cairn.domain.errors import InvalidQuery
from cairn.mempool.entry import WAITING, Entry
from cairn.mempool.order import Order, SenderLane

Listing = Literal["ready", "waiting", "sender"]

_LETTERS: dict[Listing, str] = {"ready": "r", "waiting": "w", "sender": "s"}
_LISTINGS: dict[str, Listing] = {letter: listing for listing, letter in _LETTERS.items()}
_SHAPE = re.compile(r"([rws])([0-9a-f]{1,80})-([0-9a-f]{1,16})")


class Page(NamedTuple):
    entries: list[Entry]
    total: int
    """How many there are on all pages."""
    next: str | None


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


def page_of_all(order: Order, limit: int, after: str | None) -> Page:
    """In mining order, then the queued ones by sender and nonce. Raises `InvalidQuery` if `after` does not fit."""
    shown = list(islice(_entries_after(order, after), limit + 1))
    cursor = _cursor_at(order, shown[limit - 1]) if len(shown) > limit else None
    return Page(shown[:limit], len(order.entries), cursor)


def page_of_sender(lane: SenderLane | None, limit: int, after: str | None) -> Page:
    """By nonce. `lane` is None for a sender without transactions. Raises `InvalidQuery` if `after` does not fit."""
    first_nonce = 0
    if after is not None:
        cursor = decode_cursor(after)
        if cursor.listing != "sender":
            raise InvalidQuery("after: is a cursor of the listing of all senders")
        first_nonce = cursor.nonce + 1
    if lane is None:
        return Page([], 0, None)
    shown = lane.entries_from(first_nonce)[: limit + 1]
    next_cursor = encode_cursor(Cursor("sender", 0, shown[limit - 1].tx.nonce)) if len(shown) > limit else None
    return Page(shown[:limit], len(lane), next_cursor)


def _entries_after(order: Order, cursor: str | None) -> Iterator[Entry]:
    if cursor is None:
        return chain(order.mining_order(), order.waiting_order())
    listing, place, nonce = decode_cursor(cursor)
    if listing == "ready":
        return chain(order.mining_order(place, nonce + 1), order.waiting_order())
    if listing == "waiting":
        return order.waiting_order(place, nonce + 1)
    raise InvalidQuery("after: is a cursor of the listing of one sender")


def _cursor_at(order: Order, entry: Entry) -> str:
    nonce = entry.tx.nonce
    if entry.lead == WAITING:
        return encode_cursor(Cursor("waiting", order.lane_of(entry).arrival, nonce))
    return encode_cursor(Cursor("ready", entry.lead, nonce))
