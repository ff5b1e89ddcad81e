import fcntl
import os
from pathlib import Path

import pytest

from cairn.domain.errors import Corrupt, StoreUnavailable
from cairn.domain.transactions import encode_record
from cairn.domain.types import Tx
from cairn.store.journal import Journal
from cairn.store.segment import list_segments, scan_segment, segment_path
from cairn.store.watermark import NOTHING_YET, Watermark
from tests.support.core_fixtures import GWEI, signed_of_each_type
from tests.support.disk import flip_byte, only_file, overwrite
from tests.support.journals import Unbounded, append, open_journal, recovered
from tests.support.transfers import transfer


def txs(count: int, sender: int = 1) -> list[Tx]:
    return [transfer(sender, nonce) for nonce in range(count)]


def reopened(journal: Journal, path: Path) -> Journal:
    journal.close()
    return open_journal(path)


def test_a_new_journal_is_empty(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "deep" / "journal")
    assert journal.recovered == []
    assert journal.recovered_drops == []
    journal.close()


def test_synced_transactions_are_recovered_in_order_of_acceptance(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, txs(5), received_at=77)
    journal.sync()
    append(journal, txs(3, sender=2), received_at=78)
    journal.sync()
    journal = reopened(journal, tmp_path)
    assert [entry.tx for entry in journal.recovered] == txs(5) + txs(3, sender=2)
    assert [entry.received_at for entry in journal.recovered] == [77] * 5 + [78] * 3
    journal.close()


def test_transactions_that_are_settled_before_the_sync_are_not_written(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    before = journal._offset
    append(journal, txs(2))
    assert journal.holds_only_adds
    for tx in txs(2):
        journal.settle(tx.hash)
    journal.sync()
    assert journal._offset == before
    append(journal, txs(1, sender=2))
    journal.sync()
    assert journal._offset > before
    journal.close()
    assert recovered(tmp_path) == txs(1, sender=2)


def test_a_drop_is_written_also_if_all_transactions_are_settled(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    [tx] = txs(1)
    append(journal, [tx])
    journal.append_drop(tx.hash, "expired")
    journal.settle(tx.hash)
    journal.sync()
    journal = reopened(journal, tmp_path)
    assert journal.recovered_drops == [(tx.hash, "expired")]
    journal.close()


def test_every_type_comes_back_with_its_caps(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, signed_of_each_type())
    journal.sync()
    journal.close()
    found = recovered(tmp_path)
    assert found == signed_of_each_type()
    assert [(tx.kind, tx.max_fee, tx.max_tip) for tx in found] == [
        (0, 0, 0),
        (1, 0, 0),
        (2, 3 * GWEI, 5),
        (2, GWEI + 3, 7),
    ]


def test_transactions_that_were_not_synced_are_not_recovered(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, txs(3))
    journal.close()
    assert recovered(tmp_path) == []


def test_opening_again_and_again_changes_nothing(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, txs(10))
    journal.append_drop(txs(10)[4].hash, "replaced")
    journal.sync()
    journal.close()
    for _ in range(3):
        journal = open_journal(tmp_path)
        assert [entry.tx for entry in journal.recovered] == txs(4) + txs(10)[5:]
        assert journal.recovered_drops == [(txs(10)[4].hash, "replaced")]
        journal.close()
        assert len(list_segments(tmp_path)) == 1


@pytest.mark.parametrize("reason", ["replaced", "evicted", "expired", "nonce used"])
def test_a_dropped_transaction_is_gone_and_its_reason_stays(tmp_path: Path, reason: str) -> None:
    journal = open_journal(tmp_path)
    append(journal, txs(2))
    journal.sync()
    journal.append_drop(txs(1)[0].hash, reason)  # type: ignore[arg-type]
    journal.settle(txs(1)[0].hash)
    journal.sync()
    journal = reopened(journal, tmp_path)
    assert [entry.tx for entry in journal.recovered] == txs(2)[1:]
    assert journal.recovered_drops == [(txs(1)[0].hash, reason)]
    journal.close()


def test_a_transaction_that_was_dropped_and_accepted_again_lives(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    [tx] = txs(1)
    append(journal, [tx])
    journal.append_drop(tx.hash, "evicted")
    journal.settle(tx.hash)
    append(journal, [tx])
    journal.sync()
    journal = reopened(journal, tmp_path)
    assert [entry.tx for entry in journal.recovered] == [tx]
    assert journal.recovered_drops == []
    journal.close()


def test_a_settled_transaction_may_come_back_until_its_segment_goes(tmp_path: Path) -> None:
    """The chain knows that it is confirmed; the journal only stops keeping it."""
    journal = open_journal(tmp_path, segment_bytes=2560)
    append(journal, txs(1))
    journal.sync()
    journal.settle(txs(1)[0].hash)
    journal.close()
    assert recovered(tmp_path) == txs(1)


def test_segments_go_once_nothing_in_them_lives_the_oldest_first(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, segment_bytes=2560)
    for tx in txs(40):
        append(journal, [tx])
        journal.sync()
    segments = list_segments(tmp_path)
    assert len(segments) == 6
    for tx in txs(40)[7:39]:
        journal.settle(tx.hash)
    journal.sync()
    assert list_segments(tmp_path) == segments
    for tx in txs(7):
        journal.settle(tx.hash)
    journal.sync()
    assert list_segments(tmp_path) == segments[-1:]
    journal.close()
    assert txs(40)[39] in recovered(tmp_path)


def test_one_long_lived_transaction_does_not_keep_old_segments(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, segment_bytes=4992, max_segments=4)
    old = txs(3, sender=9)
    append(journal, old, received_at=5)
    churn(journal, txs(300))
    assert len(list_segments(tmp_path)) <= 5
    journal.close()
    journal = open_journal(tmp_path)
    assert [entry.tx for entry in journal.recovered][:3] == old
    assert {entry.received_at for entry in journal.recovered[:3]} == {5}
    journal.close()


def churn(journal: Journal, added: list[Tx]) -> None:
    """Accept and confirm one after the other."""
    for tx in added:
        append(journal, [tx])
        journal.sync()
        journal.settle(tx.hash)


def test_a_segment_without_its_unsettled_transaction_is_corrupt(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, segment_bytes=2560, max_segments=2)
    append(journal, txs(1, sender=9))
    churn(journal, txs(10))
    oldest = segment_path(tmp_path, list_segments(tmp_path)[0])
    overwrite(oldest, 32, bytes(2560 - 32))
    with pytest.raises(Corrupt, match=f"{oldest}: transaction 0x[0-9a-f]+ is no longer in it"):
        churn(journal, txs(100)[10:])
    journal.close()


def test_a_full_mempool_is_not_written_again_and_again(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, segment_bytes=4992, max_segments=2)
    for tx in txs(400):
        append(journal, [tx])
        journal.sync()
    # 14 frames of one record each fit into a segment: all of them live, so none is moved.
    assert len(list_segments(tmp_path)) == 400 // 14 + 1
    journal.close()
    assert recovered(tmp_path) == txs(400)


def test_a_drop_stays_on_disk_as_long_as_its_add(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, segment_bytes=2560, max_segments=2)
    stays, goes = txs(2, sender=9)
    append(journal, [stays, goes])
    journal.sync()
    churn(journal, txs(10))
    journal.append_drop(goes.hash, "expired")
    journal.settle(goes.hash)
    journal.sync()
    for tx in txs(100)[10:]:
        churn(journal, [tx])
        if tx.nonce % 10 == 0:
            journal.close()
            journal = open_journal(tmp_path, segment_bytes=2560, max_segments=2)
            found = [entry.tx for entry in journal.recovered]
            assert stays in found
            assert goes not in found
            for entry in journal.recovered:
                if entry.tx != stays:
                    journal.settle(entry.tx.hash)
    journal.close()


def test_more_than_a_segment_holds_is_still_one_sync(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, segment_bytes=1024)
    append(journal, txs(100))
    journal.sync()
    append(journal, txs(100, sender=2))
    journal.sync()
    journal.close()
    assert recovered(tmp_path) == txs(100) + txs(100, sender=2)


def test_a_sync_without_anything_to_write_writes_nothing(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    before = only_file(tmp_path, "*.seg").read_bytes()
    journal.sync()
    assert only_file(tmp_path, "*.seg").read_bytes() == before
    journal.close()


def test_settling_an_unknown_transaction_is_no_error(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    journal.settle(txs(1)[0].hash)
    journal.sync()
    journal.close()


def test_a_probe_writes_and_reads_and_leaves_nothing(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, segment_bytes=256)
    for _ in range(20):
        journal.probe()
        append(journal, txs(1))
    journal.sync()
    journal.close()
    assert recovered(tmp_path) == txs(1)


def test_a_probe_of_a_disk_that_puts_bytes_elsewhere_is_damage(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    # On Linux a file that is only appended to ignores the place that a write asks for.
    fcntl.fcntl(journal._file, fcntl.F_SETFL, os.O_APPEND)
    with pytest.raises(Corrupt, match="does not give back what was just written"):
        journal.probe()
    journal.close()


def test_a_closed_journal_refuses_everything(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    journal.close()
    journal.close()
    append(journal, txs(1))
    for use in (journal.sync, journal.probe):
        with pytest.raises(StoreUnavailable, match="is closed"):
            use()


def test_a_flipped_byte_stops_the_opening_and_names_the_place(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, txs(3))
    journal.sync()
    journal.close()
    path = only_file(tmp_path, "*.seg")
    flip_byte(path, 300)
    with pytest.raises(Corrupt, match=f"{path}: the frame at byte 32 is damaged"):
        open_journal(tmp_path)
    assert list_segments(tmp_path) == [int(path.stem)]


def test_a_missing_segment_is_found(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, segment_bytes=2560)
    for tx in txs(30):
        append(journal, [tx])
        journal.sync()
    journal.close()
    missing = list_segments(tmp_path)[2]
    segment_path(tmp_path, missing).unlink()
    with pytest.raises(Corrupt, match=r"starts with frame 21, but frame 14 is the next"):
        open_journal(tmp_path)


def test_a_record_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    journal._buffer.append(b"\x09surely not")
    journal.holds_only_adds = False
    journal.sync()
    journal.close()
    with pytest.raises(Corrupt, match="holds an unknown record of kind 9"):
        open_journal(tmp_path)


def test_a_segment_whose_making_was_interrupted_is_removed(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, txs(3))
    journal.sync()
    journal.close()
    draft = tmp_path / f"{segment_path(tmp_path, 2).name}.new"
    draft.write_bytes(bytes(100))
    assert recovered(tmp_path) == txs(3)
    assert not draft.exists()


def test_the_next_segment_is_made_while_this_one_is_filled(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, 4096)
    draft = tmp_path / f"{segment_path(tmp_path, 2).name}.new"
    sizes = []
    for tx in txs(15):
        append(journal, [tx])
        journal.sync()
        sizes.append(draft.stat().st_size if draft.exists() else 0)
    # Not before half of the first one is filled, and once more in the second.
    assert sizes == [0] * 5 + [4096] * 6 + [0] * 4
    assert list_segments(tmp_path) == [1, 2]
    assert recovered(tmp_path) == txs(15)


def test_a_segment_in_the_making_goes_with_its_journal(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, 1024)
    append(journal, txs(2))
    journal.sync()
    assert len(list(tmp_path.iterdir())) == 2
    journal.close()
    assert list_segments(tmp_path) == [1]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_journal_shorter_than_its_bounds_is_corrupt(tmp_path: Path) -> None:
    Watermark.create(tmp_path / "watermark", NOTHING_YET)
    bounds = Watermark.open(tmp_path / "watermark")
    directory = tmp_path / "journal"
    journal = open_journal(directory, 2560, bounds=bounds)
    assert (bounds.journal_start(), bounds.journal_end()) == (0, 0)
    for tx in txs(30):
        append(journal, [tx])
        journal.sync()
    assert (bounds.journal_start(), bounds.journal_end()) == (0, 30)
    for tx in txs(20):
        journal.settle(tx.hash)
    journal.probe()
    journal.sync()
    # Seven frames fit into a segment.
    assert (bounds.journal_start(), bounds.journal_end()) == (14, 31)
    journal.close()
    segments = list_segments(directory)
    for missing, reason in (
        (segments[0], "starts with frame 21, but frame 14 is missing"),
        (segments[-1], "ends before frame 28, though all before frame 31 were on disk"),
    ):
        content = segment_path(directory, missing).read_bytes()
        segment_path(directory, missing).unlink()
        with pytest.raises(Corrupt, match=reason):
            open_journal(directory, bounds=bounds)
        segment_path(directory, missing).write_bytes(content)
    journal = open_journal(directory, bounds=bounds)
    assert [entry.tx for entry in journal.recovered] == txs(30)[14:]
    # Written anew into one segment, from the frame on that was next.
    assert (bounds.journal_start(), bounds.journal_end()) == (31, 32)
    journal.close()
    bounds.close()


def test_a_torn_frame_is_discarded_only_beyond_the_recorded_end(tmp_path: Path) -> None:
    Watermark.create(tmp_path / "watermark", NOTHING_YET)
    bounds = Watermark.open(tmp_path / "watermark")
    directory = tmp_path / "journal"
    journal = open_journal(directory, bounds=bounds)
    append(journal, txs(3))
    journal.sync()
    journal.close()
    torn = only_file(directory, "*.seg")
    overwrite(torn, 512, bytes(512))
    with pytest.raises(Corrupt, match=f"{torn}: ends before frame 0, though all before frame 1 were on disk"):
        open_journal(directory, bounds=bounds)
    Watermark.create(tmp_path / "fresh", NOTHING_YET)
    fresh = Watermark.open(tmp_path / "fresh")
    journal = open_journal(directory, bounds=fresh)
    assert journal.recovered == []
    journal.close()
    bounds.close()
    fresh.close()


def test_an_end_that_cannot_be_noted_ends_the_journal(tmp_path: Path) -> None:
    Watermark.create(tmp_path / "watermark", NOTHING_YET)
    bounds = Watermark.open(tmp_path / "watermark")
    journal = open_journal(tmp_path / "journal", bounds=bounds)
    bounds.close()
    append(journal, txs(1))
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="watermark"):
            journal.sync()
    journal.close()


def test_an_opening_that_was_interrupted_is_done_again(tmp_path: Path) -> None:
    """It had written some of what lives into a new segment, and had not removed the old one yet."""
    journal = open_journal(tmp_path)
    append(journal, txs(9))
    journal.sync()
    journal.close()
    old = only_file(tmp_path, "*.seg")
    content = old.read_bytes()
    open_journal(tmp_path).close()
    old.write_bytes(content)
    assert len(list_segments(tmp_path)) == 2
    assert recovered(tmp_path) == txs(9)
    assert len(list_segments(tmp_path)) == 1


def test_a_file_in_the_way_makes_the_journal_unavailable(tmp_path: Path) -> None:
    (tmp_path / "journal").touch()
    with pytest.raises(StoreUnavailable, match="cannot open the journal"):
        open_journal(tmp_path / "journal")


def test_other_files_in_the_journals_directory_are_ignored(tmp_path: Path) -> None:
    open_journal(tmp_path).close()
    (tmp_path / "notes.txt").write_text("not ours")
    assert recovered(tmp_path) == []
    assert (tmp_path / "notes.txt").exists()


def test_the_time_up_and_since_when_each_waits_come_back(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    waits, ready = txs(2)
    journal.append_add(0, waits, encode_record(waits), queued_since=0)
    journal.append_add(0, ready, encode_record(ready))
    journal.append_uptime(4_000)
    journal.sync()
    for _ in range(2):
        journal = reopened(journal, tmp_path)
        assert journal.up_s == 4_000
        assert [entry.queued_since for entry in journal.recovered] == [0, None]
    journal.close()


def test_the_time_up_outlives_the_segment_that_it_was_written_to(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, segment_bytes=2_048, max_segments=2)
    journal.append_uptime(4_000)
    first = list_segments(tmp_path)
    for tx in txs(40):
        append(journal, [tx])
        journal.sync()
        journal.settle(tx.hash)
    assert not set(first) & set(list_segments(tmp_path))
    assert reopened(journal, tmp_path).up_s == 4_000


def test_the_records_on_disk_have_the_form_that_is_written_down(tmp_path: Path) -> None:
    # A node of another version reads them too.
    journal = open_journal(tmp_path)
    waits, ready = txs(2)
    journal.append_add(77, waits, encode_record(waits), queued_since=5)
    journal.append_add(78, ready, encode_record(ready))
    journal.append_drop(waits.hash, "evicted")
    journal.append_uptime(9)
    journal.sync()
    journal.close()
    (number,) = list_segments(tmp_path)
    (frame,) = scan_segment(segment_path(tmp_path, number)).frames
    numbers = [number.to_bytes(8, "big", signed=True) for number in (1, 77, 5, 2, 78, -1, 9)]
    assert frame.payload == b"".join(
        (
            *(b"\x01", *numbers[:3], encode_record(waits)),
            *(b"\x01", *numbers[3:6], encode_record(ready)),
            *(b"\x02\x01", waits.hash),
            *(b"\x03", numbers[6]),
        )
    )


def test_transactions_added_after_an_opening_are_recovered_after_the_earlier_ones(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    expected = []
    for sender in (3, 1, 2):
        append(journal, txs(3, sender))
        expected += txs(3, sender)
        journal.sync()
        journal = reopened(journal, tmp_path)
        assert [entry.tx for entry in journal.recovered] == expected
    journal.close()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_transactions_rewritten_in_many_frames_are_all_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr("cairn.store.journal._FRAME_RECORDS", 2)
    journal = open_journal(tmp_path)
    append(journal, txs(count))
    journal.sync()
    for _ in range(2):
        journal = reopened(journal, tmp_path)
    assert [entry.tx for entry in journal.recovered] == txs(count)
    (number,) = list_segments(tmp_path)
    assert len(scan_segment(segment_path(tmp_path, number)).frames) == -(-count // 2)
    journal.close()


def test_only_so_many_reasons_are_carried_over_an_opening_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cairn.store.journal.KEPT_DROPS", 3)
    journal = open_journal(tmp_path)
    for tx in txs(5):
        journal.append_drop(tx.hash, "expired")
    journal.sync()
    for _ in range(2):
        journal = reopened(journal, tmp_path)
        assert journal.recovered_drops == [(tx.hash, "expired") for tx in txs(5)[2:]]
    journal.close()


def test_a_transaction_settled_before_its_sync_keeps_no_segment(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, segment_bytes=2_048, max_segments=100)
    for tx in txs(40):
        append(journal, [tx])
        journal.settle(tx.hash)
        journal.sync()
    assert len(list_segments(tmp_path)) == 1
    journal.close()


def test_probes_alone_leave_one_segment(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, segment_bytes=2_048)
    first = list_segments(tmp_path)
    for _ in range(100):
        journal.probe()
    assert len(list_segments(tmp_path)) == 1
    assert list_segments(tmp_path) != first
    journal.close()


def test_a_closed_journal_holds_no_file_open(tmp_path: Path) -> None:
    def opened() -> list[str]:
        found = [os.path.realpath(entry) for entry in Path("/proc/self/fd").iterdir()]
        return [path for path in found if path.startswith(os.path.realpath(tmp_path))]

    journal = open_journal(tmp_path)
    append(journal, txs(1))
    journal.sync()
    assert len(opened()) == 1
    journal.close()
    assert opened() == []


class Begun(Unbounded):
    """The store beside a journal that had frames."""

    def journal_end(self) -> int:
        return 5


@pytest.mark.parametrize(("exists", "why"), [(True, "holds no segment"), (False, "is missing")])
def test_a_journal_that_is_gone_is_damage(tmp_path: Path, exists: bool, why: str) -> None:
    path = tmp_path / "journal"
    if exists:
        path.mkdir()
    with pytest.raises(Corrupt, match=f"{why}, though all frames of the journal before 5 were on disk"):
        open_journal(path, bounds=Begun())
    assert path.exists() == exists
