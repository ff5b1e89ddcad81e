"""The journal of transactions with data: their records have tails."""

from pathlib import Path

import pytest

from cairn.domain.errors import Corrupt
from cairn.domain.transactions import encode_record
from cairn.store.segment import list_segments, scan_segment
from tests.support.disk import only_file
from tests.support.journals import append, open_journal, recovered
from tests.support.transfers import transfer
from tests.support.tx_data import data_by_number


def test_transactions_with_data_come_back_between_others(tmp_path: Path) -> None:
    added = [transfer(1, nonce, data=data_by_number(nonce)) for nonce in range(20)]
    journal = open_journal(tmp_path)
    append(journal, added)
    journal.append_drop(added[3].hash, "replaced")
    journal.settle(added[3].hash)
    journal.sync()
    journal.close()
    for _ in range(2):
        assert recovered(tmp_path) == added[:3] + added[4:]


def test_a_frame_torn_within_data_was_never_accepted(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, [transfer(1, 0)])
    journal.sync()
    append(journal, [transfer(2, nonce, data=b"\xff" * 256) for nonce in range(4)])
    journal.sync()
    journal.close()
    path = only_file(tmp_path, "*.seg")
    frame = scan_segment(path).frames[1]
    # Within the data of the second of them.
    cut = frame.offset + 24 + (25 + 540) + 25 + 284 + 100
    content = path.read_bytes()
    path.write_bytes(content[:cut] + bytes(len(content) - cut))
    assert recovered(tmp_path) == [transfer(1, 0)]


@pytest.mark.parametrize(
    ("length", "why"),
    [
        (b"\0\0", "has 0 bytes of data, expected 1 to 256"),
        (b"\x01\x01", "has 257 bytes of data, expected 1 to 256"),
        (b"\0\x0d", "a transaction record has 296 bytes, expected 297"),
        (b"\0\x0b", "holds an unknown record of kind 97"),
    ],
)
def test_a_record_whose_data_has_another_length_is_damage(tmp_path: Path, length: bytes, why: str) -> None:
    journal = open_journal(tmp_path)
    tx = transfer(1, 0, data=b"abcdefghijka")
    record = encode_record(tx)
    journal.append_add(0, tx, record[:282] + length + record[284:])
    journal.sync()
    journal.close()
    with pytest.raises(Corrupt, match=f"{only_file(tmp_path, '*.seg')}: the frame at byte 32.*{why}"):
        open_journal(tmp_path)


def test_a_journal_full_of_the_longest_data_is_not_moved_around(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, segment_bytes=8_192, max_segments=3)
    for nonce in range(200):
        append(journal, [transfer(1, nonce, data=b"\xff" * 256)])
        journal.sync()
    numbers = list_segments(tmp_path)
    # All that is in them lives: each transaction was written once.
    assert numbers == list(range(1, len(numbers) + 1))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1.2 * 200 * (25 + 540 + 24 + 32)
    for nonce in range(195):
        journal.settle(transfer(1, nonce, data=b"\xff" * 256).hash)
    journal.sync()
    assert list_segments(tmp_path) == numbers[-1:]
    journal.close()
