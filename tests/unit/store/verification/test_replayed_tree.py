"""The tree of an execution is after each update, and after each that was undone, what the node's tree is."""

from random import Random

import pytest

from cairn.domain.state_tree import StateTree
from cairn.store.verification.replayed_tree import ReplayedTree


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 64, 100])
def test_it_is_the_tree_of_a_node_after_each_update_and_before_each_that_is_undone(size: int) -> None:
    rng = Random(size)
    first = rng.randbytes(32 * size)
    tree, replayed = StateTree.from_leaves(first), ReplayedTree.from_leaves(first)
    for _ in range(60):
        replayed.updated(some_leaves(rng, tree.size))
        replayed.undo()
        assert replayed.levels == tree.levels
        leaves = some_leaves(rng, tree.size)
        update, same = tree.updated(leaves), replayed.updated(leaves)
        assert (same.size, same.root) == (update.size, update.root)
        tree.apply(update)
        replayed.apply(same)
        replayed.undo()
        assert replayed.levels == tree.levels == StateTree.from_leaves(tree.levels[0]).levels


def some_leaves(rng: Random, size: int) -> dict[int, bytes]:
    """A few that are there, and a few that follow."""
    known = rng.sample(range(size), rng.randrange(min(size, 5) + 1))
    new = range(size, size + rng.randrange(5))
    return {number: rng.randbytes(32) for number in [*known, *new]}
