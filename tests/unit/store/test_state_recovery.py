"""The state tree at a start: from its file and the blocks since, or from all accounts, and always the right one."""

import hashlib
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cairn.domain.errors import Corrupt
from cairn.domain.state_tree import record_leaf
from cairn.domain.types import Address
from cairn.store import inspection, keys, state_recovery
from cairn.store.chain import ChainStore
from cairn.store.directory import chain_path
from cairn.store.reader import ChainReader
from cairn.store.rocks import WriteBatch
from cairn.store.state_recovery import RecoveredTree, recover_tree
from cairn.store.tree_file import LEAF_BYTES, TreeMark, read_tree, tree_path, write_tree
from tests.support.audit import audit
from tests.support.blocks import extend, grow, head_of, store_genesis
from tests.support.disk import database_of, files_of
from tests.support.snapshots import add_block, grow_signed, open_chain, pay, restore_snapshot, take_snapshot
from tests.support.transfers import address, transfer


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[RecoveredTree]:
    """What each opening made its tree from."""
    each: list[RecoveredTree] = []
    real = state_recovery.recover_tree

    def recover(*args: object) -> RecoveredTree:
        each.append(real(*args))  # type: ignore[arg-type]
        return each[-1]

    monkeypatch.setattr(inspection, "recover_tree", recover)
    return each


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[ChainStore]:
    store = ChainStore.open(tmp_path / "data", store_genesis())
    yield store
    store.close()


def file_of(chain: ChainStore) -> Path:
    return tree_path(chain_path(chain.directory))


def killed(chain: ChainStore) -> ChainStore:
    """What a start finds after a kill."""
    copy = chain.directory.with_name(f"{chain.directory.name}-killed")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(chain.directory, copy)
    return ChainStore.open(copy, chain.genesis)


def from_file(found: list[RecoveredTree]) -> bool:
    return found[-1].saved is not None


def check_same(again: ChainStore, chain: ChainStore) -> None:
    assert again.tree.levels == chain.tree.levels
    assert again.history == chain.history
    if again.genesis.validators:
        # Others hold transfers that nobody signed.
        audit(again)
    again.close()


def test_after_a_stop_nothing_is_computed_anew(chain: ChainStore, found: list[RecoveredTree]) -> None:
    grow(chain, 3, 5)
    chain.save_tree()
    check_same(killed(chain), chain)
    assert found[-1].saved == TreeMark(3, chain.head_hash, chain.tree.size)
    assert found[-1].age == 0


def test_after_a_kill_the_leaves_of_the_blocks_since_are_computed_anew(
    chain: ChainStore, found: list[RecoveredTree]
) -> None:
    grow(chain, 2, 5)
    chain.save_tree()
    extend(chain, [transfer(7, 0, to=1_000), transfer(8, 0, to=9)], proposer=address(2_000))
    extend(chain, [])
    check_same(killed(chain), chain)
    assert from_file(found)
    # Two senders, two recipients and a proposer; and two blocks.
    assert found[-1].age == 7


def test_new_accounts_relink_those_before_them_wherever_they_are(
    chain: ChainStore, found: list[RecoveredTree], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_recovery, "MOST_SHARE", 0.01)
    chain.save_tree()
    rng = random.Random(5)
    # Below the lowest, above the highest, between two, and several next to each other.
    new = [
        bytes(20),
        b"\xff" * 20,
        *(rng.randbytes(20) for _ in range(20)),
        address(3)[:19] + b"\xff",
        bytes(19) + b"\1",
    ]
    for number, there in enumerate(new):
        tx = transfer(number % 30 + 1, number // 30, to=5)
        extend(chain, [tx], proposer=Address(there))
        check_same(killed(chain), chain)
        assert from_file(found)


@settings(max_examples=10)
@given(new=st.lists(st.binary(min_size=20, max_size=20), min_size=2, max_size=8, unique=True), data=st.data())
def test_beside_a_node_that_goes_on_the_tree_is_that_of_the_block_that_is_read(
    new: list[bytes], data: st.DataObject
) -> None:
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patched:
        patched.setattr(state_recovery, "MOST_SHARE", 0.01)
        chain = ChainStore.open(Path(directory), store_genesis())
        chain.save_tree()
        for number, there in enumerate(new):
            extend(chain, [transfer(number + 1, 0, to=5)], proposer=Address(there))
        # Accounts that later blocks made are among those that are stored.
        height = data.draw(st.integers(1, len(new)))
        reader = ChainReader(database_of(chain), height)
        block, header = head_of(reader)
        path, record = chain_path(chain.directory), record_leaf(None)
        found = recover_tree(database_of(chain), path, reader, header, block, record)
        assert found.saved is not None
        assert found.tree.root == header.state_root
        chain.close()


def test_a_file_whose_leaves_are_of_later_blocks_does_no_harm(chain: ChainStore, found: list[RecoveredTree]) -> None:
    """It was copied while blocks were committed."""
    grow(chain, 1, 3)
    mark = TreeMark(chain.visible, chain.head_hash, chain.tree.size)
    extend(chain, [transfer(20, 0, to=3_000), transfer(21, 0, to=22)])
    early = bytearray(chain.tree.levels[0])
    extend(chain, [transfer(20, 1, to=3_001)])
    late = chain.tree.levels[0]
    for cut in range(0, mark.size * LEAF_BYTES + 1, LEAF_BYTES):
        write_tree(file_of(chain), mark, early[:cut] + late[cut:])
        check_same(killed(chain), chain)
        assert found[-1].saved == mark


def test_without_a_file_all_accounts_are_read(chain: ChainStore, found: list[RecoveredTree]) -> None:
    grow(chain, 3, 5)
    check_same(killed(chain), chain)
    assert found[-1] == RecoveredTree(found[-1].tree, None, chain.tree.size)


@pytest.mark.parametrize(("height", "block_hash"), [(9, None), (1, b"x" * 32), (3, b"x" * 32)])
def test_a_file_of_another_chain_or_of_a_block_that_is_not_there_is_not_used(
    chain: ChainStore, found: list[RecoveredTree], height: int, block_hash: bytes | None
) -> None:
    grow(chain, 3, 5)
    mark = TreeMark(height, block_hash or chain.head_hash, chain.tree.size)  # type: ignore[arg-type]
    write_tree(file_of(chain), mark, chain.tree.levels[0])
    check_same(killed(chain), chain)
    assert not from_file(found)


def test_a_file_from_below_the_blocks_that_are_kept_is_not_used(
    chain: ChainStore, found: list[RecoveredTree], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_recovery, "MOST_SHARE", 0.01)
    grow(chain, 3, 2)
    chain.save_tree()
    grow(chain, 4, 2)
    chain.prune(4, lambda: None)
    check_same(killed(chain), chain)
    assert from_file(found)
    chain.prune(5, lambda: None)
    check_same(killed(chain), chain)
    assert not from_file(found)


def test_after_many_blocks_or_transactions_all_accounts_are_read(chain: ChainStore, found: list[RecoveredTree]) -> None:
    chain.save_tree()
    grow(chain, 2, 2)
    check_same(killed(chain), chain)
    assert from_file(found)
    grow(chain, 6, 0)
    check_same(killed(chain), chain)
    assert not from_file(found)


def test_damage_is_refused_by_name_and_changes_nothing(chain: ChainStore) -> None:
    grow(chain, 1, 3)
    chain.save_tree()
    chain.close()
    file = file_of(chain)
    whole = file.read_bytes()
    for at in range(0, len(whole), 131):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        before = files_of(chain.directory)
        with pytest.raises(Corrupt, match="chain/state-tree is not what was written; remove it, and the node rebuilds"):
            ChainStore.open(chain.directory, chain.genesis)
        assert files_of(chain.directory).keys() == before.keys()
        assert file.read_bytes() == before["chain/state-tree"]
    file.unlink()
    ChainStore.open(chain.directory, chain.genesis).close()


def test_a_wrong_leaf_with_a_right_checksum_is_found_by_name(chain: ChainStore) -> None:
    grow(chain, 1, 3)
    chain.save_tree()
    chain.close()
    mark, leaves = read_tree(file_of(chain)) or (None, bytearray())
    assert mark is not None
    for number in (1, 17, mark.size - 1):
        wrong = leaves.copy()
        wrong[number * LEAF_BYTES] ^= 1
        write_tree(file_of(chain), mark, wrong)
        with pytest.raises(Corrupt, match="that block 1 commits to; without .*/chain/state-tree it is read"):
            ChainStore.open(chain.directory, chain.genesis)
    write_tree(file_of(chain), TreeMark(mark.height, mark.hash, mark.size - 1), leaves)
    with pytest.raises(Corrupt, match="not the one that block 1 commits to"):
        ChainStore.open(chain.directory, chain.genesis)


def plant(chain: ChainStore, family: str, key: bytes, value: bytes | None) -> None:
    batch = WriteBatch(database_of(chain))
    if value is None:
        batch.delete(family, key)
    else:
        batch.put(family, key, value)
    database_of(chain).write(batch)


def flipped(value: bytes | None, at: int) -> bytes:
    assert value is not None
    return value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]


def test_a_wrong_account_is_found_though_the_file_is_right(chain: ChainStore) -> None:
    chain.save_tree()
    extend(chain, [transfer(3, 0, to=4)])
    key = keys.version_key(address(4), 1)
    value = database_of(chain).get(keys.ACCOUNTS, key)
    # Its balance, its nonce, and its number in the tree.
    for at in (31, 39, 67):
        plant(chain, keys.ACCOUNTS, key, flipped(value, at))
        with pytest.raises(Corrupt, match="the stored state is not the one that block 1 commits to"):
            killed(chain)
    plant(chain, keys.ACCOUNTS, key, flipped(value, 65))
    with pytest.raises(Corrupt, match="an account has the number 65"):
        killed(chain)


def test_a_wrong_number_is_found_when_all_accounts_are_read(chain: ChainStore) -> None:
    extend(chain, [transfer(3, 0, to=4)])
    key = keys.version_key(address(4), 1)
    value = database_of(chain).get(keys.ACCOUNTS, key)
    for at in (64, 67):
        plant(chain, keys.ACCOUNTS, key, flipped(value, at))
        with pytest.raises(Corrupt, match="41 accounts have other numbers than 1 to 41"):
            killed(chain)


@pytest.mark.parametrize("lost", [False, True])
def test_a_wrong_or_lost_leaf_of_the_touched_accounts_is_found(chain: ChainStore, lost: bool) -> None:
    grow(chain, 3, 3)
    for height in (1, 3):
        key = keys.encode_height(height)
        value = database_of(chain).get(keys.CHANGES, key)
        plant(chain, keys.CHANGES, key, None if lost else flipped(value, 33))
        with pytest.raises(Corrupt, match=f"touched accounts of block {height} in the store are not those"):
            killed(chain)
        plant(chain, keys.CHANGES, key, value)
    killed(chain).close()


def test_lost_touched_accounts_below_many_empty_blocks_are_noticed(chain: ChainStore) -> None:
    grow(chain, 1, 3)
    grow(chain, 20, 0)
    plant(chain, keys.CHANGES, keys.encode_height(1), None)
    with pytest.raises(Corrupt, match="a part of block 0x.* is missing, the last one that changed the state"):
        killed(chain)


def test_a_wrong_or_lost_node_of_the_history_is_found(chain: ChainStore) -> None:
    grow(chain, 12, 1)
    places = [keys.encode_history_key(*place) for place in ((3, 0), (2, 2), (0, 12), (0, 5))]
    for place in places:
        value = database_of(chain).get(keys.HISTORY, place)
        plant(chain, keys.HISTORY, place, flipped(value, 5))
        with pytest.raises(Corrupt, match="the history in the store is not|the history has another node"):
            killed(chain)
        plant(chain, keys.HISTORY, place, None)
        with pytest.raises(Corrupt, match="the history lacks node|a part of block .* is missing"):
            killed(chain)
        plant(chain, keys.HISTORY, place, value)
    check_same(killed(chain), chain)


def test_an_unfinished_restore_does_not_touch_the_tree_of_the_chain(tmp_path: Path, found: list[RecoveredTree]) -> None:
    giving, taking = open_chain(tmp_path / "giving"), open_chain(tmp_path / "taking")
    grow_signed(giving, 3)
    parcel = take_snapshot(giving)
    taking.save_tree()
    restore = taking.begin_restore(parcel.manifest, parcel.trusted)
    for index, chunk in enumerate(parcel.chunks):
        restore.add_chunk(index, chunk)
        check_same(killed(taking), taking)
        assert not from_file(found)
    taking.finish_restore(restore)
    # Before what was there is removed.
    check_same(killed(taking), giving)
    assert not from_file(found)
    taking.clear_restore()
    check_same(killed(taking), giving)
    taking.save_tree()
    add_block(taking, [pay(taking, 3, Address(b"n" * 20))])
    check_same(killed(taking), taking)
    assert from_file(found)
    giving.close()
    taking.close()


def test_a_restored_chain_goes_on_with_the_roots_of_the_others(tmp_path: Path) -> None:
    giving, taking = open_chain(tmp_path / "giving"), open_chain(tmp_path / "taking")
    grow_signed(giving, 5)
    restore_snapshot(taking, take_snapshot(giving))
    for number in range(6):
        txs = [pay(giving, number % 3, Address(hashlib.sha256(bytes([number])).digest()[:20]))]
        assert add_block(giving, txs).block == add_block(taking, txs).block
        if number == 2:
            taking.close()
            taking = open_chain(tmp_path / "taking")
    audit(taking)
    giving.close()
    taking.close()


def test_the_governance_record_is_renewed(tmp_path: Path, found: list[RecoveredTree]) -> None:
    chain = open_chain(tmp_path / "data")
    chain.save_tree()
    assert chain.governance is not None
    changed = chain.governance.with_evidence([])
    other = type(changed)(changed.sequence + 1, changed.validators[:2])
    add_block(chain, change=(chain.governance, other))
    check_same(killed(chain), chain)
    assert from_file(found)
    chain.close()


def test_a_wrong_or_lost_signature_of_a_block_is_found(chain: ChainStore) -> None:
    grow(chain, 3, 1)
    for height in (1, 3):
        key = keys.encode_height(height)
        value = database_of(chain).get(keys.SIGNATURES, key)
        plant(chain, keys.SIGNATURES, key, None)
        with pytest.raises(Corrupt, match=f"block {height} has no signature in the store"):
            killed(chain)
        plant(chain, keys.SIGNATURES, key, value)
    plant(chain, keys.SIGNATURES, keys.encode_height(3), flipped(value, 40))
    with pytest.raises(Corrupt, match="the signature of block 3 in the store is not valid"):
        killed(chain)
