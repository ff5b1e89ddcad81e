"""Cursors come back as they were given out, and nothing else does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cairn.domain.errors import InvalidQuery
from cairn.domain.types import MAX_UINT64
from cairn.mempool.pool import Cursor, Listing, decode_cursor, encode_cursor

LISTINGS: list[Listing] = ["pending", "queued", "sender"]


@given(st.sampled_from(LISTINGS), st.integers(0, 2**320 - 1), st.integers(0, MAX_UINT64))
def test_round_trip(listing: Listing, place: int, nonce: int) -> None:
    cursor = Cursor(listing, place, nonce)
    text = encode_cursor(cursor)
    assert decode_cursor(text) == cursor
    assert text.replace("-", "").isalnum(), "must need no quoting in a URL"


@given(st.text(alphabet="rwsx0189af-A \n", max_size=12))
def test_any_other_text_is_refused(text: str) -> None:
    try:
        cursor = decode_cursor(text)
    except InvalidQuery:
        return
    assert cursor == decode_cursor(encode_cursor(cursor))


def test_a_line_break_at_the_end_is_refused() -> None:
    with pytest.raises(InvalidQuery):
        decode_cursor("r1-1\n")
