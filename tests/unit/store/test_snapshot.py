"""Snapshots as they are written and kept."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.domain.errors import Corrupt, InvalidSnapshot, StoreUnavailable
from cairn.domain.genesis import genesis_digest
from cairn.domain.transactions import TX_RECORD_SIZE
from cairn.domain.types import Account, Address
from cairn.store import keys, snapshot
from cairn.store.chain import ChainStore
from cairn.store.directory import snapshots_path
from cairn.store.rocks import WriteBatch
from cairn.store.snapshot import (
    ACCOUNT_SIZE,
    KEPT,
    ChunkLayout,
    Manifest,
    SnapshotDirectory,
    decode_accounts,
    decode_manifest,
    encode_manifest,
)
from tests.support.disk import database_of, files_of, flip_byte
from tests.support.snapshots import PEOPLE, add_block, grow_signed, open_chain, pay, take_snapshot


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[ChainStore]:
    store = open_chain(tmp_path / "data")
    yield store
    store.close()


def test_a_snapshot_holds_the_block_and_every_account_that_is_not_empty(chain: ChainStore) -> None:
    grow_signed(chain, 3)
    nobody = Address(b"n" * 20)
    add_block(chain, [pay(chain, 3, nobody, value=0)])
    parcel = take_snapshot(chain)
    header = parcel.manifest.decode_header()
    assert header == chain.head_header
    assert len(parcel.chunks[0]) == TX_RECORD_SIZE
    assert parcel.chunks[0] == b"".join(chain.records(4))
    accounts = {record.address: record.account for record in decode_accounts(b"".join(parcel.chunks[1:]))}
    assert parcel.manifest.account_count == len(accounts) == 10 + 6 + 1
    assert accounts[nobody] == Account()
    assert list(accounts) == sorted(accounts)
    assert all(chain.account(address) == account for address, account in accounts.items())


def test_a_later_chain_gives_the_same_bytes_for_the_same_height(chain: ChainStore) -> None:
    grow_signed(chain, 2)
    first = take_snapshot(chain, 2)
    before = files_of(snapshots_path(chain.directory) / "2")
    grow_signed(chain, 3)
    (snapshots_path(chain.directory) / "2").rename(chain.directory / "away")
    again = take_snapshot(chain, 2)
    assert again == first
    assert files_of(snapshots_path(chain.directory) / "2") == before


def test_parts_hold_whole_records_up_to_their_size(chain: ChainStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "CHUNK_BYTES", 600)
    grow_signed(chain, 1, strangers=4)
    parcel = take_snapshot(chain)
    # Two records each, whatever data they carry: the second and the fourth have 25 and 256 bytes.
    assert [len(chunk) for chunk in parcel.chunks] == [564 + 2 + 25, 564 + 2 + 256, 282, 8 * 72, 6 * 72]
    expected = (ChunkLayout(5, TX_RECORD_SIZE), ChunkLayout(parcel.manifest.account_count, ACCOUNT_SIZE))
    counts = [parts.records_in(index) for parts in expected for index in range(parts.count)]
    assert counts == [2, 2, 1, 8, 6]


def test_only_the_two_newest_snapshots_are_kept(chain: ChainStore) -> None:
    shelf = SnapshotDirectory(snapshots_path(chain.directory))
    assert shelf.heights() == []
    for _ in range(KEPT + 2):
        grow_signed(chain, 1)
        take_snapshot(chain)
    assert shelf.heights() == [3, 4]
    assert sorted(path.name for path in snapshots_path(chain.directory).iterdir()) == ["3", "4"]


def test_an_unfinished_snapshot_is_not_offered_and_is_removed(chain: ChainStore) -> None:
    path = snapshots_path(chain.directory)
    (path / "7.new").mkdir(parents=True)
    (path / "7.new" / "000000").write_bytes(b"half")
    assert SnapshotDirectory(path).heights() == []
    grow_signed(chain, 1)
    take_snapshot(chain)
    assert [entry.name for entry in path.iterdir()] == ["1"]


def test_a_damaged_part_is_not_given_away(chain: ChainStore) -> None:
    grow_signed(chain, 1)
    take_snapshot(chain)
    path = snapshots_path(chain.directory)
    shelf = SnapshotDirectory(path)
    assert shelf.find_chunk(1, 1) is not None
    flip_byte(path / "1" / "000001", 30)
    assert shelf.find_chunk(1, 1) is None
    assert shelf.find_chunk(1, 2) is None
    assert shelf.find_chunk(2, 0) is None
    (path / "1" / "000000").unlink()
    assert shelf.find_chunk(1, 0) is None
    flip_byte(path / "1" / "manifest", 0)
    assert shelf.find_manifest(1) is None


def test_a_disk_that_refuses_is_named(chain: ChainStore) -> None:
    grow_signed(chain, 1)
    snapshots_path(chain.directory).write_text("in the way")
    with pytest.raises(StoreUnavailable, match="cannot write a snapshot to .*1.new"):
        take_snapshot(chain)


def test_a_snapshot_of_an_unknown_block_is_refused(chain: ChainStore) -> None:
    shelf = SnapshotDirectory(snapshots_path(chain.directory))
    with pytest.raises(Corrupt, match="block 4 has no header"):
        shelf.take(chain, 4, genesis_digest(chain.genesis), b"", lambda: None)


@pytest.mark.parametrize("harm", ["lost", "changed"])
def test_no_snapshot_is_taken_of_accounts_that_do_not_match_the_state_root(chain: ChainStore, harm: str) -> None:
    grow_signed(chain, 2)
    key = keys.version_key(PEOPLE[5], 0)
    batch = WriteBatch(database_of(chain))
    if harm == "lost":
        batch.delete(keys.ACCOUNTS, key)
    else:
        batch.put(keys.ACCOUNTS, key, keys.encode_version(Account(1, 0), keys.NEVER, keys.NEVER, keys.NEVER, 6, 0))
    database_of(chain).write(batch)
    with pytest.raises(
        Corrupt, match="the accounts in the store have the root 0x[0-9a-f]{64}; block 2 commits to|have other numbers"
    ):
        take_snapshot(chain)
    assert SnapshotDirectory(snapshots_path(chain.directory)).heights() == []


def test_a_pause_may_end_the_work(chain: ChainStore) -> None:
    grow_signed(chain, 1)

    def stop() -> None:
        raise InterruptedError("enough")

    shelf = SnapshotDirectory(snapshots_path(chain.directory))
    with pytest.raises(StoreUnavailable):
        shelf.take(chain, 1, genesis_digest(chain.genesis), b"", stop)
    assert shelf.heights() == []


def test_a_manifest_has_one_form() -> None:
    manifest = Manifest(b"g" * 32, b"header", b"", 1, 0, (), (b"d" * 32,))
    raw = encode_manifest(manifest)
    assert decode_manifest(raw) == manifest
    assert len(manifest.digest) == 32
    for wrong in (b"", b"\xc1", raw + b"\0", raw[:-1]):
        with pytest.raises(InvalidSnapshot, match="manifest"):
            decode_manifest(wrong)
    # The same number in more bytes than it needs.
    longer = raw.replace(b"\x01\x00\x90", b"\xcc\x01\x00\x90")
    assert longer != raw
    with pytest.raises(InvalidSnapshot, match="canonical"):
        decode_manifest(longer)
    with pytest.raises(InvalidSnapshot, match="header cannot be read"):
        manifest.decode_header()


def test_accounts_are_read_as_of_a_height(chain: ChainStore) -> None:
    states = []
    for _ in range(4):
        states.append({address: version.account for address, version in chain.accounts_at(chain.visible)})
        grow_signed(chain, 1, strangers=3)
    for height, expected in enumerate(states):
        assert {address: version.account for address, version in chain.accounts_at(height)} == expected
    assert PEOPLE[0] in states[0]
