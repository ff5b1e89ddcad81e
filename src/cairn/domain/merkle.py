"""The transactions root: the Merkle tree of RFC 6962 with SHA-256 over the transaction hashes.

Without transactions it is the root that Ethereum has for none: clients compare with it to know that a block is empty.

Leaves and inner nodes are hashed with different first bytes, so that a node is never mistaken for a leaf.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256

_LEAF = b"\0"
_NODE = b"\1"

NODE_BYTES = 32
PIECE_NODES = 256
"""An even number, so that no pair is split."""
EMPTY_ROOT = bytes.fromhex("56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421")
"""keccak-256 of the empty string in RLP."""


def tx_root(hashes: Sequence[bytes]) -> bytes:
    return tree_nodes(hashes)[-NODE_BYTES:] if hashes else EMPTY_ROOT


def tree_nodes(hashes: Sequence[bytes]) -> bytes:
    """All nodes of the tree, 32 bytes each, level by level from the leaves up to the root."""
    return b"".join(grow_tree(hashes))


def grow_tree(hashes: Sequence[bytes]) -> Iterator[bytes]:
    """The nodes of `tree_nodes` in pieces, each a fraction of a millisecond's work."""
    level: list[bytes] = []
    for start in range(0, len(hashes), PIECE_NODES):
        leaves = [sha256(_LEAF + item).digest() for item in hashes[start : start + PIECE_NODES]]
        level += leaves
        yield b"".join(leaves)
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
    node, last, siblings = sha256(_LEAF + leaf).digest(), size - 1, iter(proof)
    while last > 0:
        # The last node of an odd level has no sibling: it moves up as it is.
        if index % 2 or index < last:
            sibling = next(siblings, None)
            if sibling is None:
                return False
            node = sha256(_NODE + (sibling + node if index % 2 else node + sibling)).digest()
        index >>= 1
        last >>= 1
    return next(siblings, None) is None and node == root


def _parents(level: list[bytes]) -> list[bytes]:
    # Pairing from the left and moving an odd last node up gives the tree that RFC 6962 defines from the top.
    pairs = iter(level)
    parents = [sha256(_NODE + left + right).digest() for left, right in zip(pairs, pairs, strict=False)]
    if len(level) % 2:
        parents.append(level[-1])
    return parents
