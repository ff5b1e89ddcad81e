"""A sender_txs finds by nonce, whether ready or waiting."""

from cairn.mempool.order import Entry, SenderTxs, bid_of
from tests.support.transfers import address, transfer


def entry(nonce: int) -> Entry:
    return Entry(transfer(1, nonce), 0, bid_of(10, nonce))


def some_sender() -> tuple[SenderTxs, dict[int, Entry]]:
    sender_txs = SenderTxs(0, nonce=5, next_nonce=5, sender=address(1), arrival=1)
    entries = {nonce: entry(nonce) for nonce in (5, 6, 9, 8)}
    sender_txs.append(entries[5])
    sender_txs.append(entries[6])
    sender_txs.queued = {9: entries[9], 8: entries[8]}
    return sender_txs, entries


def test_counts_what_is_ready_and_what_waits() -> None:
    sender_txs, _ = some_sender()
    assert (len(sender_txs), sender_txs.next_nonce) == (4, 7)


def test_finds_by_nonce() -> None:
    sender_txs, entries = some_sender()
    assert [sender_txs.find(nonce) for nonce in range(4, 11)] == [entries.get(nonce) for nonce in range(4, 11)]


def test_lists_from_a_nonce_in_order() -> None:
    sender_txs, _ = some_sender()
    for nonce, expected in [(0, [5, 6, 8, 9]), (5, [5, 6, 8, 9]), (6, [6, 8, 9]), (7, [8, 9]), (9, [9]), (10, [])]:
        assert [found.tx.nonce for found in sender_txs.entries_from(nonce)] == expected


def test_cut_from_a_nonce() -> None:
    sender_txs, entries = some_sender()
    assert sender_txs.cut(6) == [entries[6]]
    assert (sender_txs.pending, sender_txs.nonce, sender_txs.next_nonce) == ([entries[5]], 5, 6)
    assert sender_txs.find(6) is None


def test_advances_within_what_is_ready_and_beyond_it() -> None:
    sender_txs, entries = some_sender()
    assert sender_txs.advance(6) == [entries[5]]
    assert (sender_txs.pending, sender_txs.nonce, sender_txs.next_nonce) == ([entries[6]], 6, 7)
    assert sender_txs.advance(6) == []
    assert sender_txs.advance(8) == [entries[6]]
    assert (sender_txs.pending, sender_txs.nonce, sender_txs.next_nonce) == ([], 8, 8)
