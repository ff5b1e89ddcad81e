from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.domain.errors import Corrupt
from cairn.domain.governance import VOTED_BLOCKS
from cairn.store import keys
from cairn.store.missed_votes import MissedVotes
from cairn.store.rocks import Database, WriteBatch

FIRST, SECOND = b"\x01" * 20, b"\x02" * 20


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database.create(tmp_path / "chain")
    yield opened
    opened.close()


def add(database: Database, missed_votes: MissedVotes, height: int, *absent: bytes) -> None:
    batch = WriteBatch(database)
    missed_votes.put(batch, height, absent)
    database.write(batch)
    missed_votes.add(absent)


def test_absences_are_loaded_as_they_were_added(database: Database) -> None:
    missed_votes = MissedVotes()
    for height in range(2, 7):
        add(database, missed_votes, height, *((FIRST, SECOND) if height == 3 else (SECOND,)))
    for each in (missed_votes, MissedVotes.load(database, 6)):
        assert (each.blocks, each.by_validator()) == (5, {FIRST: 1, SECOND: 5})
    assert MissedVotes.load(database, 0).blocks == 0


def test_a_hundred_records_are_kept_on_disk_and_in_memory(database: Database) -> None:
    assert VOTED_BLOCKS == 100
    missed_votes = MissedVotes()
    for height in range(1, 251):
        add(database, missed_votes, height, *((FIRST,) if height in (150, 151) else ()))
    held = [key for key, _ in database.scan(keys.META)]
    assert held == [keys.absent_key(height) for height in range(151, 251)]
    for each in (missed_votes, MissedVotes.load(database, 250)):
        assert (each.blocks, each.by_validator()) == (100, {FIRST: 1})


def test_counting_begins_anew_after_a_gap(database: Database) -> None:
    """A node that restored a snapshot has the votes of the blocks after it only."""
    missed_votes = MissedVotes()
    add(database, missed_votes, 5, FIRST)
    add(database, missed_votes, 40, SECOND)
    add(database, missed_votes, 41)
    loaded = MissedVotes.load(database, 41)
    assert (loaded.blocks, loaded.by_validator()) == (2, {SECOND: 1})


def test_an_absence_record_of_a_wrong_length_is_corrupt(database: Database) -> None:
    batch = WriteBatch(database)
    batch.put(keys.META, keys.absent_key(7), b"short")
    database.write(batch)
    with pytest.raises(Corrupt, match="the absent validators of block 7 have 5 bytes"):
        MissedVotes.load(database, 7)
