"""Searches of histories: what they read, and what the index of references holds after all that can happen to it."""

import time
import timeit
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from cairn.domain.errors import Corrupt
from cairn.domain.types import Account
from cairn.store import history, keys
from cairn.store.chain import ChainStore
from cairn.store.history import Search, search_history
from cairn.store.keys import EITHER, RECEIVED, SENT, Location
from cairn.store.reader import ChainReader
from cairn.store.rocks import WriteBatch
from tests.support.audit import audit
from tests.support.blocks import extend, store_genesis
from tests.support.disk import database_of
from tests.support.snapshots import PEOPLE, add_block, open_chain, pay, restore_snapshot, take_snapshot
from tests.support.transfers import address, transfer

SHOP, CUSTOMER = address(1), address(2)


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[ChainStore]:
    store = ChainStore.open(tmp_path / "data", store_genesis())
    yield store
    store.close()


def found(reader: ChainReader, search: Search, count: int = 1_000) -> list[Location]:
    return [step.location for step in islice(search_history(reader, search), count) if step.is_found]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The height of each version that is read."""
    heights: list[int] = []
    decode = keys.decode_version

    def counted(key: bytes, value: bytes) -> keys.Version:
        version = decode(key, value)
        heights.append(version.height)
        return version

    monkeypatch.setattr(keys, "decode_version", counted)
    return heights


def busy_shop(chain: ChainStore, blocks: int) -> None:
    """The shop pays once, is paid in each block by others, and by the customer in the second and in the last block."""
    extend(chain, [transfer(1, 0, to=3)])
    for number in range(1, blocks):
        payers = [2] if number in (1, blocks - 1) else []
        nonces = {payer: chain.account(address(payer)).nonce for payer in (4, *payers)}
        extend(chain, [transfer(payer, nonce, to=1) for payer, nonce in nonces.items()], address(9))


@pytest.mark.parametrize(
    ("search", "heights"),
    [
        (Search(SHOP, SENT), [1]),
        (Search(SHOP, SENT, is_ascending=True), [1]),
        (Search(SHOP, counterparty=CUSTOMER), [300, 2]),
        (Search(SHOP, RECEIVED, CUSTOMER, is_ascending=True), [2, 300]),
        (Search(SHOP, SENT, CUSTOMER), []),
        (Search(address(7), counterparty=SHOP), []),
        (Search(address(9)), []),
    ],
)
def test_a_search_reads_little_more_than_it_finds(
    chain: ChainStore, reads: list[int], search: Search, heights: list[int]
) -> None:
    busy_shop(chain, 300)
    reads.clear()
    assert [height for height, _ in found(chain, search)] == heights
    assert len(reads) <= 8 + 20 * search.is_ascending, reads


def test_the_oldest_of_a_long_history_come_first_without_the_rest(chain: ChainStore, reads: list[int]) -> None:
    busy_shop(chain, 300)
    reads.clear()
    assert [height for height, _ in found(chain, Search(SHOP, RECEIVED, is_ascending=True), 3)] == [2, 2, 3]
    assert len(reads) <= 24


# References.


BLOCK_TXS = 10_000


def version_with(uses: dict[int, int]) -> tuple[bytes, bytes]:
    """A stored version, with what the account does at each position."""
    encoded = b"".join(keys.encode_position(keys.use_of(position, how)) for position, how in sorted(uses.items()))
    return keys.version_key(SHOP, 5), keys.encode_version(Account(1, 1), 1, 1, 1, 1, 0) + encoded


@pytest.mark.parametrize(("mine", "theirs"), [(1, 1), (1, 7), (7, 1), (1, 999), (999, 1), (2, 3)])
@pytest.mark.parametrize("how", [SENT, RECEIVED, EITHER])
def test_what_two_accounts_have_in_common_in_a_block_is_what_one_sends_and_the_other_receives(
    mine: int, theirs: int, how: int
) -> None:
    """One is in each `mine`-th transaction and the other in each `theirs`-th, or alone with itself."""
    of_mine = {position: 1 + position // 2 % 2 for position in range(0, BLOCK_TXS, mine)}
    of_theirs = {position: 2 - position // 2 % 2 for position in range(0, BLOCK_TXS, theirs)}
    common = of_mine.keys() & of_theirs.keys()
    for number, position in enumerate(sorted(common)):
        if number % 5 == 0:
            of_mine[position] = EITHER
            del of_theirs[position]
    expected = [position for position in sorted(common) if position in of_theirs and of_mine[position] & how]
    one, other = (keys.decode_version(*version_with(uses)) for uses in (of_mine, of_theirs))
    assert history._common_positions(one, other, how) == expected


def test_what_two_busy_accounts_have_in_common_is_found_in_little_more_than_the_time_of_reading_both() -> None:
    even, odd = (version_with(dict.fromkeys(range(first, BLOCK_TXS, 2), SENT)) for first in (0, 1))
    one, other = (keys.decode_version(*each) for each in (even, odd))

    def reading() -> None:
        for each in (even, odd):
            assert not keys.decode_version(*each).has(RECEIVED)

    def comparing() -> None:
        assert history._common_positions(one, other, EITHER) == []

    took_s = [min(timeit.repeat(work, timer=time.process_time, number=5, repeat=10)) for work in (comparing, reading)]
    assert took_s[0] < 3 * took_s[1]


def test_data_is_found_for_both_accounts_and_no_other(chain: ChainStore) -> None:
    extend(chain, [transfer(2, 0, to=1, data=b"4711"), transfer(2, 1, to=1), transfer(3, 0, to=1, data=b"4712")])
    extend(chain, [transfer(1, 0, to=1, data=b"4711")])
    assert found(chain, Search(SHOP, data=b"4711")) == [(2, 0), (1, 0)]
    assert found(chain, Search(SHOP, data=b"4711", how=SENT)) == [(2, 0)]
    assert found(chain, Search(CUSTOMER, data=b"4711")) == [(1, 0)]
    assert found(chain, Search(CUSTOMER, data=b"4711", how=RECEIVED)) == []
    assert found(chain, Search(SHOP, data=b"4711", counterparty=CUSTOMER)) == [(1, 0)]
    assert found(chain, Search(SHOP, data=b"471")) == []
    assert found(chain, Search(address(3), data=b"4711")) == []


def test_what_shares_a_tag_is_told_apart_by_the_transaction(chain: ChainStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (keys, history):
        monkeypatch.setattr(module, "reference_tag", lambda address, data: b"same tag")
    monkeypatch.setattr(history, "READ_AT_ONCE", 3)
    for nonce in range(5):
        extend(chain, [transfer(who, nonce, to=1, data=b"%d" % (who % 2)) for who in (2, 3, 4)])
    for is_ascending in (False, True):
        places = found(chain, Search(SHOP, data=b"1", is_ascending=is_ascending))
        assert sorted(places) == [(height, 1) for height in range(1, 6)]
        assert places == sorted(places, reverse=not is_ascending)


def indexed_heights(chain: ChainStore) -> set[int]:
    return {keys.height_of_reference(key) for key, _ in database_of(chain).scan(keys.REFERENCES)}


def test_pruning_removes_the_references_of_removed_blocks_alone(chain: ChainStore) -> None:
    for nonce in range(6):
        extend(chain, [transfer(who, nonce, to=1, data=b"%d" % nonce) for who in range(2, 40)])
    chain.prune(4, lambda: None)
    assert indexed_heights(chain) == {4, 5, 6}
    assert found(chain, Search(SHOP, data=b"2")) == []
    assert len(found(chain, Search(SHOP, data=b"3"))) == 38


def test_a_restored_snapshot_has_the_references_of_its_block_alone(tmp_path: Path) -> None:
    chain, joining = open_chain(tmp_path / "data"), open_chain(tmp_path / "joining")
    shop = PEOPLE[1]
    for number in range(4):
        add_block(chain, [pay(chain, 2, shop, data=b"order %d" % number)])
    for height in (3, 4):
        restore_snapshot(joining, take_snapshot(chain, height))
        assert indexed_heights(joining) == {height}
        assert found(joining, Search(shop, data=b"order %d" % (height - 1))) == [(height, 0)]
    add_block(joining, [pay(joining, 2, shop, data=b"order 3")])
    assert found(joining, Search(shop, data=b"order 3")) == [(5, 0), (4, 0)]
    assert audit(joining) == 4
    joining.close()
    chain.close()


def remove(chain: ChainStore, key: bytes) -> None:
    batch = WriteBatch(database_of(chain))
    batch.delete(keys.REFERENCES, key)
    database_of(chain).write(batch)


def test_a_lost_index_is_damage_however_long_ago_it_was_written_to(chain: ChainStore) -> None:
    extend(chain, [transfer(2, 0, to=1, data=b"4711")])
    for nonce in range(1, 30):
        extend(chain, [transfer(2, nonce, to=1)])
    for key, _ in list(database_of(chain).scan(keys.REFERENCES)):
        remove(chain, key)
    chain.close()
    with pytest.raises(Corrupt, match="the references of block 1 are missing, the last one with any"):
        ChainStore.open(chain.directory, store_genesis())


def test_an_entry_of_a_transaction_that_is_not_there_is_damage(chain: ChainStore) -> None:
    extend(chain, [transfer(2, 0, to=1, data=b"4711")])
    batch = WriteBatch(database_of(chain))
    batch.put(keys.REFERENCES, keys.reference_key(keys.reference_tag(SHOP, b"4711"), (1, 1)), b"")
    database_of(chain).write(batch)
    with pytest.raises(Corrupt, match="transaction 1 of block 1 is not in the store, though its data is"):
        found(chain, Search(SHOP, data=b"4711"))


def test_a_key_of_another_length_is_damage() -> None:
    with pytest.raises(Corrupt, match="a stored reference has a key of 9 bytes"):
        keys.height_of_reference(bytes(9))


def test_versions_between_heights_are_the_oldest_first_and_no_more_are_read_than_asked_for(
    chain: ChainStore, reads: list[int]
) -> None:
    busy_shop(chain, 30)

    def heights(first: int, last: int, count: int = 99) -> list[int]:
        return [version.height for version in chain.versions_between(SHOP, first, last, count)]

    assert heights(0, 99) == list(range(31)), "genesis, too"
    assert heights(7, 9) == [7, 8, 9]
    assert [heights(10, 5), heights(31, 99)] == [[], []]
    reads.clear()
    assert heights(7, 30, count=2) == [7, 8]
    assert reads == [7, 8]
    assert chain.versions_between(address(77), 0, 99, 5) == [], "an account without any"
    between = [version.height for version in chain.versions_between(CUSTOMER, 3, 30, 5)]
    assert between == [30], "of one account alone"
