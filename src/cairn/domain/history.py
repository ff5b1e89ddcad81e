"""The tree over the hashes of all blocks so far, to which every block adds one: the history root of a header.

A header's history root covers all blocks before it. So one trusted header proves each of its ancestors with a path of
some twenty hashes, and between two headers that the older history was only appended to.

A node over a complete range of blocks, 2^level of them, never changes once it is there. All others follow from these,
so only these are kept: `level` and `index` name them.
"""

from collections.abc import Callable, Iterator

import msgspec

from cairn.domain.merkle import EMPTY_ROOT, leaf_hash, node_hash
from cairn.domain.types import BlockHash

ReadNode = Callable[[int, int], bytes]
"""Reads the node of a level and an index."""

HistoryNode = tuple[int, int, bytes]
"""Level, index and hash."""


class History(msgspec.Struct, frozen=True):
    """The tree over the first `size` blocks, as far as it is needed to continue it."""

    size: int = 0
    peaks: tuple[bytes, ...] = ()
    """The complete ranges that it consists of, the longest first; `peak_places` says which."""

    @property
    def root(self) -> bytes:
        if not self.peaks:
            return EMPTY_ROOT
        *others, node = self.peaks
        for peak in reversed(others):
            node = node_hash(peak, node)
        return node

    def append(self, block_hash: BlockHash) -> tuple["History", list[HistoryNode]]:
        """With the next block, and the nodes that it completes."""
        node, level, index, peaks = leaf_hash(block_hash), 0, self.size, list(self.peaks)
        nodes = [(level, index, node)]
        while index % 2:
            node, level, index = node_hash(peaks.pop(), node), level + 1, index >> 1
            nodes.append((level, index, node))
        return History(self.size + 1, (*peaks, node)), nodes


def peak_places(size: int) -> Iterator[tuple[int, int]]:
    """Level and index of the complete ranges that a tree of this size consists of, the longest first."""
    start = 0
    for level in reversed(range(size.bit_length())):
        if size >> level & 1:
            yield level, start >> level
            start += 1 << level


def load_history(read_node: ReadNode, size: int) -> History:
    return History(size, tuple(read_node(level, index) for level, index in peak_places(size)))


def history_path(read_node: ReadNode, size: int, index: int) -> list[bytes]:
    """The siblings from leaf `index` of `size` up to the root, lowest first (PATH of RFC 6962)."""
    path: list[bytes] = []
    start = 0
    while size > 1:
        left = _left_size(size)
        if index - start < left:
            path.append(_range_root(read_node, start + left, size - left))
            size = left
        else:
            path.append(_range_root(read_node, start, left))
            start, size = start + left, size - left
    return path[::-1]


def consistency_path(read_node: ReadNode, first: int, second: int) -> list[bytes]:
    """Shows that the tree of the first `first` blocks is the beginning of that of `second` (PROOF of RFC 6962)."""
    path: list[bytes] = []
    if not 0 < first < second:
        return path
    start, size, is_whole = 0, second, True
    while first - start != size:
        left = _left_size(size)
        if first - start <= left:
            path.append(_range_root(read_node, start + left, size - left))
            size = left
        else:
            path.append(_range_root(read_node, start, left))
            start, size, is_whole = start + left, size - left, False
    # What is left is the end of the first tree; its reader knows that if it is all of it.
    if not is_whole:
        path.append(_range_root(read_node, start, size))
    return path[::-1]


def _left_size(size: int) -> int:
    """The largest power of two below `size`, which is at least 2."""
    return 1 << ((size - 1).bit_length() - 1)


def _range_root(read_node: ReadNode, start: int, size: int) -> bytes:
    if size & (size - 1) == 0:
        level = size.bit_length() - 1
        return read_node(level, start >> level)
    left = _left_size(size)
    return node_hash(_range_root(read_node, start, left), _range_root(read_node, start + left, size - left))
