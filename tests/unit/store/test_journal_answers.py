"""Answers to requests with an idempotency key, in the journal: as durable as transactions, and kept after these."""

from pathlib import Path

from cairn.domain.transactions import encode_record
from cairn.domain.types import Tx
from cairn.store.journal import Journal, KeptAnswer
from cairn.store.segment import list_segments, scan_segment, segment_path
from tests.support.core_fixtures import signed
from tests.support.journals import open_journal


def answer_of(tx: Tx, confirmed: bool = False) -> KeptAnswer:
    key = bytes((tx.nonce,)) * 32
    return KeptAnswer(key, b"r" * 32, tx.hash, confirmed, received_at=77, answered_at=5)


def add(journal: Journal, nonce: int) -> None:
    """A transaction and the answer to its request, of which the transaction is settled already."""
    tx = signed(nonce)
    journal.append_add(0, tx, encode_record(tx))
    journal.append_answer(answer_of(tx))
    journal.sync()
    journal.settle(tx.hash)


def test_an_answer_has_the_form_that_is_written_down(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    journal.append_answer(answer_of(signed(3), confirmed=True))
    journal.sync()
    journal.close()
    (number,) = list_segments(tmp_path)
    (frame,) = scan_segment(segment_path(tmp_path, number)).frames
    numbers = b"".join(number.to_bytes(8, "big") for number in (1, 77, 5))
    assert frame.payload == b"\x05" + numbers + b"\x03" * 32 + b"r" * 32 + signed(3).hash + b"\x01"


def test_answers_come_back_in_their_order_and_not_as_transactions(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    for nonce in (2, 0, 1):
        add(journal, nonce)
    for _ in range(2):
        journal.close()
        journal = open_journal(tmp_path)
        assert journal.recovered_answers == [answer_of(signed(nonce)) for nonce in (2, 0, 1)]
    # New ones come after all of them, also after the last of another kind.
    add(journal, 3)
    journal.close()
    journal = open_journal(tmp_path)
    assert [answer.key[0] for answer in journal.recovered_answers] == [2, 0, 1, 3]
    journal.close()


def test_an_answer_and_its_transaction_are_in_one_frame(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    add(journal, 0)
    journal.close()
    (number,) = list_segments(tmp_path)
    frames = scan_segment(segment_path(tmp_path, number)).frames
    (payload,) = [frame.payload for frame in frames]
    assert payload.count(signed(0).hash) == 2, "of the transaction, and of the answer"


def test_an_answer_outlives_the_segments_of_settled_transactions(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, segment_bytes=2_048, max_segments=2)
    add(journal, 0)
    first = list_segments(tmp_path)
    for nonce in range(1, 60):
        add(journal, nonce)
        journal.settle_answer(answer_of(signed(nonce)).key)
    assert not set(first) & set(list_segments(tmp_path)), "the journal does not grow for it"
    journal.close()
    journal = open_journal(tmp_path)
    assert answer_of(signed(0)) in journal.recovered_answers
    journal.close()


def test_settled_answers_take_no_space(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, segment_bytes=2_048, max_segments=2)
    for nonce in range(60):
        add(journal, nonce)
        journal.settle_answer(answer_of(signed(nonce)).key)
    journal.sync()
    assert len(list_segments(tmp_path)) <= 2
    journal.close()


def test_a_key_that_is_used_again_has_its_newest_answer(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    old, new = answer_of(signed(0)), KeptAnswer(b"\x00" * 32, b"s" * 32, signed(1).hash, False, 80, 9)
    journal.append_answer(old)
    journal.sync()
    journal.settle_answer(old.key)
    journal.append_answer(new)
    journal.sync()
    journal.close()
    journal = open_journal(tmp_path)
    assert journal.recovered_answers == [new]
    journal.close()
