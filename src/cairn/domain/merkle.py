"""The transactions root: the Merkle tree of RFC 6962 with SHA-256 over the transaction hashes.

Leaves and nodes are hashed with different first bytes, so that a node can never be passed off as a leaf.
"""

from collections.abc import Sequence
from hashlib import sha256

_LEAF = b"\0"
_NODE = b"\1"

EMPTY_ROOT = sha256(b"").digest()


def tx_root(hashes: Sequence[bytes]) -> bytes:
    if not hashes:
        return EMPTY_ROOT
    level = _leaves(hashes)
    while len(level) > 1:
        level = _parents(level)
    return level[0]


def inclusion_proof(hashes: Sequence[bytes], index: int) -> list[bytes]:
    """The siblings on the way from leaf `index` up to the root, lowest first."""
    if not 0 <= index < len(hashes):
        raise IndexError(f"no leaf {index} in a tree of {len(hashes)}")
    level = _leaves(hashes)
    proof = []
    while len(level) > 1:
        sibling = index ^ 1
        if sibling < len(level):
            proof.append(level[sibling])
        level = _parents(level)
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


def _leaves(hashes: Sequence[bytes]) -> list[bytes]:
    return [sha256(_LEAF + item).digest() for item in hashes]


def _parents(level: list[bytes]) -> list[bytes]:
    # Pairing from the left and moving an odd last node up gives the tree that RFC 6962 defines from the top.
    pairs = iter(level)
    parents = [sha256(_NODE + left + right).digest() for left, right in zip(pairs, pairs, strict=False)]
    if len(level) % 2:
        parents.append(level[-1])
    return parents
