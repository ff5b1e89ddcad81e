"""The slow check of all trees finds a wrong node in each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.domain.errors import Corrupt
from cairn.store import keys
from cairn.store.chain import ChainStore
from cairn.store.rocks import WriteBatch
from tests.support.disk import database_of
from tests.support.naive_trees import check_trees
from tests.support.snapshots import grow_signed, open_chain, restore_snapshot, take_snapshot


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[ChainStore]:
    store = open_chain(tmp_path / "data")
    grow_signed(store, 9)
    yield store
    store.close()


def flip(chain: ChainStore, family: str, key: bytes) -> None:
    database, batch = database_of(chain), WriteBatch(database_of(chain))
    value = database.get(family, key)
    assert value is not None
    batch.put(family, key, bytes([value[0] ^ 1]) + value[1:])
    database.write(batch)


def test_a_whole_a_pruned_and_a_restored_chain_pass(chain: ChainStore, tmp_path: Path) -> None:
    check_trees(chain)
    taking = open_chain(tmp_path / "taking")
    restore_snapshot(taking, take_snapshot(chain))
    check_trees(taking)
    grow_signed(taking, 3)
    check_trees(taking)
    taking.close()
    chain.prune(5, lambda: None)
    check_trees(chain)


@pytest.mark.parametrize("level", range(5))
def test_a_wrong_node_of_the_state_tree_is_found_on_each_level(chain: ChainStore, level: int) -> None:
    chain.tree.levels[level][0] ^= 1
    with pytest.raises(Corrupt, match=f"node 0 of level {level} of the state tree is not the one that follows"):
        check_trees(chain)


def test_a_wrong_leaf_of_the_touched_accounts_is_found(chain: ChainStore) -> None:
    flip(chain, keys.CHANGES, keys.encode_height(2))
    with pytest.raises(Corrupt, match="block 2: the touched accounts is 0x"):
        check_trees(chain)


@pytest.mark.parametrize("place", [(0, 0), (0, 3), (1, 1), (3, 0), (0, 9)])
def test_a_wrong_node_of_the_history_is_found(chain: ChainStore, place: tuple[int, int]) -> None:
    flip(chain, keys.HISTORY, keys.encode_history_key(*place))
    with pytest.raises(Corrupt, match=f"node {place[1]} of level {place[0]} of the history is not the one"):
        check_trees(chain)
    chain.prune(9, lambda: None)
    with pytest.raises(Corrupt, match="history"):
        check_trees(chain)
