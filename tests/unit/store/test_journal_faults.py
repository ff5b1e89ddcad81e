"""The journal on a disk that fails, and after a process that was killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cairn.domain.errors import StoreUnavailable
from cairn.domain.types import Tx
from cairn.store.directory import sync_file
from cairn.store.journal import Journal
from cairn.store.segment import list_segments, segment_path
from tests.support.disk import files_of, no_file_beyond, only_file
from tests.support.journals import Unbounded, append, open_journal
from tests.support.transfers import transfer

SEGMENT = 64 << 10

APPEND_FOR_EVER = """
import sys
from pathlib import Path
from cairn.domain.transactions import encode_record
from tests.support.journals import open_journal
from tests.support.transfers import transfer
journal = open_journal(Path(sys.argv[1]), segment_bytes=16384)
nonce = 0
while True:
    for _ in range(nonce % 5 + 1):
        tx = transfer(1, nonce)
        journal.append_add(nonce, tx, encode_record(tx))
        nonce += 1
    journal.sync()
    print(nonce, flush=True)
"""


def append_transfers(journal: Journal, first: int, count: int) -> list[Tx]:
    added = [transfer(1, nonce) for nonce in range(first, first + count)]
    append(journal, added)
    return added


def test_a_power_loss_while_it_is_opened_after_a_failed_sync_leaves_no_hole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk: dict[Path, bytes] = {}
    is_refused = False

    def sync(file: int) -> None:
        if is_refused:
            raise OSError("refused")
        sync_file(file)
        path = Path(os.readlink(f"/proc/self/fd/{file}"))
        on_disk[path.with_name(path.name.removesuffix(".new"))] = path.read_bytes()

    monkeypatch.setattr("cairn.store.journal.sync_file", sync)
    monkeypatch.setattr("cairn.store.segment.sync_file", sync)
    journal = open_journal(tmp_path, SEGMENT)
    accepted = append_transfers(journal, 0, 1)
    journal.sync()
    append_transfers(journal, 1, 1)
    is_refused = True
    with pytest.raises(StoreUnavailable, match="refused"):
        journal.sync()
    journal.close()
    is_refused = False
    with monkeypatch.context() as patched:
        # The power fails before the old segment is gone.
        patched.setattr(Journal, "_remove", no_power)
        with pytest.raises(StoreUnavailable, match="no power"):
            open_journal(tmp_path, SEGMENT)
    for path in files_of(tmp_path):
        (tmp_path / path).write_bytes(on_disk[tmp_path / path])
    journal = open_journal(tmp_path, SEGMENT)
    assert [entry.tx for entry in journal.recovered][:1] == accepted
    journal.close()


def no_power(journal: Journal, numbers: list[int], kept: int) -> None:
    raise OSError("no power")


@pytest.mark.parametrize("room", [0, 1, 20, 24, 500, 511, 512, 1024, 3020, 3103])
def test_a_write_that_the_disk_stops_halfway_loses_only_itself(tmp_path: Path, room: int) -> None:
    journal = open_journal(tmp_path, SEGMENT)
    accepted = append_transfers(journal, 0, 10)
    journal.sync()
    end = 32 + 3104
    assert journal._offset == end
    append_transfers(journal, 10, 10)
    with no_file_beyond(end + room), pytest.raises(StoreUnavailable, match="cannot be written: .*File too large"):
        journal.sync()
    # Not even when there is room again: what the kernel did with the pages is unknown.
    for use in (journal.sync, journal.probe):
        with pytest.raises(StoreUnavailable, match="File too large"):
            use()
    journal.close()
    journal = open_journal(tmp_path, SEGMENT)
    # All or nothing, also where the bytes that are missing from the records were zeros.
    assert [entry.tx for entry in journal.recovered] == accepted
    accepted += append_transfers(journal, 20, 5)
    journal.sync()
    journal.close()
    journal = open_journal(tmp_path, SEGMENT)
    assert [entry.tx for entry in journal.recovered] == accepted
    journal.close()


def test_a_watermark_that_cannot_be_written_is_named_without_an_error_code(tmp_path: Path) -> None:
    class Full(Unbounded):
        def raise_journal_end(self, frame: int) -> None:
            raise StoreUnavailable("cannot write watermark: no space")

    journal = open_journal(tmp_path, SEGMENT, bounds=Full())
    append_transfers(journal, 0, 1)
    with pytest.raises(StoreUnavailable) as failure:
        journal.sync()
    assert failure.value.detail == f"the journal at {tmp_path} cannot be written: cannot write watermark: no space"
    journal.close()


def test_no_room_for_the_next_segment_is_found_before_anything_is_answered(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, 1024)
    accepted = append_transfers(journal, 0, 1)
    journal.sync()
    append_transfers(journal, 1, 3)
    with no_file_beyond(600), pytest.raises(StoreUnavailable, match="File too large"):
        journal.sync()
    journal.close()
    assert len(list_segments(tmp_path)) == 1
    journal = open_journal(tmp_path, 1024)
    assert [entry.tx for entry in journal.recovered] == accepted
    journal.close()


def test_no_room_for_a_segment_that_is_made_in_advance_refuses_nothing(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, 1024)
    written = append_transfers(journal, 0, 3)
    with no_file_beyond(1000):
        journal.sync()
    # There is room again when the segment is needed.
    assert [path.name for path in tmp_path.iterdir()] == [segment_path(tmp_path, 1).name]
    written += append_transfers(journal, 3, 3)
    journal.sync()
    journal.close()
    assert list_segments(tmp_path) == [1, 2]
    journal = open_journal(tmp_path, 1024)
    assert [entry.tx for entry in journal.recovered] == written
    journal.close()


def test_an_opening_without_room_changes_nothing_and_works_later(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, SEGMENT)
    accepted = append_transfers(journal, 0, 50)
    journal.sync()
    journal.close()
    before = files_of(tmp_path)
    with no_file_beyond(1000), pytest.raises(StoreUnavailable, match="cannot open the journal"):
        open_journal(tmp_path, SEGMENT)
    assert files_of(tmp_path) == before
    journal = open_journal(tmp_path, SEGMENT)
    assert [entry.tx for entry in journal.recovered] == accepted
    journal.close()


def test_a_failed_probe_ends_the_journal(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, SEGMENT)
    with no_file_beyond(40), pytest.raises(StoreUnavailable):
        journal.probe()
    with pytest.raises(StoreUnavailable):
        journal.sync()
    journal.close()


def test_a_sync_that_the_device_refuses_ends_the_journal(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, SEGMENT)
    append_transfers(journal, 0, 3)
    with open("/dev/null", "r+b") as device:
        # It takes every byte and cannot be synced.
        os.dup2(device.fileno(), journal._file)
    with pytest.raises(StoreUnavailable, match="Invalid argument"):
        journal.sync()
    with pytest.raises(StoreUnavailable, match="Invalid argument"):
        journal.sync()
    journal.close()


def test_recovered_transactions_are_written_and_synced_again_when_opening(tmp_path: Path) -> None:
    """After a failed sync the kernel shows pages that never reached the disk."""
    journal = open_journal(tmp_path, SEGMENT)
    append_transfers(journal, 0, 5)
    journal.sync()
    journal.close()
    old = only_file(tmp_path, "*.seg")
    open_journal(tmp_path, SEGMENT).close()
    assert only_file(tmp_path, "*.seg") != old


@pytest.mark.parametrize("syncs", [1, 30, 100])
def test_a_killed_process_loses_nothing_that_it_had_synced(tmp_path: Path, syncs: int) -> None:
    with subprocess.Popen([sys.executable, "-c", APPEND_FOR_EVER, str(tmp_path)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        told = b"".join(child.stdout.readline() for _ in range(syncs))
        child.send_signal(signal.SIGKILL)
        told = (told + child.stdout.read()).splitlines()[-1]
    journal = open_journal(tmp_path)
    found = [entry.tx for entry in journal.recovered]
    journal.close()
    assert len(found) >= int(told)
    assert found == [transfer(1, nonce) for nonce in range(len(found))]
