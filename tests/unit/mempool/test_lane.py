"""A lane finds by nonce, whether ready or waiting."""

from cairn.mempool.entry import Entry, bid_of
from cairn.mempool.lane import Lane
from tests.support.transfers import address, transfer


def entry(nonce: int) -> Entry:
    return Entry(transfer(1, nonce), 0, bid_of(10, nonce))


def some_lane() -> tuple[Lane, dict[int, Entry]]:
    lane = Lane(address(1), nonce=5, arrival=1)
    entries = {nonce: entry(nonce) for nonce in (5, 6, 9, 8)}
    lane.ready = [entries[5], entries[6]]
    lane.waiting = {9: entries[9], 8: entries[8]}
    return lane, entries


def test_counts_what_is_ready_and_what_waits() -> None:
    lane, _ = some_lane()
    assert (len(lane), lane.next_nonce) == (4, 7)


def test_finds_by_nonce() -> None:
    lane, entries = some_lane()
    assert [lane.find(nonce) for nonce in range(4, 11)] == [entries.get(nonce) for nonce in range(4, 11)]


def test_lists_from_a_nonce_in_order() -> None:
    lane, _ = some_lane()
    for nonce, expected in [(0, [5, 6, 8, 9]), (5, [5, 6, 8, 9]), (6, [6, 8, 9]), (7, [8, 9]), (9, [9]), (10, [])]:
        assert [found.tx.nonce for found in lane.entries_from(nonce)] == expected
