"""Restoring: only what follows from the trusted hash, all of it or nothing."""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from cairn.domain.errors import InvalidChunk, InvalidSnapshot
from cairn.domain.governance import Admins, EvidenceKind, EvidenceRecord, Governance, encode_governance
from cairn.domain.headers import encode_header
from cairn.domain.transactions import decode_record
from cairn.domain.types import Account, Address, BlockHash
from cairn.store import keys, snapshot
from cairn.store.chain import ChainStore
from cairn.store.follower import FollowerStore
from cairn.store.snapshot import ROOM_PER_ACCOUNT, AccountRecord, Manifest, encode_account, most_accounts
from tests.support.audit import audit
from tests.support.blocks import head_of, history_of
from tests.support.core_fixtures import signed, signed_of_each_type
from tests.support.disk import database_of, files_of, flush
from tests.support.snapshots import (
    PEOPLE,
    VALIDATORS,
    Parcel,
    add_block,
    grow_signed,
    open_chain,
    pay,
    restore_snapshot,
    take_snapshot,
)

NOBODY = Address(b"n" * 20)
PIECE = EvidenceRecord(EvidenceKind.DUPLICATE_VOTE, VALIDATORS[0].engine_address, 3, 1_000)
# Another recipient of fees; a change of the set would need the step that proves it.
CHANGED = Governance(
    1,
    (msgspec.structs.replace(VALIDATORS[0], fee_recipient=PEOPLE[5]), *VALIDATORS[1:]),
    admins=Admins(1, (PEOPLE[0],)),
).with_evidence([PIECE])


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChainStore]:
    monkeypatch.setattr(snapshot, "CHUNK_BYTES", 600)
    store = open_chain(tmp_path / "data")
    grow_signed(store, 5)
    assert store.governance is not None
    add_block(store, [pay(store, 2, PEOPLE[4])], change=(store.governance, CHANGED))
    add_block(store, [pay(store, 2, NOBODY, value=0)])
    yield store
    store.close()


@pytest.fixture
def joining(tmp_path: Path) -> Iterator[ChainStore]:
    store = open_chain(tmp_path / "joining")
    yield store
    store.close()


def is_at_genesis(store: ChainStore) -> bool:
    fresh = store.visible == store.base == 0 and store.account(PEOPLE[0]).nonce == 0
    return fresh and all(keys.decode_version_key(key)[1] == 0 for key, _ in database_of(store).scan(keys.ACCOUNTS))


def test_blocks_are_added_after_a_restored_snapshot(chain: ChainStore, joining: ChainStore) -> None:
    restore_snapshot(joining, take_snapshot(chain))
    assert (joining.visible, joining.base) == (7, 7)
    assert head_of(joining) == head_of(chain)
    assert joining.tree.levels == chain.tree.levels
    assert joining.governance == chain.governance
    assert joining.state_block_hash == chain.state_block_hash
    assert [address for address, _ in joining.accounts_at(7)] == [address for address, _ in chain.accounts_at(7)]
    for address, version in chain.accounts_at(7):
        assert joining.account(address) == version.account
        assert history_of(joining, address, None, 10) == [
            place for place in history_of(chain, address, None, 10) if place[0] == 7
        ]
    for _ in range(3):
        txs = [pay(chain, 0, NOBODY, 3), pay(chain, 1, PEOPLE[2])]
        assert add_block(chain, txs).block == add_block(joining, txs).block
    assert audit(joining) == 7


def test_blocks_below_a_restored_snapshot_are_not_found(chain: ChainStore, joining: ChainStore) -> None:
    old = [chain.find_header(height) for height in range(7)]
    restore_snapshot(joining, take_snapshot(chain))
    for height, found in enumerate(old):
        assert found is not None
        assert joining.find_header(height) is None
        assert joining.find_height(found[0]) is None
    assert joining.find_header(7) == chain.find_header(7)
    assert list(joining.records(7)) == list(chain.records(7))
    assert joining.find_location(next(iter(chain.records(7)))[:32]) == (7, 0)  # type: ignore[arg-type]
    # Nothing of genesis is left behind either.
    for family in (keys.HEADERS, keys.BLOCK_INDEX, keys.TX_HASHES, keys.TXS, keys.TX_INDEX):
        assert len(list(database_of(joining).scan(family))) == 1


def test_a_restored_chain_is_reopened_and_followed(chain: ChainStore, joining: ChainStore, tmp_path: Path) -> None:
    follower = FollowerStore.open(joining.directory, tmp_path / "scratch")
    assert (follower.visible, follower.base) == (0, 0)
    restore_snapshot(joining, take_snapshot(chain))
    assert follower.catch_up() == 7
    assert (follower.base, head_of(follower)) == (7, head_of(chain))
    assert follower.account(PEOPLE[0]) == chain.account(PEOPLE[0])
    joining.close()
    again = open_chain(joining.directory)
    assert (again.visible, again.base, head_of(again)) == (7, 7, head_of(chain))
    txs = [pay(again, 4, NOBODY)]
    assert add_block(again, txs).block == add_block(chain, txs).block
    assert follower.catch_up() == 8
    assert history_of(follower, PEOPLE[4], None, 5) == [(8, 0)]
    late = FollowerStore.open(joining.directory, tmp_path / "late")
    assert (late.base, late.visible) == (7, 8)
    for store in (follower, late, again):
        store.close()


def test_a_snapshot_of_a_restored_chain_is_the_same(chain: ChainStore, joining: ChainStore) -> None:
    parcel = take_snapshot(chain)
    restore_snapshot(joining, parcel)
    assert take_snapshot(joining) == parcel


def test_a_crash_before_the_end_leaves_a_chain_at_genesis(chain: ChainStore, joining: ChainStore) -> None:
    parcel = take_snapshot(chain)
    restore = joining.begin_restore(parcel.manifest, parcel.trusted)
    for index, chunk in enumerate(parcel.chunks):
        restore.add_chunk(index, chunk)
        assert joining.visible == 0
        copy = joining.directory.with_name(f"copy-{index}")
        shutil.copytree(joining.directory, copy)
        crashed = open_chain(copy)
        assert is_at_genesis(crashed)
        assert audit(crashed) == 0
        restore_snapshot(crashed, parcel)
        assert head_of(crashed) == head_of(chain)
        crashed.close()
    joining.finish_restore(restore)
    assert head_of(joining) == head_of(chain)


def test_a_crash_after_the_end_leaves_nothing_of_genesis(
    chain: ChainStore, joining: ChainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    parcel = take_snapshot(chain)

    def crash(*_: object) -> None:
        raise InterruptedError

    with monkeypatch.context() as patched:
        patched.setattr("cairn.store.chain.keep_only", crash)
        with pytest.raises(InterruptedError):
            restore_snapshot(joining, parcel)
    shutil.copytree(joining.directory, joining.directory.with_name("copy"))
    crashed = open_chain(joining.directory.with_name("copy"))
    assert (crashed.visible, crashed.base) == (7, 7)
    assert len(list(database_of(crashed).scan(keys.HEADERS))) == 1
    assert {keys.decode_version_key(key)[1] for key, _ in database_of(crashed).scan(keys.ACCOUNTS)} == {7}
    crashed.close()


def test_a_newer_snapshot_may_replace_one_that_was_never_gone_on_from(chain: ChainStore, joining: ChainStore) -> None:
    older, newer = take_snapshot(chain, 6), take_snapshot(chain)
    restore_snapshot(joining, older)
    restore_snapshot(joining, newer)
    assert (joining.base, head_of(joining)) == (7, head_of(chain))
    assert {keys.decode_version_key(key)[1] for key, _ in database_of(joining).scan(keys.ACCOUNTS)} == {7}
    with pytest.raises(InvalidSnapshot, match="the snapshot is of block 6; block 7 is here already"):
        restore_snapshot(joining, older)
    add_block(joining)
    with pytest.raises(InvalidSnapshot, match="holds the blocks up to 8: a snapshot needs an empty directory"):
        restore_snapshot(joining, newer)


def test_every_flipped_byte_is_refused(chain: ChainStore, joining: ChainStore) -> None:
    parcel = take_snapshot(chain)
    restore = joining.begin_restore(parcel.manifest, parcel.trusted)
    for index, chunk in enumerate(parcel.chunks):
        for offset in range(0, len(chunk), 41):
            flipped = bytearray(chunk)
            flipped[offset] ^= 0x10
            with pytest.raises(InvalidChunk, match=f"part {index} of the snapshot has the digest"):
                restore.add_chunk(index, bytes(flipped))
        with pytest.raises(InvalidChunk, match=f"part {index + 1} of the snapshot came when {index} was due"):
            restore.add_chunk(index + 1, chunk)
        restore.add_chunk(index, chunk)
    with pytest.raises(InvalidChunk, match="came when"):
        restore.add_chunk(len(parcel.chunks), b"")
    joining.finish_restore(restore)
    assert head_of(joining) == head_of(chain)


def replaced(parcel: Parcel, index: int, chunk: bytes) -> Parcel:
    """A snapshot whose manifest agrees with the false part."""
    chunks = [*parcel.chunks]
    chunks[index] = chunk
    digests = tuple(hashlib.sha256(part).digest() for part in chunks)
    return Parcel(msgspec.structs.replace(parcel.manifest, chunks=digests), parcel.trusted, chunks)


def with_manifest(**changes: object) -> Callable[[Parcel], Parcel]:
    return lambda parcel: Parcel(
        msgspec.structs.replace(parcel.manifest, **changes),
        parcel.trusted,
        parcel.chunks,
    )


def richer(parcel: Parcel) -> Parcel:
    last = bytearray(parcel.chunks[-1])
    last[51] ^= 1
    return replaced(parcel, len(parcel.chunks) - 1, bytes(last))


def without_last(parcel: Parcel) -> Parcel:
    shorter = replaced(parcel, len(parcel.chunks) - 1, parcel.chunks[-1][:-72])
    return with_manifest(account_count=parcel.manifest.account_count - 1)(shorter)


def with_field(offset: int, content: bytes) -> Callable[[Parcel], Parcel]:
    """Other bytes in the snapshot's last account."""

    def falsify(parcel: Parcel) -> Parcel:
        last = bytearray(parcel.chunks[-1])
        start = len(last) - 72 + offset
        last[start : start + len(content)] = content
        assert last != parcel.chunks[-1]
        return replaced(parcel, len(parcel.chunks) - 1, bytes(last))

    return falsify


def with_swapped_numbers(parcel: Parcel) -> Parcel:
    last = bytearray(parcel.chunks[-1])
    last[60:64], last[132:136] = last[132:136], last[60:64]
    return replaced(parcel, len(parcel.chunks) - 1, bytes(last))


def with_history(change: Callable[[tuple[bytes, ...]], tuple[bytes, ...]]) -> Callable[[Parcel], Parcel]:
    return lambda parcel: with_manifest(history=change(parcel.manifest.history))(parcel)


def with_other_header(parcel: Parcel) -> Parcel:
    header = msgspec.structs.replace(parcel.manifest.decode_header(), timestamp=1)
    return with_manifest(header=encode_header(header))(parcel)


def with_forged_tx(parcel: Parcel) -> Parcel:
    record = bytearray(parcel.chunks[0])
    record[-2] ^= 1
    return replaced(parcel, 0, bytes(record))


def with_unknown_type(parcel: Parcel) -> Parcel:
    record = bytearray(parcel.chunks[0])
    record[-65] = 3
    return replaced(parcel, 0, bytes(record))


def with_tail(parcel: Parcel) -> Parcel:
    """Marked as if data followed, which is not as long as it says."""
    record = bytearray(parcel.chunks[0] + b"\0\1" + bytes(16))
    record[217] |= 0x80
    return replaced(parcel, 0, bytes(record))


def without_mark(parcel: Parcel) -> Parcel:
    return replaced(parcel, 0, parcel.chunks[0] + bytes(18))


FALSE: list[tuple[Callable[[Parcel], Parcel], str]] = [
    (richer, "the state in the snapshot has the root 0x.*; block 7 commits to 0x"),
    (without_last, "the state in the snapshot has the root|20 accounts have other numbers than 1 to 20"),
    (with_field(60, (1).to_bytes(4, "big")), "is not whole: 21 accounts have other numbers than 1 to 21"),
    (with_field(60, bytes(4)), "is not whole: 21 accounts have other numbers"),
    (with_field(60, b"\xff" * 4), "is not whole: 21 accounts have other numbers"),
    (with_field(64, (8).to_bytes(8, "big")), "account 0x.* is of a later block, or not in its place"),
    (with_field(64, (6).to_bytes(8, "big")), "the state in the snapshot has the root"),
    (with_field(59, b"\7"), "the state in the snapshot has the root"),
    (with_swapped_numbers, "the state in the snapshot has the root"),
    (with_history(lambda peaks: peaks[:-1]), "the history in the snapshot is not the one that block 7 commits to"),
    (with_history(lambda peaks: (*peaks, peaks[0])), "the history in the snapshot is not"),
    (with_history(lambda peaks: (peaks[1], peaks[0], peaks[2])), "the history in the snapshot is not"),
    # The same bytes, so the same root.
    (with_history(lambda peaks: (peaks[0], peaks[1][:-1], peaks[1][-1:] + peaks[2])), "the history in the snapshot is"),
    (with_manifest(account_count=3), "has 4 parts; it must have 2"),
    (with_manifest(account_count=19), "part 3 of the snapshot has 360 bytes; by its manifest it has 216"),
    (with_manifest(account_count=-1), "names -1 accounts"),
    (with_manifest(governance=b""), "the state in the snapshot has the root"),
    (with_manifest(governance=b"{}"), "validators cannot be read"),
    (with_manifest(governance=encode_governance(Governance(1, VALIDATORS))), "the state in the snapshot has the root"),
    # A peer invents evidence against a validator, or leaves some out.
    (
        with_manifest(governance=encode_governance(CHANGED.with_evidence([PIECE]))),
        "the state in the snapshot has the root",
    ),
    (
        with_manifest(governance=encode_governance(msgspec.structs.replace(CHANGED, evidence=(), evidence_count=0))),
        "the state in the snapshot has the root",
    ),
    (with_manifest(genesis=bytes(32)), "the snapshot belongs to genesis 0x00.*, not to 0x"),
    (with_manifest(header=b"?"), "header cannot be read"),
    (with_other_header, "the snapshot is of block 0x.*; the network's is 0x"),
    (with_forged_tx, "is not valid|a hash that is not its own"),
    (with_unknown_type, "cannot be read: a transaction record is of type 3, and there is none"),
    (lambda parcel: replaced(parcel, 0, b""), "part 0 of the snapshot has 0 bytes; by its manifest it has 282 to 540"),
    (lambda parcel: replaced(parcel, 0, parcel.chunks[0] * 2), "part 0 of the snapshot has 564 bytes"),
    (with_tail, "a transaction of the snapshot cannot be read: a transaction record has 15 bytes, expected 282"),
    (without_mark, "cannot be read: a transaction record has 18 bytes, expected 282"),
    (lambda parcel: replaced(parcel, 1, parcel.chunks[1][:-1]), "part 1 .* has 575 bytes"),
    (lambda parcel: replaced(parcel, 1, parcel.chunks[1] * 2), "part 1 .* has 1152 bytes"),
    (lambda parcel: replaced(parcel, 2, parcel.chunks[1]), "account 0x.* or not in its place"),
    (
        lambda parcel: replaced(parcel, 1, (b"\xff" * 20 + bytes(52)) * 8),
        "account 0xff.* or not in its place",
    ),
]


@pytest.mark.parametrize(("falsify", "message"), FALSE)
def test_a_false_snapshot_is_refused_and_leaves_nothing(
    chain: ChainStore, joining: ChainStore, falsify: Callable[[Parcel], Parcel], message: str
) -> None:
    parcel = take_snapshot(chain)
    with pytest.raises(InvalidSnapshot, match=message):
        restore_snapshot(joining, falsify(parcel))
    joining.clear_restore()
    assert is_at_genesis(joining)
    restore_snapshot(joining, parcel)
    assert head_of(joining) == head_of(chain)


def test_data_is_restored_as_it_was_signed(tmp_path: Path, joining: ChainStore) -> None:
    given = open_chain(tmp_path / "given")
    txs = [signed(nonce, data=data) for nonce, data in enumerate((b"invoice 4711", b"", bytes(256), b"\xff" * 256))]
    add_block(given, txs)
    parcel = take_snapshot(given)
    assert len(parcel.chunks[0]) == 4 * 282 + 3 * 2 + 12 + 256 + 256
    other = parcel.chunks[0].replace(b"invoice 4711", b"invoice 4712")
    fewer = parcel.chunks[0][: 282 + 14] + parcel.chunks[0][282 + 14 + 282 :]
    for chunk, why in ((other, "is not valid|not its own"), (fewer, "has 3 transactions; it must have 4")):
        with pytest.raises(InvalidSnapshot, match=why):
            restore_snapshot(joining, replaced(parcel, 0, chunk))
        joining.clear_restore()
        assert is_at_genesis(joining)
    restore_snapshot(joining, parcel)
    assert list(map(decode_record, joining.records(1))) == txs
    given.close()


def test_every_type_is_restored_as_it_was_signed(tmp_path: Path, joining: ChainStore) -> None:
    txs = signed_of_each_type()
    given = open_chain(tmp_path / "given")
    add_block(given, txs)
    parcel = take_snapshot(given)
    # What a transaction pays follows from the caps, but not they from it: only the signature holds them.
    for size_bytes, bit in ((1, 1), (33, 1), (65, 1), (65, 2)):
        record = bytearray(parcel.chunks[0])
        record[-size_bytes] ^= bit
        with pytest.raises(InvalidSnapshot, match="is not valid|a hash that is not its own|cannot be read"):
            restore_snapshot(joining, replaced(parcel, 0, bytes(record)))
        joining.clear_restore()
        assert is_at_genesis(joining)
    restore_snapshot(joining, parcel)
    assert head_of(joining) == head_of(given)
    assert list(map(decode_record, joining.records(1))) == txs
    assert audit(joining) == 1
    follow = [pay(given, 0, PEOPLE[3])]
    assert add_block(given, follow).block == add_block(joining, follow).block
    given.close()


def with_crowd(parcel: Parcel, accounts: int) -> Parcel:
    """The true block with an invented state: each part has the digest that the manifest names."""
    records = (
        encode_account(AccountRecord(Address(number.to_bytes(20, "big")), Account(1), number, 0))
        for number in range(1, accounts + 1)
    )
    whole, each = b"".join(records), snapshot.CHUNK_BYTES // snapshot.ACCOUNT_SIZE * snapshot.ACCOUNT_SIZE
    chunks = [parcel.chunks[0], *(whole[start : start + each] for start in range(0, len(whole), each))]
    digests = tuple(hashlib.sha256(chunk).digest() for chunk in chunks)
    manifest = msgspec.structs.replace(parcel.manifest, account_count=accounts, chunks=digests)
    return Parcel(manifest, parcel.trusted, chunks)


def test_an_invented_state_is_refused_before_it_fills_the_disk(
    chain: ChainStore, joining: ChainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = most_accounts(chain.genesis, 7)
    parcel = take_snapshot(chain)
    too_many = with_crowd(parcel, most + 1)
    with pytest.raises(InvalidSnapshot, match=f"names {most + 1} accounts; the blocks up to 7 can have made {most}$"):
        joining.begin_restore(too_many.manifest, too_many.trusted)
    # What the chain can have made, the disk may still not hold.
    monkeypatch.setattr("cairn.store.snapshot.ROOM_PER_ACCOUNT", 1 << 50)
    with pytest.raises(InvalidSnapshot, match="the snapshot does not fit: the disk has [0-9,]+ bytes left"):
        joining.begin_restore(parcel.manifest, parcel.trusted)
    assert is_at_genesis(joining)


def test_the_room_that_is_asked_for_is_what_accounts_take(
    chain: ChainStore, joining: ChainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    accounts = 20_000
    invented = with_crowd(take_snapshot(chain), accounts)
    restore = joining.begin_restore(invented.manifest, invented.trusted)
    before = sum(map(len, files_of(joining.directory / "chain").values()))
    last = len(invented.chunks) - 1
    for index, chunk in enumerate(invented.chunks[:last]):
        restore.add_chunk(index, chunk)
    with pytest.raises(InvalidSnapshot, match="the state in the snapshot has the root"):
        restore.add_chunk(last, invented.chunks[last])
    flush(database_of(joining))
    taken = sum(map(len, files_of(joining.directory / "chain").values())) - before
    assert 0 < taken < restore.room_bytes == accounts * ROOM_PER_ACCOUNT


def test_a_restore_with_missing_parts_cannot_be_finished(chain: ChainStore, joining: ChainStore) -> None:
    parcel = take_snapshot(chain)
    restore = joining.begin_restore(parcel.manifest, parcel.trusted)
    with pytest.raises(InvalidSnapshot, match="0 parts of the snapshot are here; it has"):
        joining.finish_restore(restore)
    with pytest.raises(InvalidSnapshot, match="the network's is 0x00"):
        joining.begin_restore(parcel.manifest, BlockHash(bytes(32)))
    assert isinstance(parcel.manifest, Manifest)
