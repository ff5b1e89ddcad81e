"""Who voted on the latest blocks: one record a block, a hundred of them, as they were left."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.domain.errors import Corrupt
from cairn.domain.governance import VOTED_BLOCKS
from cairn.store import keys
from cairn.store.chain import Attendance
from cairn.store.rocks import Database, WriteBatch

FIRST, SECOND = b"\x01" * 20, b"\x02" * 20


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database.create(tmp_path / "chain")
    yield opened
    opened.close()


def add(database: Database, attendance: Attendance, height: int, *absent: bytes) -> None:
    batch = WriteBatch(database)
    attendance.put(batch, height, absent)
    database.write(batch)
    attendance.add(absent)


def test_absences_are_loaded_as_they_were_added(database: Database) -> None:
    attendance = Attendance()
    for height in range(2, 7):
        add(database, attendance, height, *((FIRST, SECOND) if height == 3 else (SECOND,)))
    for each in (attendance, Attendance.load(database, 6)):
        assert (each.blocks, each.missed()) == (5, {FIRST: 1, SECOND: 5})
    assert Attendance.load(database, 0).blocks == 0


def test_a_hundred_records_are_kept_on_disk_and_in_memory(database: Database) -> None:
    assert VOTED_BLOCKS == 100
    attendance = Attendance()
    for height in range(1, 251):
        add(database, attendance, height, *((FIRST,) if height in (150, 151) else ()))
    held = [key for key, _ in database.scan(keys.META)]
    assert held == [keys.absent_key(height) for height in range(151, 251)]
    for each in (attendance, Attendance.load(database, 250)):
        assert (each.blocks, each.missed()) == (100, {FIRST: 1})


def test_counting_begins_anew_after_a_gap(database: Database) -> None:
    """A node that restored a snapshot has the votes of the blocks after it only."""
    attendance = Attendance()
    add(database, attendance, 5, FIRST)
    add(database, attendance, 40, SECOND)
    add(database, attendance, 41)
    loaded = Attendance.load(database, 41)
    assert (loaded.blocks, loaded.missed()) == (2, {SECOND: 1})


def test_an_absence_record_of_a_wrong_length_is_corrupt(database: Database) -> None:
    batch = WriteBatch(database)
    batch.put(keys.META, keys.absent_key(7), b"short")
    database.write(batch)
    with pytest.raises(Corrupt, match="the absent validators of block 7 have 5 bytes"):
        Attendance.load(database, 7)
