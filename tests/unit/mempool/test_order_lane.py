"""A lane finds by nonce, whether ready or waiting."""

from cairn.mempool.entry import Entry
from cairn.mempool.order import SenderLane, bid_of
from tests.support.transfers import address, transfer


def entry(nonce: int) -> Entry:
    return Entry(transfer(1, nonce), 0, bid_of(10, nonce))


def some_lane() -> tuple[SenderLane, dict[int, Entry]]:
    lane = SenderLane(0, nonce=5, next_nonce=5, sender=address(1), arrival=1)
    entries = {nonce: entry(nonce) for nonce in (5, 6, 9, 8)}
    lane.append(entries[5])
    lane.append(entries[6])
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


def test_cut_from_a_nonce() -> None:
    lane, entries = some_lane()
    assert lane.cut(6) == [entries[6]]
    assert (lane.ready, lane.nonce, lane.next_nonce) == ([entries[5]], 5, 6)
    assert lane.find(6) is None


def test_advances_within_what_is_ready_and_beyond_it() -> None:
    lane, entries = some_lane()
    assert lane.advance(6) == [entries[5]]
    assert (lane.ready, lane.nonce, lane.next_nonce) == ([entries[6]], 6, 7)
    assert lane.advance(6) == []
    assert lane.advance(8) == [entries[6]]
    assert (lane.ready, lane.nonce, lane.next_nonce) == ([], 8, 8)
