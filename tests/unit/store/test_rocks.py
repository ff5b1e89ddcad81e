from collections.abc import Iterator
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from cairn.domain.errors import Corrupt, DirectoryInUse, StoreUnavailable, WrongFormat
from cairn.domain.steps import finish
from cairn.store.keys import ACCOUNTS, FAMILIES, META, TX_INDEX
from cairn.store.rocks import Database, WriteBatch
from tests.support.disk import compact, files_of, flip_byte, flush, no_file_beyond, only_file, overwrite


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chain"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    opened = Database.create(path)
    yield opened
    opened.close()


def put(database: Database, family: str, *pairs: tuple[bytes, bytes]) -> None:
    batch = WriteBatch(database)
    for key, value in pairs:
        batch.put(family, key, value)
    database.write(batch)


def many(count: int) -> list[tuple[bytes, bytes]]:
    return [(b"%032d" % number, b"%0100d" % number) for number in range(count)]


def test_a_key_is_found_in_its_family_only(database: Database) -> None:
    put(database, META, (b"key", b"value"), (b"empty", b""))
    assert database.get(META, b"key") == b"value"
    assert database.get(META, b"empty") == b""
    assert [database.get(family, b"key") for family in FAMILIES if family != META] == [None] * (len(FAMILIES) - 1)


def test_pairs_put_at_once_are_sorted(database: Database) -> None:
    batch = WriteBatch(database)
    finish(batch.put_sorted_steps(TX_INDEX, [(b"b", b"2"), (b"c", b"3"), (b"a", b"1")]))
    database.write(batch)
    assert list(database.scan(TX_INDEX)) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
    assert list(database.scan(META)) == []


def test_the_first_of_a_prefix_is_found_in_memory_and_on_disk(database: Database) -> None:
    one, two, three = (bytes(19) + bytes((who,)) for who in (1, 2, 3))
    put(database, ACCOUNTS, (one + b"5" * 8, b"1-5"), (one + b"7" * 8, b"1-7"), (three + b"1" * 8, b"3-1"))
    for _ in range(2):
        assert database.first_of_prefix(ACCOUNTS, one + b"0" * 8) == (one + b"5" * 8, b"1-5")
        assert database.first_of_prefix(ACCOUNTS, one + b"5" * 8) == (one + b"5" * 8, b"1-5")
        assert database.first_of_prefix(ACCOUNTS, one + b"6" * 8) == (one + b"7" * 8, b"1-7")
        # Not the next account's, although its key is the next one.
        assert database.first_of_prefix(ACCOUNTS, one + b"8" * 8) is None
        assert database.first_of_prefix(ACCOUNTS, two + b"0" * 8) is None
        flush(database)


def test_the_first_of_a_prefix_is_found_with_the_key_behind_all_of_it(database: Database) -> None:
    one, two, three = (bytes(19) + bytes((who,)) for who in (1, 2, 3))
    versions = [(one + bytes((number,)) * 8, b"1-%d" % number) for number in range(4)]
    put(database, ACCOUNTS, *versions, (three + b"1" * 8, b"3-1"))

    def look(key: bytes) -> tuple[tuple[bytes, bytes] | None, bytes | None]:
        return database.first_and_behind(ACCOUNTS, key, key[:20], key[:20] + b"\xff" * 9)

    for _ in range(2):
        for version in versions:
            assert look(version[0]) == (version, three + b"1" * 8)
        assert look(one + b"\4" * 8) == (None, None)
        assert look(two + bytes(8)) == (None, None)
        assert look(three + bytes(8)) == ((three + b"1" * 8, b"3-1"), None)
        flush(database)


def test_everything_is_there_after_a_flush_a_compaction_and_a_new_opening(path: Path) -> None:
    database = Database.create(path)
    for start in range(0, 300, 100):
        put(database, TX_INDEX, *many(start + 100)[start:])
        flush(database)
    compact(database)
    assert list(database.scan(TX_INDEX)) == many(300)
    database.close()
    database = Database.open_primary(path, strict=True)
    assert list(database.scan(TX_INDEX)) == many(300)
    database.close()


def test_a_second_opening_is_refused_and_a_closed_one_is_no_hindrance(path: Path) -> None:
    first = Database.create(path)
    with pytest.raises(DirectoryInUse):
        Database.open_primary(path, strict=True)
    first.close()
    Database.open_primary(path, strict=True).close()


def test_a_read_only_opening_shows_the_log_and_changes_no_data(path: Path, database: Database) -> None:
    put(database, META, (b"key", b"value"))
    before = files_of(path)
    other = Database.open_read_only(path, strict=False)
    assert other.get(META, b"key") == b"value"
    other.close()
    after = files_of(path)
    assert {name: after[name] for name in before if name != "LOG"} == {
        name: content for name, content in before.items() if name != "LOG"
    }


def test_a_flipped_byte_in_a_table_is_never_given_out(path: Path) -> None:
    database = Database.create(path)
    put(database, TX_INDEX, *many(1000))
    flush(database)
    database.close()
    table = only_file(path, "*.sst")
    size = table.stat().st_size
    database = Database.open_primary(path, strict=True)
    # Within the data blocks, which are the first 90 % of the file.
    for offset in range(0, size * 9 // 10, size // 23):
        flip_byte(table, offset)
    with pytest.raises(Corrupt, match=f"checksum mismatch.*in {table} offset 0"):
        database.get(TX_INDEX, b"%032d" % 0)
    with pytest.raises(Corrupt, match="checksum mismatch"):
        list(database.scan(TX_INDEX))
    database.close()


def test_iterators_tell_damage_from_the_end(path: Path) -> None:
    database = Database.create(path)
    put(database, ACCOUNTS, *((key[-20:] + bytes(8), value) for key, value in many(50)))
    flush(database)
    database.close()
    database = Database.open_primary(path, strict=True)
    flip_byte(only_file(path, "*.sst"), 100)
    with pytest.raises(Corrupt, match="checksum mismatch"):
        database.first_of_prefix(ACCOUNTS, b"%020d" % 3 + bytes(8))
    with pytest.raises(Corrupt, match="checksum mismatch"):
        database.first_and_behind(ACCOUNTS, b"%020d" % 3 + bytes(8), b"%020d" % 3, b"%020d" % 4)
    with pytest.raises(Corrupt, match="checksum mismatch"):
        list(database.scan(ACCOUNTS))
    database.close()


@pytest.mark.parametrize("offset_from_end", [1, 40, 200])
def test_a_damaged_table_end_stops_the_opening(path: Path, offset_from_end: int) -> None:
    database = Database.create(path)
    put(database, TX_INDEX, *many(1000))
    flush(database)
    database.close()
    table = only_file(path, "*.sst")
    flip_byte(table, table.stat().st_size - offset_from_end)
    with pytest.raises(Corrupt, match=str(table)):
        Database.open_primary(path, strict=True)


def test_a_missing_table_stops_the_opening(path: Path) -> None:
    database = Database.create(path)
    put(database, TX_INDEX, *many(1000))
    flush(database)
    database.close()
    table = only_file(path, "*.sst")
    table.unlink()
    with pytest.raises(Corrupt, match=table.name):
        Database.open_primary(path, strict=True)


def test_a_damaged_manifest_stops_the_opening(path: Path) -> None:
    Database.create(path).close()
    manifest = only_file(path, "MANIFEST-*")
    flip_byte(manifest, 20)
    with pytest.raises(Corrupt):
        Database.open_primary(path, strict=True)


def test_a_store_with_other_families_is_refused_by_their_names(path: Path) -> None:
    Database.create(path).close()
    options = Options(raw_mode=True)
    options.create_missing_column_families(True)
    Rdict(str(path), options, dict.fromkeys((*FAMILIES, "receipts"), Options(raw_mode=True))).close()
    with pytest.raises(WrongFormat, match="receipts"):
        Database.open_primary(path, strict=True)


def test_the_store_of_something_else_is_refused(path: Path) -> None:
    Database.create(path).close()
    overwrite(path / "CURRENT", 0, b"NOT-A-MANIFEST\n\n")
    with pytest.raises((WrongFormat, Corrupt)):
        Database.open_primary(path, strict=True)


def test_after_a_failed_write_every_other_is_refused(path: Path) -> None:
    database = Database.create(path)
    put(database, META, (b"before", b"1"))
    with no_file_beyond(4096), pytest.raises(StoreUnavailable, match="File too large"):
        put(database, META, (b"during", bytes(10_000)))
    with pytest.raises(StoreUnavailable, match="File too large"):
        put(database, META, (b"after", b"1"))
    database.close()
    database = Database.open_primary(path, strict=False)
    assert database.get(META, b"before") == b"1"
    assert database.get(META, b"during") is None
    put(database, META, (b"after", b"1"))
    database.close()


def test_a_path_that_cannot_be_used_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match=str(tmp_path / "file")):
        Database.open_primary(tmp_path / "file", strict=True)


def test_a_secondary_can_neither_write_nor_a_primary_catch_up(path: Path, database: Database, tmp_path: Path) -> None:
    put(database, META, (b"key", b"value"))
    secondary = Database.open_secondary(path, tmp_path / "scratch")
    assert secondary.get(META, b"key") == b"value"
    with pytest.raises(StoreUnavailable, match="Not supported"):
        put(secondary, META, (b"key", b"other"))
    secondary.close()
    with pytest.raises(StoreUnavailable, match="only by secondary"):
        database.catch_up()


def test_a_checkpoint_is_a_copy_that_lives_on_its_own(path: Path, database: Database, tmp_path: Path) -> None:
    put(database, TX_INDEX, *many(100))
    database.checkpoint(tmp_path / "copy")
    put(database, TX_INDEX, (b"later", b"1"))
    copy = Database.open_primary(tmp_path / "copy", strict=True)
    assert list(copy.scan(TX_INDEX)) == many(100)
    copy.close()
    with pytest.raises(StoreUnavailable):
        database.checkpoint(tmp_path / "copy")
