"""Proves what an account holds, or that there is none, against the state root of one of the latest blocks."""

from collections.abc import Callable
from contextlib import closing

from cairn.domain.errors import Corrupt
from cairn.domain.state_tree import LeafPath, Place, state_leaf
from cairn.domain.types import Address, BlockHeader
from cairn.store import keys
from cairn.store.chain import ChainStore
from cairn.store.rocks import RocksCursor

MOST_STEPS = 400
"""Versions that are newer than the block are stepped over, up and down from the account. The core does nothing else
meanwhile: all of them together take about a millisecond."""

Entry = tuple[bytes, bytes]
Move = Callable[[], Entry | None]


class LeafProof(LeafPath, frozen=True):
    """A leaf of the state tree, and the siblings from it up to the root."""

    leaf: bytes


def prove_account(chain: ChainStore, address: Address, header: BlockHeader) -> LeafProof | None:
    """The leaf of the account after the block, or the one that shows that there is none.

    None if the state has moved on too far since; another block is signed soon.
    """
    with closing(chain.walk_versions()) as versions:
        owner = _owner_at(versions, address, header.height)
        following = None if owner is None else _next_at(versions, owner, header.height)
    version = None if owner is None else chain.find_version(owner, header.height)
    path = None if version is None else chain.tree.find_path(version.number, header.state_root)
    if owner is None or following is None or version is None or path is None:
        return None
    leaf = state_leaf(owner, version.account, Place(version.number, version.touched, following))
    return LeafProof(path.number, path.size, path.siblings, leaf)


def _owner_at(versions: RocksCursor, address: Address, height: int) -> Address | None:
    """The address, if it had an account at `height`, or else the next lower one that had; of the lowest, the highest.

    The last entry of an account is its oldest version.
    """
    last = versions.seek_back(keys.after_versions(address))
    return _step_over(last, versions.previous, lambda: versions.seek_back(keys.LAST_VERSION_KEY), height)


def _next_at(versions: RocksCursor, address: Address, height: int) -> Address | None:
    """The next higher address that there was at `height`; of the highest, the lowest."""
    first = versions.seek(keys.after_versions(address))
    return _step_over(first, versions.next, lambda: versions.seek(b""), height)


def _step_over(entry: Entry | None, step: Move, start_again: Move, height: int) -> Address | None:
    """Whose the first version up to `height` is; None if it takes too many steps."""
    for _ in range(MOST_STEPS):
        entry = entry or start_again()
        if entry is None:
            raise Corrupt("there are no accounts in the store")
        address, touched = keys.decode_version_key(entry[0])
        if touched <= height:
            return address
        entry = step()
    return None
