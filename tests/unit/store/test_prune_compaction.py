"""The space of removed blocks goes back to the disk, while the chain goes on and is read."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.domain.errors import StoreUnavailable
from cairn.store import keys, prune
from cairn.store.chain import ChainStore
from cairn.store.directory import chain_path
from cairn.store.follower import FollowerStore
from cairn.store.rocks import Database, WriteBatch
from tests.support.audit import audit
from tests.support.blocks import extend, grow, next_transfers, store_genesis
from tests.support.snapshots import open_chain as open_signed_chain
from tests.support.snapshots import pay, prune_until


def open_chain(directory: Path) -> ChainStore:
    return ChainStore.open(directory, store_genesis())


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[ChainStore]:
    """60 blocks of 100 transactions, in tables: what is only in the log is never written to one if it is removed."""
    store = open_chain(tmp_path / "data")
    grow(store, 60, 100)
    store.close()
    store = open_chain(tmp_path / "data")
    yield store
    store.close()


def rest() -> None:
    pass


def size_bytes(chain: ChainStore) -> int:
    """The size of tables and logs; RocksDB's own notes are as long as they are."""
    path = chain_path(chain.directory)
    return sum(file.stat().st_size for kind in ("*.sst", "*.log") for file in path.glob(kind))


def deleted_files_in_use() -> list[str]:
    """Tables that this process holds open though they have no name any more."""
    links = [os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    return [link for link in links if link.endswith(".sst (deleted)")]


def test_a_chain_pruned_to_few_blocks_takes_a_fifth_of_its_space_at_most(chain: ChainStore) -> None:
    before = size_bytes(chain)
    chain.prune(58, rest)
    assert size_bytes(chain) < before / 5
    assert chain.compactions > 0
    assert [height for height in range(61) if chain.find_header(height)] == [58, 59, 60]
    grow(chain, 1, 10)
    assert chain.account(next_transfers(chain, 1)[0].sender).nonce > 0


def test_little_that_was_removed_is_left_alone(chain: ChainStore) -> None:
    files = sorted(chain_path(chain.directory).glob("*.sst"))
    chain.prune(6, rest)
    assert chain.compactions == 0
    assert sorted(chain_path(chain.directory).glob("*.sst")) == files


def test_space_removed_by_an_earlier_process_is_given_back_at_the_next_pruning(
    chain: ChainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = size_bytes(chain)
    with monkeypatch.context() as patched:
        patched.setattr(prune, "LEAST_REMOVALS", 10**9)
        chain.prune(60, rest)
    chain.close()
    again = open_chain(chain.directory)
    assert size_bytes(again) > before / 2
    again.prune(again.base, rest)
    assert size_bytes(again) < before / 5
    again.close()


def test_a_merge_needs_room_for_what_is_kept_and_waits_for_it(
    chain: ChainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def no_room(directory: Path, more_bytes: int = 0) -> None:
        asked.append(more_bytes)
        raise StoreUnavailable("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(prune, "check_room", no_room)
        chain.prune(59, rest)
    assert asked
    assert chain.compactions == 0
    chain.prune(60, rest)
    assert chain.compactions > 0


def test_a_merge_that_frees_nothing_is_not_repeated_for_every_block(
    chain: ChainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged: list[str] = []
    monkeypatch.setattr(Database, "compact", lambda database, family: merged.append(family))
    chain.prune(60, rest)
    # Once for each doubling of what is removed, not once for each of so many blocks.
    assert 1 <= merged.count(keys.TX_INDEX) <= 3


def test_a_removal_and_a_merge_that_were_cut_off_anywhere_leave_a_whole_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two families, too: some are merged then, and some are not."""
    monkeypatch.setattr(prune, "LEAST_REMOVALS", 4)
    chain = open_signed_chain(tmp_path / "data")
    for _ in range(5):
        extend(chain, [pay(chain, number, b"s" * 20) for number in range(3)])  # type: ignore[arg-type]
    for cut in range(1, 30):
        copy = tmp_path / f"copy-{cut}"
        chain.checkpoint(copy)
        pruned = open_signed_chain(copy)
        if prune_until(pruned, 4, cut):
            pruned.close()
            pruned = open_signed_chain(copy)
            assert audit(pruned) == 4
            pruned.prune(4, rest)
        assert audit(pruned) == 4
        pruned.close()
    chain.close()


def test_a_follower_reads_on_and_releases_deleted_files_without_a_new_block(chain: ChainStore, tmp_path: Path) -> None:
    follower = FollowerStore.open(chain.directory, tmp_path / "scratch")
    chain.prune(58, rest)
    assert deleted_files_in_use()
    assert follower.find_header(3) is not None
    assert len(list(follower.records(3))) == 100
    assert follower.catch_up() == 60
    assert follower.base == 58
    assert follower.find_header(57) is None
    assert len(list(follower.records(58))) == 100
    assert deleted_files_in_use() == []
    grow(chain, 1, 10)
    assert follower.catch_up() == 61
    follower.close()


def test_a_stop_does_not_wait_for_a_merge_and_loses_nothing(tmp_path: Path) -> None:
    database = Database.create(tmp_path / "rocks")
    kept: dict[bytes, bytes] = {}
    for start in range(40):
        batch = WriteBatch(database)
        for number in range(start * 500, (start + 1) * 500):
            key = number.to_bytes(32, "big")
            kept[key] = os.urandom(100)
            batch.put(keys.TX_INDEX, key, kept[key])
        database.write(batch, sync=False)

    def merge() -> None:
        for _ in range(100):
            database.compact(keys.TX_INDEX)

    merging = threading.Thread(target=merge)
    merging.start()
    database.stop_compaction()
    merging.join()
    files = sorted(path.name for path in (tmp_path / "rocks").glob("*.sst"))
    database.compact(keys.TX_INDEX)
    assert sorted(path.name for path in (tmp_path / "rocks").glob("*.sst")) == files
    database.close()
    again = Database.open_primary(tmp_path / "rocks", strict=True)
    assert dict(again.scan(keys.TX_INDEX)) == kept
    again.close()
