"""The append-only tree over block hashes, compared with RFC 6962's own definitions."""

import hashlib
from itertools import pairwise

import pytest

from cairn.domain.history import (
    History,
    HistoryNode,
    ReadNode,
    consistency_path,
    history_path,
    load_history,
    peak_places,
)
from cairn.domain.merkle import EMPTY_ROOT, root_of, verify_consistency, verify_inclusion
from cairn.domain.types import BlockHash

BLOCKS = [BlockHash(hashlib.sha256(bytes((number,))).digest()) for number in range(40)]


def naive_root(blocks: list[BlockHash]) -> bytes:
    return root_of([hashlib.sha256(b"\0" + block).digest() for block in blocks])


def histories() -> tuple[list[History], dict[tuple[int, int], bytes]]:
    """The history after each number of blocks, and all nodes that were ever given to keep."""
    found, kept = [History()], {}
    for block in BLOCKS:
        history, nodes = found[-1].append(block)
        found.append(history)
        for level, index, node in nodes:
            assert (level, index) not in kept, "no node is written twice"
            kept[level, index] = node
    return found, kept


def reader(kept: dict[tuple[int, int], bytes]) -> ReadNode:
    return lambda level, index: kept[level, index]


def test_the_root_after_each_block_is_that_of_the_whole_tree() -> None:
    found, _ = histories()
    assert [history.root for history in found] == [naive_root(BLOCKS[:size]) for size in range(len(BLOCKS) + 1)]
    assert found[0].root == EMPTY_ROOT


def test_a_history_is_found_again_from_the_kept_nodes() -> None:
    found, kept = histories()
    assert [load_history(reader(kept), size) for size in range(len(found))] == found


def test_the_peaks_of_eleven_blocks_are_of_eight_two_and_one() -> None:
    assert list(peak_places(11)) == [(3, 0), (1, 4), (0, 10)]


def test_each_block_has_a_path_to_the_root_of_each_later_history() -> None:
    found, kept = histories()
    for size in range(1, len(found)):
        for index in range(size):
            path = history_path(reader(kept), size, index)
            assert verify_inclusion(BLOCKS[index], index, size, path, found[size].root)
            assert not verify_inclusion(BLOCKS[index], index, size, path, found[size - 1].root)


def test_each_history_is_shown_to_begin_each_later_one() -> None:
    found, kept = histories()
    for first in range(len(found)):
        for second in range(first, len(found)):
            path = consistency_path(reader(kept), first, second)
            roots = found[first].root, found[second].root
            assert verify_consistency(first, second, *roots, path)
            if 0 < first < second:
                assert not verify_consistency(first, second, roots[1], roots[0], path)
                assert not verify_consistency(first, second, *roots, [*path, path[0] if path else b"\0" * 32])
                assert not path or not verify_consistency(first, second, *roots, path[:-1])


@pytest.mark.parametrize("changed", [0, 4, 9])
def test_a_history_with_another_block_is_not_shown_to_begin_with_the_old_one(changed: int) -> None:
    rewritten: list[HistoryNode] = []
    history = History()
    for number, block in enumerate(BLOCKS):
        history, nodes = history.append(BlockHash(bytes(32)) if number == changed else block)
        rewritten += nodes
    kept = {(level, index): node for level, index, node in rewritten}
    old, _ = histories()
    path = consistency_path(reader(kept), 10, 40)
    assert not verify_consistency(10, 40, old[10].root, history.root, path)


def test_sizes_that_go_back_or_are_negative_are_not_consistent() -> None:
    found, _ = histories()
    for first, second in [*pairwise([5, 4]), (-1, 3)]:
        assert not verify_consistency(first, second, found[4].root, found[5].root, [])
