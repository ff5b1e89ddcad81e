"""Blocks that set balances: stored with what they set, followed, audited, and sound on a dev chain only."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.domain.errors import Corrupt
from cairn.domain.genesis import COIN, DEV_KEYS, Genesis, dev_genesis
from cairn.domain.transition import BlockOutcome, build_block
from cairn.domain.types import ZERO_ADDRESS, Account, Address
from cairn.store import keys
from cairn.store.chain import ChainStore
from cairn.store.follower import FollowerStore
from cairn.store.rocks import WriteBatch
from tests.support.audit import audit
from tests.support.blocks import history_of, store_genesis
from tests.support.disk import database_of
from tests.support.signing import commit_signed

RICH = DEV_KEYS[0][0]
NEW = Address(b"\x77" * 20)


@pytest.fixture
def chain(directory: Path) -> Iterator[ChainStore]:
    store = ChainStore.open(directory, dev_genesis())
    yield store
    store.close()


def set_balances(chain: ChainStore, balances: dict[Address, int]) -> BlockOutcome:
    header, rules = chain.head_header, chain.genesis.rules
    outcome = build_block(header, chain.head_hash, chain, (), header.timestamp, ZERO_ADDRESS, rules, None, balances)
    commit_signed(chain, outcome)
    return outcome


def test_set_balances_are_shown_at_once_and_after_reopening(chain: ChainStore, directory: Path) -> None:
    set_balances(chain, {RICH: 3, NEW: 5 * COIN})
    assert chain.account(NEW) == Account(5 * COIN, 0)
    chain.close()
    chain = ChainStore.open(directory, dev_genesis())
    assert (chain.account(RICH), chain.account(NEW)) == (Account(3, 0), Account(5 * COIN, 0))
    assert history_of(chain, NEW, None, 10) == [], "nobody sent it"
    assert audit(chain) == 0
    chain.close()


def test_the_audit_replays_set_balances(chain: ChainStore) -> None:
    set_balances(chain, {NEW: 1})
    set_balances(chain, {NEW: 1})
    set_balances(chain, {NEW: 0})
    audit(chain)
    batch = WriteBatch(database_of(chain))
    batch.put(keys.META, keys.balances_key(1), keys.encode_balances({NEW: 2}))
    database_of(chain).write(batch)
    with pytest.raises(Corrupt, match="changes_root"):
        audit(chain)


def test_the_audit_refuses_set_balances_outside_a_dev_chain(tmp_path: Path) -> None:
    other: Genesis = store_genesis()
    chain = ChainStore.open(tmp_path / "other", other)
    set_balances(chain, {NEW: 1})
    with pytest.raises(Corrupt, match="only a block of a dev chain may"):
        audit(chain)
    chain.close()


def test_a_follower_shows_set_balances(chain: ChainStore, tmp_path: Path) -> None:
    follower = FollowerStore.open(chain.directory, tmp_path / "scratch")
    set_balances(chain, {NEW: 9})
    set_balances(chain, {NEW: 9, RICH: 10_000 * COIN})
    assert follower.catch_up() == 2
    assert follower.account(NEW).balance == 9
    follower.close()


def test_a_follower_waits_for_all_of_a_block_that_sets_balances(chain: ChainStore, tmp_path: Path) -> None:
    set_balances(chain, {NEW: 9})
    follower = FollowerStore.open(chain.directory, tmp_path / "scratch")
    assert follower.is_whole(1)
    for family, key in ((keys.ACCOUNTS, keys.version_key(NEW, 1)), (keys.META, keys.balances_key(1))):
        batch = WriteBatch(database_of(chain))
        batch.delete(family, key)
        database_of(chain).write(batch)
        database_of(follower).catch_up()
        assert not follower.is_whole(1), family
    follower.close()


def test_a_balances_record_of_a_wrong_length_is_corrupt() -> None:
    for length in (0, 51, 53):
        with pytest.raises(Corrupt, match=f"have {length} bytes"):
            keys.decode_balances(bytes(length))


def test_pruning_removes_what_a_block_set_and_the_balances_before_it(chain: ChainStore) -> None:
    for balance in (1, 2, 3):
        set_balances(chain, {RICH: balance, NEW: balance})
    chain.prune(3, lambda: None)
    assert database_of(chain).get(keys.META, keys.balances_key(2)) is None
    assert database_of(chain).get(keys.META, keys.balances_key(3)) is not None
    versions = [keys.decode_version_key(key) for key, _ in database_of(chain).scan(keys.ACCOUNTS)]
    assert [height for address, height in versions if address in (RICH, NEW)] == [3, 2, 3, 2]
    assert (chain.account(RICH).balance, chain.account(NEW).balance) == (3, 3)
