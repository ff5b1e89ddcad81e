"""The state tree of an execution that nobody else reads: it takes in a block's leaves at once."""

from collections.abc import Iterable
from hashlib import sha256

from cairn.domain.merkle import NODE_BYTES, NODE_PREFIX
from cairn.domain.state_tree import StateTree, TreeUpdate, put_node
from cairn.domain.steps import Steps

_PAIR_BYTES = 2 * NODE_BYTES


class ReplayedTree(StateTree):
    """A node first gathers what becomes of the tree, because the block may never be stored. Here each new node is
    written where it belongs, which is less work, and the former leaves are written again in the rare case.
    """

    _former: tuple[int, dict[int, bytes]] | None = None
    """The size before the latest block, and the leaves that it replaced."""

    def updated_steps(self, leaves: dict[int, bytes]) -> Steps[TreeUpdate]:
        """The tree is then the updated one, and nothing is left for `apply`."""
        former, low = self.size, self.levels[0]
        places = ((number, number * NODE_BYTES) for number in leaves if number < former)
        self._former = former, {number: bytes(low[at : at + NODE_BYTES]) for number, at in places}
        self._write(max(former, max(leaves, default=0) + 1), leaves)
        yield
        return TreeUpdate(self.size, self.root, [])

    def apply(self, update: TreeUpdate) -> None:
        super().apply(update)
        self._former = None

    def undo(self) -> None:
        """Forget an update that was not applied, if there is one."""
        if self._former is not None:
            size, leaves = self._former
            self._former = None
            self._write(size, leaves)

    def _write(self, size: int, leaves: dict[int, bytes]) -> None:
        """Make it a tree of `size` leaves, some of which are new."""
        self._resize(size)
        low = self.levels[0]
        for number, leaf in leaves.items():
            put_node(low, number * NODE_BYTES, leaf)
        # Where the size changed, the last node of each level is another one too.
        changed: Iterable[int] = {*leaves, size - 1}
        for above in self.levels[1:]:
            changed = {index >> 1 for index in changed}
            for index in changed:
                at = index * _PAIR_BYTES
                put_node(above, index * NODE_BYTES, sha256(NODE_PREFIX + low[at : at + _PAIR_BYTES]).digest())
            if len(low) % _PAIR_BYTES:
                # A last one without a sibling moves up as it is.
                above[-NODE_BYTES:] = low[-NODE_BYTES:]
            low = above

    def _resize(self, size: int) -> None:
        for number, width in enumerate(_widths(size)):
            if number == len(self.levels):
                self.levels.append(bytearray())
            level = self.levels[number]
            level.extend(bytes(max(0, width * NODE_BYTES - len(level))))
            del level[width * NODE_BYTES :]
        del self.levels[len(_widths(size)) :]


def _widths(size: int) -> list[int]:
    """How many nodes each level has."""
    widths = [size]
    while widths[-1] > 1:
        widths.append((widths[-1] + 1) >> 1)
    return widths
