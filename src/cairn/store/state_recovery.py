"""Brings the state tree back at a start: from its file and the blocks since, or from all accounts.

Of the file (`tree_file.py`) every leaf is recomputed that a block after the file's may have changed: those of the
accounts that the blocks name, those before an account that is new since, and the record. What comes out must have the
head's state root, whatever it was made from.
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import structlog

from cairn.domain.errors import Corrupt
from cairn.domain.merkle import leaf_hash
from cairn.domain.state_tree import Place, StateTree, state_leaf
from cairn.domain.types import Address, BlockHash, BlockHeader
from cairn.store import keys
from cairn.store.keys import Version
from cairn.store.reader import ChainReader
from cairn.store.rocks import Database
from cairn.store.state_leaves import StateLeaves
from cairn.store.tree_file import LEAF_BYTES, TreeMark, read_tree, tree_path

MOST_SHARE = 4
"""Where blocks may have changed more than such a part of the leaves since, reading all accounts is quicker."""

TOLD_S = 1.0

log = structlog.get_logger("cairn.store")

Entry = tuple[bytes, bytes]
"""A key and its value."""


class RecoveredTree(msgspec.Struct, frozen=True):
    tree: StateTree
    saved: TreeMark | None
    """Of the file that it was made from, if it was."""
    age: int
    """How many leaves were recomputed, or could have been; and blocks."""


def recover_tree(
    database: Database, path: Path, reader: ChainReader, header: BlockHeader, head_hash: BlockHash, record: bytes
) -> RecoveredTree:
    """The state tree of the chain in RocksDB at `path`. Changes no file. Raises `Corrupt` or `OSError`.

    `header` is the head's, `record` the data of the leaf of number 0.
    """
    begun_at = time.monotonic()
    saved, leaves = read_tree(tree_path(path)) or (None, bytearray())
    touched = None if saved is None else _touched_since(database, reader, head_hash, saved)
    if saved is None or touched is None:
        saved, leaves = None, _leaves_of(reader, record)
        age = len(leaves) // LEAF_BYTES
    else:
        age = len(touched) + header.height - saved.height
        _renew(database, reader, leaves, touched)
        leaves[:LEAF_BYTES] = leaf_hash(record)
    tree = StateTree.from_leaves(leaves)
    if tree.root != header.state_root:
        # The file has a checksum, and the accounts too; one of the two was written wrong.
        file = "" if saved is None else f"; without {tree_path(path)} it is read from the accounts alone"
        raise Corrupt(f"the stored state is not the one that block {header.height} commits to{file}")
    took_s = time.monotonic() - begun_at
    # A line for each revert of a dev chain would be noise.
    tell = log.info if took_s >= TOLD_S else log.debug
    tell(
        "the state tree is back",
        accounts=tree.size - 1,
        source="all accounts" if saved is None else f"its file of block {saved.height}",
        computed=age,
        seconds=round(took_s, 3),
    )
    return RecoveredTree(tree, saved, age)


def _touched_since(
    database: Database, reader: ChainReader, head_hash: BlockHash, saved: TreeMark
) -> set[Address] | None:
    """The accounts that blocks after the file's may have touched; None if the file is of no use."""
    if not reader.base - 1 <= saved.height <= reader.visible or database.get(keys.META, keys.RESTORE_KEY) is not None:
        return None
    most, work, touched = saved.size // MOST_SHARE, 0, set[Address]()
    expected = saved.hash
    for height in range(saved.height + 1, reader.visible + 1):
        found = reader.find_header(height)
        if found is None or found[1].previous_hash != expected:
            return None
        expected = found[0]
        work += 1 + 2 * found[1].tx_count
        if work > most:
            return None
        touched |= reader.named_in(height)
    return touched if expected == head_hash else None


def _renew(database: Database, reader: ChainReader, leaves: bytearray, touched: Iterable[Address]) -> None:
    """Compute the leaves of these accounts again, and of those whose next account is a new one."""
    accounts = _AccountRing(database, reader.visible)
    size = len(leaves) // LEAF_BYTES
    renewed: dict[int, bytes] = {}
    for address in touched:
        version = accounts.find(address)
        # A block without fees names its proposer, and does not touch it.
        if version is not None:
            renewed[version.number] = accounts.leaf(address, version)
            if version.number >= size:
                below = accounts.below(address)
                before = accounts.find(below)
                assert before is not None
                renewed[before.number] = accounts.leaf(below, before)
    leaves.extend(bytes(LEAF_BYTES * sum(number >= size for number in renewed)))
    for number, leaf in renewed.items():
        if (number + 1) * LEAF_BYTES > len(leaves):
            raise Corrupt(f"an account has the number {number}; there are {len(leaves) // LEAF_BYTES - 1}")
        leaves[number * LEAF_BYTES : (number + 1) * LEAF_BYTES] = leaf


class _AccountRing:
    """The accounts as of the head, each with the next. A node that runs may have stored later ones."""

    def __init__(self, database: Database, height: int) -> None:
        self._cursor = database.cursor(keys.ACCOUNTS)
        self._height = height

    def find(self, address: Address) -> Version | None:
        entry = self._cursor.seek(keys.version_key(address, self._height))
        return keys.decode_version(*entry) if entry is not None and entry[0].startswith(address) else None

    def leaf(self, address: Address, version: Version) -> bytes:
        cursor = self._cursor
        following = self._step_to_head(cursor.seek(keys.after_versions(address)), cursor.next)
        following = following or self._step_to_head(cursor.seek(b""), cursor.next)
        assert following is not None
        return leaf_hash(state_leaf(address, version.account, Place(version.number, version.touched, following)))

    def below(self, address: Address) -> Address:
        """The account before this one, which exists; of the lowest it is the highest."""
        cursor = self._cursor
        below = self._step_to_head(cursor.seek_back(address), cursor.previous)
        below = below or self._step_to_head(cursor.seek_back(keys.LAST_VERSION_KEY), cursor.previous)
        assert below is not None
        return below

    def _step_to_head(self, entry: Entry | None, step: Callable[[], Entry | None]) -> Address | None:
        """Whose the first version is that is not later than the head."""
        while entry is not None:
            address, height = keys.decode_version_key(entry[0])
            if height <= self._height:
                return address
            entry = step()
        return None


def _leaves_of(reader: ChainReader, record: bytes) -> bytearray:
    leaves = StateLeaves()
    for address, version in reader.accounts_at(reader.visible):
        leaves.add(address, version.account, version.number, version.touched)
    return leaves.in_order(record)
