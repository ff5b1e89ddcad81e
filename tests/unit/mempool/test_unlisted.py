import pytest

from cairn.domain.types import Tx
from cairn.mempool.pool import PoolLimits
from cairn.mempool.unlisted import MOST, Unlisted
from tests.support.transfers import address, transfer
from tests.unit.mempool.pools import NOW, PoolWithState


def noted(*txs: Tx) -> Unlisted:
    notes = Unlisted()
    for tx in txs:
        assert notes.add(tx, NOW, 0)
    return notes


def test_a_sender_s_follow_each_other() -> None:
    notes = noted(transfer(1, 4), transfer(2, 0), transfer(1, 5))
    assert not notes.add(transfer(1, 5), NOW, 0)
    assert not notes.add(transfer(1, 7), NOW, 0)
    assert (notes.count, address(1) in notes.by_sender, address(3) in notes.by_sender) == (3, True, False)


def test_they_are_taken_as_they_came() -> None:
    txs = [transfer(1, 0), transfer(2, 0), transfer(1, 1), transfer(3, 0), transfer(2, 1)]
    notes = noted(*txs)
    assert [note.tx for note in notes.take([address(2), address(1)])] == [txs[0], txs[1], txs[2], txs[4]]
    assert (notes.count, notes.senders()) == (1, [address(3)])


def test_a_block_lets_them_go_up_to_its_nonce() -> None:
    notes = noted(*(transfer(1, nonce) for nonce in range(5, 9)))
    assert notes.settle(address(1), 5) == []
    assert notes.settle(address(1), 7) == [transfer(1, 5), transfer(1, 6)]
    assert notes.count == 2
    assert notes.settle(address(1), 20) == [transfer(1, 7), transfer(1, 8)]
    assert (notes.count, address(1) in notes.by_sender) == (0, False)
    assert notes.settle(address(1), 30) == []


def test_those_that_came_long_ago_are_told_apart() -> None:
    notes = Unlisted()
    notes.add(transfer(1, 0), NOW, 10)
    notes.add(transfer(2, 0), NOW, 11)
    notes.add(transfer(1, 1), NOW, 20)
    assert notes.senders(up_s=10) == [address(1)]
    assert notes.senders(up_s=9) == []


def test_there_is_room_for_so_many_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cairn.mempool.unlisted.MOST", 3)
    notes = noted(transfer(1, 0), transfer(2, 0), transfer(1, 1))
    assert not notes.add(transfer(3, 0), NOW, 0)
    assert notes.count == 3
    assert address(3) not in notes.by_sender


def test_one_question_never_has_too_many_to_list() -> None:
    pools = PoolWithState(PoolLimits(per_sender=2 * MOST))
    for nonce in range(MOST + 10):
        assert pools.pool.note(transfer(1, nonce, gas_price=10), NOW) == ()
    # The one too many was listed, and with it all of its sender.
    assert len(pools.pool.listed.entries_since(0)) == pools.pool.held_count == MOST + 10
    assert pools.pool.pending_count == MOST + 10


def test_a_question_about_one_sender_lists_only_that_one() -> None:
    pools = PoolWithState()
    for sender in (1, 2):
        pools.pool.note(transfer(sender, 0), NOW)
    assert pools.pool.next_nonce(address(1)) == 1
    assert [entry.tx.sender for entry in pools.pool.listed.entries_since(0)] == [address(1)]
    assert not pools.pool.listed.entries_since(0)[0].local
    entry = pools.pool.find(transfer(2, 0).hash)
    assert entry is not None
    assert not entry.local


def test_what_is_submitted_here_too_is_ours_to_answer_for() -> None:
    pools = PoolWithState()
    tx = transfer(1, 0)
    pools.pool.note(tx, NOW)
    assert not pools.pool.admit(tx, NOW + 5).added
    entry = pools.pool.find(tx.hash)
    assert entry is not None
    assert (entry.received_at, pools.pool.held_count) == (NOW, 1)


def test_reading_a_count_lists_nothing() -> None:
    pools = PoolWithState()
    pools.pool.note(transfer(1, 0, gas_price=10), NOW)
    pools.pool.note(transfer(1, 1, gas_price=10), NOW)
    for _ in range(2):
        assert (pools.pool.pending_count, pools.pool.queued_count, pools.pool.held_count) == (0, 0, 2)
        assert pools.pool.listed.entries_since(0) == []
    pools.pool.list_noted()
    assert (pools.pool.pending_count, pools.pool.queued_count, pools.pool.held_count) == (2, 0, 2)
