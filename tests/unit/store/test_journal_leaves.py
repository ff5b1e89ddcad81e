"""What left the mempool and may still be confirmed: the journal keeps it, with the reason, until it is settled."""

from pathlib import Path

import pytest

from cairn.domain.types import DropReason, Tx
from cairn.store.segment import list_segments, scan_segment, segment_path
from tests.support.journals import append, open_journal
from tests.support.transfers import transfer

STAYS, LEAVES = transfer(9, 0), transfer(9, 1)


def kept(path: Path) -> list[tuple[Tx, DropReason | None]]:
    journal = open_journal(path)
    journal.close()
    return [(entry.tx, entry.left) for entry in journal.recovered]


@pytest.mark.parametrize("reason", ["replaced", "evicted", "expired"])
def test_a_transaction_that_left_is_recovered_with_its_reason(tmp_path: Path, reason: DropReason) -> None:
    journal = open_journal(tmp_path)
    append(journal, [STAYS, LEAVES])
    journal.append_leave(LEAVES.hash, reason)
    journal.sync()
    journal.close()
    for _ in range(3):
        assert kept(tmp_path) == [(STAYS, None), (LEAVES, reason)]


def test_a_transaction_that_left_and_was_accepted_again_is_pending(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, [LEAVES])
    journal.append_leave(LEAVES.hash, "evicted")
    append(journal, [LEAVES])
    journal.sync()
    journal.close()
    assert kept(tmp_path) == [(LEAVES, None)]
    assert kept(tmp_path) == [(LEAVES, None)]


def test_a_transaction_that_left_and_was_dropped_is_not_recovered(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, [LEAVES])
    journal.append_leave(LEAVES.hash, "evicted")
    journal.sync()
    journal.append_drop(LEAVES.hash, "nonce used")
    journal.settle(LEAVES.hash)
    journal.sync()
    journal.close()
    journal = open_journal(tmp_path)
    journal.close()
    assert (journal.recovered, journal.recovered_drops) == ([], [(LEAVES.hash, "nonce used")])


def test_the_reason_moves_with_its_transaction_to_a_newer_segment(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, segment_bytes=2560, max_segments=2)
    append(journal, [STAYS, LEAVES])
    journal.sync()
    journal.append_leave(LEAVES.hash, "replaced")
    journal.sync()
    first = list_segments(tmp_path)[0]
    for nonce in range(60):
        tx = transfer(1, nonce)
        append(journal, [tx])
        journal.sync()
        journal.settle(tx.hash)
    assert list_segments(tmp_path)[0] > first
    journal.close()
    assert [found for found in kept(tmp_path) if found[0].sender == STAYS.sender] == [
        (STAYS, None),
        (LEAVES, "replaced"),
    ]


def test_a_leave_of_an_unknown_transaction_writes_nothing(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, [STAYS])
    journal.sync()
    journal.settle(STAYS.hash)
    journal.append_leave(STAYS.hash, "evicted")
    journal.append_leave(LEAVES.hash, "evicted")
    assert journal._buffer == []
    journal.close()


def test_the_record_on_disk_has_the_form_that_is_written_down(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, [LEAVES])
    journal.sync()
    journal.append_leave(LEAVES.hash, "expired")
    journal.append_leave(LEAVES.hash, "expired")
    journal.sync()
    journal.close()
    (number,) = list_segments(tmp_path)
    frames = scan_segment(segment_path(tmp_path, number)).frames
    assert frames[-1].payload == b"\x04\x02" + LEAVES.hash
