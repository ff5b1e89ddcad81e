"""Removing old blocks."""

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.domain.errors import Corrupt, StoreUnavailable
from cairn.domain.types import Address, TxHash
from cairn.store import keys, prune
from cairn.store.chain import ChainStore
from cairn.store.follower import FollowerStore
from cairn.store.rocks import WriteBatch
from tests.support.audit import audit
from tests.support.blocks import history_of
from tests.support.disk import database_of
from tests.support.snapshots import PEOPLE, add_block, grow_signed, open_chain, pay, prune_until, take_snapshot


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[ChainStore]:
    store = open_chain(tmp_path / "data")
    yield store
    store.close()


def rest() -> None:
    pass


def count(chain: ChainStore, family: str) -> int:
    return len(list(database_of(chain).scan(family)))


def test_blocks_below_the_base_are_gone_and_the_state_is_not(chain: ChainStore) -> None:
    grow_signed(chain, 9)
    old_hash, _ = chain.find_header(3) or (None, None)
    old_tx = TxHash(chain.tx_hashes(3)[:32])
    accounts = {address: version.account for address, version in chain.accounts_at(9)}
    assert old_hash is not None
    chain.prune(6, rest)
    assert chain.base == 6
    assert [height for height in range(10) if chain.find_header(height)] == [6, 7, 8, 9]
    assert chain.find_height(old_hash) is None
    assert chain.find_location(old_tx) is None
    assert chain.find_record(3, 0) is None
    with pytest.raises(Corrupt):
        chain.tx_hashes(5)
    assert {address: version.account for address, version in chain.accounts_at(9)} == accounts
    assert count(chain, keys.HEADERS) == count(chain, keys.BLOCK_INDEX) == count(chain, keys.TX_HASHES) == 4
    assert count(chain, keys.TX_INDEX) == 4 * 3
    assert count(chain, keys.TXS) == 4
    # One version from below the base for each account, and those of the four blocks that are kept.
    assert count(chain, keys.ACCOUNTS) == (10 + 5 * 2) + 4 * (2 + 3)
    assert audit(chain) == 6


def test_history_ends_at_the_base(chain: ChainStore) -> None:
    grow_signed(chain, 6)
    whole = history_of(chain, PEOPLE[1], None, 100)
    chain.prune(4, rest)
    assert history_of(chain, PEOPLE[1], None, 100) == [place for place in whole if place[0] >= 4]
    assert history_of(chain, PEOPLE[1], (4, 2), 100) == [(4, 1)]
    assert history_of(chain, PEOPLE[1], (4, 1), 100) == []
    stranger = Address(bytes(16) + (1_000).to_bytes(4, "big"))
    assert chain.account(stranger).balance == 5
    assert history_of(chain, stranger, None, 10) == []


def test_an_idle_account_keeps_its_last_version_until_it_is_touched_again(chain: ChainStore) -> None:
    stranger = Address(b"s" * 20)

    def heights() -> list[int]:
        stored = (keys.decode_version_key(key) for key, _ in database_of(chain).scan(keys.ACCOUNTS))
        return [height for address, height in stored if address == stranger]

    add_block(chain, [pay(chain, 0, stranger)])
    for _ in range(4):
        add_block(chain)
    chain.prune(5, rest)
    assert heights() == [1]
    add_block(chain, [pay(chain, 0, stranger)])
    add_block(chain)
    assert heights() == [6, 1]
    chain.prune(7, rest)
    assert heights() == [6]
    assert chain.account(stranger).balance == 2
    assert audit(chain) == 7


def test_a_proposer_that_earns_nothing_keeps_its_account(tmp_path: Path) -> None:
    """Where transactions are free, a block adds no version of its proposer's account."""
    chain = open_chain(tmp_path / "free", gas_price=0)
    grow_signed(chain, 6)
    accounts = {address: version.account for address, version in chain.accounts_at(6)}
    chain.prune(5, rest)
    assert {address: version.account for address, version in chain.accounts_at(6)} == accounts
    assert audit(chain) == 5
    chain.close()
    again = open_chain(chain.directory, gas_price=0)
    assert again.account(PEOPLE[9]) == accounts[PEOPLE[9]]
    again.close()


def test_pruning_continues_after_reopening(chain: ChainStore) -> None:
    grow_signed(chain, 8)
    chain.prune(5, rest)
    chain.close()
    again = open_chain(chain.directory)
    assert (again.base, again.visible) == (5, 8)
    grow_signed(again, 2)
    again.prune(9, rest)
    assert audit(again) == 9
    again.close()


def test_a_removal_interrupted_anywhere_is_continued(chain: ChainStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune, "SLICE_TXS", 2)
    grow_signed(chain, 6, strangers=5)
    original = chain.directory
    for cut in range(1, 18):
        copy = original.with_name(f"copy-{cut}")
        chain.checkpoint(copy)
        pruned = open_chain(copy)
        if prune_until(pruned, 4, cut):
            assert audit(pruned) == 4
            shutil.copytree(copy, copy.with_name(f"crashed-{cut}"))
            pruned.close()
            pruned = open_chain(copy.with_name(f"crashed-{cut}"))
        pruned.prune(4, rest)
        assert audit(pruned) == 4
        assert count(pruned, keys.HEADERS) == 3
        assert count(pruned, keys.TX_INDEX) == 3 * 6
        assert count(pruned, keys.ACCOUNTS) == (10 + 3 * 5) + 3 * (5 + 6)
        pruned.close()


def test_followers_never_look_below_the_base(chain: ChainStore, tmp_path: Path) -> None:
    grow_signed(chain, 8)
    follower = FollowerStore.open(chain.directory, tmp_path / "scratch")
    chain.prune(6, rest)
    # Not told yet: it goes on showing what it has.
    assert follower.base == 0
    assert follower.find_header(2) is not None
    grow_signed(chain, 1)
    assert follower.catch_up() == 9
    assert follower.base == 6
    assert follower.find_header(5) is None
    assert history_of(follower, PEOPLE[1], None, 100)[-1][0] == 6
    assert follower.account(PEOPLE[1]) == chain.account(PEOPLE[1])
    follower.close()


def test_a_follower_whose_catch_up_fails_does_not_look_below_the_base(
    chain: ChainStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow_signed(chain, 8)
    follower = FollowerStore.open(chain.directory, tmp_path / "scratch")
    chain.prune(6, rest)
    grow_signed(chain, 1)
    sizes = itertools.count()
    # As while the primary replaces files without end.
    monkeypatch.setattr(follower, "_manifest_stamp", lambda: (follower._manifest, next(sizes)))
    with pytest.raises(StoreUnavailable):
        follower.catch_up()
    # What was removed was taken in.
    assert database_of(follower).get(keys.TX_HASHES, keys.encode_height(2)) is None
    assert (follower.base, follower.visible) == (6, 8)
    assert follower.find_header(5) is None
    assert len(follower.tx_hashes(7)) > 0
    follower.close()


def test_a_snapshot_of_a_pruned_chain_is_the_same(chain: ChainStore) -> None:
    grow_signed(chain, 6)
    parcel = take_snapshot(chain)
    shutil.rmtree(chain.directory / "snapshots")
    chain.prune(6, rest)
    assert take_snapshot(chain) == parcel


def test_an_audit_of_a_pruned_chain_finds_what_is_wrong(chain: ChainStore) -> None:
    grow_signed(chain, 5)
    chain.prune(3, rest)
    for address, version in chain.accounts_at(3):
        if version.height == 3:
            wrong = keys.version_key(address, 3)
    batch = WriteBatch(database_of(chain))
    batch.delete(keys.ACCOUNTS, wrong)
    database_of(chain).write(batch)
    with pytest.raises(Corrupt, match="block 3: the stored state root is"):
        audit(chain)
