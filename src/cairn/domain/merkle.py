"""The Merkle tree of RFC 6962 with SHA-256: the one hashing of all four roots in a header.

Without leaves the root is the one that Ethereum has for no transactions: clients compare with it to know that a block
is empty.

Leaves and inner nodes are hashed with different first bytes, so that a node is never mistaken for a leaf.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256

from cairn.domain.steps import Steps, finish, in_groups

LEAF_PREFIX = b"\0"
NODE_PREFIX = b"\1"

NODE_BYTES = 32
PIECE_NODES = 256
"""An even number, so that no pair is split."""
EMPTY_ROOT = bytes.fromhex("56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421")
"""keccak-256 of the empty string in RLP."""


def leaf_hash(data: bytes) -> bytes:
    return sha256(LEAF_PREFIX + data).digest()


def node_hash(left: bytes | bytearray, right: bytes | bytearray) -> bytes:
    return sha256(NODE_PREFIX + left + right).digest()


def tx_root(hashes: Sequence[bytes]) -> bytes:
    return finish(tx_root_steps(hashes))


def tx_root_steps(hashes: Sequence[bytes]) -> Steps[bytes]:
    leaves: list[bytes] = []
    for group in in_groups(hashes):
        leaves += [sha256(LEAF_PREFIX + tx_hash).digest() for tx_hash in group]
        yield
    return (yield from root_steps(leaves))


def root_of(leaves: list[bytes]) -> bytes:
    """The root over leaf hashes."""
    return finish(root_steps(leaves))


def root_steps(leaves: Sequence[bytes]) -> Steps[bytes]:
    while len(leaves) > 1:
        above: list[bytes] = []
        for group in in_groups(leaves):
            above += _parents(group)
            yield
        leaves = above
    return leaves[0] if leaves else EMPTY_ROOT


def tree_nodes(items: Sequence[bytes]) -> bytes:
    """All nodes of the tree over data, 32 bytes each, level by level from the leaves up to the root."""
    return b"".join(grow_tree(items))


def grow_tree(items: Sequence[bytes]) -> Iterator[bytes]:
    """The nodes of `tree_nodes` in pieces, each a fraction of a millisecond's work."""
    level: list[bytes] = []
    for start in range(0, len(items), PIECE_NODES):
        leaves = [leaf_hash(item) for item in items[start : start + PIECE_NODES]]
        level += leaves
        yield b"".join(leaves)
    yield from grow_above(level)


def grow_above(level: list[bytes]) -> Iterator[bytes]:
    """All nodes above leaf hashes, in the same way."""
    while len(level) > 1:
        above: list[bytes] = []
        for start in range(0, len(level), PIECE_NODES):
            parents = _parents(level[start : start + PIECE_NODES])
            above += parents
            yield b"".join(parents)
        level = above


def inclusion_proof(nodes: bytes, size: int, index: int) -> list[bytes]:
    """The siblings on the way from leaf `index` of `size` up to the root, lowest first; `nodes` as of `tree_nodes`."""
    if not 0 <= index < size:
        raise IndexError(f"no leaf {index} in a tree of {size}")
    proof, level_at = [], 0
    while size > 1:
        sibling = index ^ 1
        if sibling < size:
            start = level_at + sibling * NODE_BYTES
            proof.append(nodes[start : start + NODE_BYTES])
        level_at += size * NODE_BYTES
        size = (size + 1) // 2
        index >>= 1
    return proof


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether `leaf` (the data, not its leaf hash) is number `index` of the `size` leaves under `root`."""
    if not 0 <= index < size:
        return False
    node, last, siblings = leaf_hash(leaf), size - 1, iter(proof)
    while last > 0:
        # The last node of an odd level has no sibling: it moves up as it is.
        if index % 2 or index < last:
            sibling = next(siblings, None)
            if sibling is None:
                return False
            node = node_hash(sibling, node) if index % 2 else node_hash(node, sibling)
        index >>= 1
        last >>= 1
    return next(siblings, None) is None and node == root


def verify_consistency(
    first_size: int, second_size: int, first_root: bytes, second_root: bytes, proof: Sequence[bytes]
) -> bool:
    """Whether the tree under `second_root` begins with all leaves of the one under `first_root` (RFC 9162, 2.1.4.2)."""
    if not 0 <= first_size <= second_size:
        return False
    if first_size in (0, second_size):
        is_known = first_root == EMPTY_ROOT if first_size == 0 else first_root == second_root
        return is_known and not proof
    index, last = first_size - 1, second_size - 1
    while index % 2:
        index, last = index >> 1, last >> 1
    siblings = iter(proof)
    # A first tree that is complete is itself a node of the second.
    first = second = next(siblings, None) if index else first_root
    if first is None or second is None:
        return False
    for sibling in siblings:
        if last == 0:
            return False
        if index % 2 or index == last:
            first, second = node_hash(sibling, first), node_hash(sibling, second)
            while index and not index % 2:
                index, last = index >> 1, last >> 1
        else:
            second = node_hash(second, sibling)
        index, last = index >> 1, last >> 1
    return last == 0 and first == first_root and second == second_root


def _parents(level: Sequence[bytes]) -> list[bytes]:
    # Pairing from the left and moving an odd last node up gives the tree that RFC 6962 defines from the top.
    pairs = iter(level)
    parents = [sha256(NODE_PREFIX + left + right).digest() for left, right in zip(pairs, pairs, strict=False)]
    if len(level) % 2:
        parents.append(level[-1])
    return parents
