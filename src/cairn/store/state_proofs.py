"""Proves what an account holds, or that there is none, against the state root of one of the latest blocks."""

from cairn.domain.errors import Corrupt
from cairn.domain.state_tree import LeafPath, Place, state_leaf
from cairn.domain.types import Address, BlockHeader
from cairn.store.chain import ChainStore
from cairn.store.keys import Version

MOST_STEPS = 500
"""Accounts that are newer than the block are stepped over, each with a seek: no more than some milliseconds of them."""


class LeafProof(LeafPath, frozen=True):
    """A leaf of the state tree, and the siblings from it up to the root."""

    leaf: bytes


def prove_account(chain: ChainStore, address: Address, header: BlockHeader) -> LeafProof | None:
    """The leaf of the account after the block, or the one that shows that there is none.

    None if the state has moved on too far since; another block is signed soon.
    """
    found = _find_leaf(chain, address, header.height)
    if found is None:
        return None
    owner, version = found
    following = _next_at(chain, owner, header.height)
    path = chain.tree.find_path(version.number, header.state_root)
    if following is None or path is None:
        return None
    leaf = state_leaf(owner, version.account, Place(version.number, version.touched, following))
    return LeafProof(path.number, path.size, path.siblings, leaf)


def _find_leaf(chain: ChainStore, address: Address, height: int) -> tuple[Address, Version] | None:
    """The account as of `height`, or the next lower one that there was."""
    candidate: Address | None = address
    for _ in range(MOST_STEPS):
        if candidate is None:
            raise Corrupt("there are no accounts in the store")
        version = chain.find_version(candidate, height)
        if version is not None:
            return candidate, version
        candidate = chain.find_below(candidate)
    return None


def _next_at(chain: ChainStore, address: Address, height: int) -> Address | None:
    """The next higher address that there was at `height`; of the highest, the lowest."""
    following = chain.find_next(address)
    for _ in range(MOST_STEPS):
        if chain.find_version(following, height) is not None:
            return following
        following = chain.find_next(following)
    return None
