"""Walks over whole column families: that nothing is in them but what the checked blocks have put there."""

from array import array
from collections.abc import Callable, Iterable
from struct import error as StructError

import msgspec

from cairn.domain.certificates import (
    Step,
    check_steps,
    engine_chain_id,
    first_validators,
    members_of,
    signed_height,
)
from cairn.domain.errors import Corrupt, InvalidProof
from cairn.domain.genesis import Genesis, genesis_outcome
from cairn.domain.governance import Governance
from cairn.domain.merkle import leaf_hash, node_hash
from cairn.store import keys
from cairn.store.rocks import Database
from cairn.store.verification.findings import Findings, shown

SHOWN_STRAYS = 10
"""Entries of one family that are named; of more only the number is told."""
_HASH_MASK = 2**64 - 1


class Range(msgspec.Struct, frozen=True):
    """The blocks that are verified, and what may be beside them."""

    first: int
    last: int
    cleared: int
    """Nothing is left of the blocks below it, but for what is kept forever."""
    is_running: bool
    """Whether a node writes to the store."""
    is_restoring: bool
    """Whether a snapshot is in the store that is not the head yet."""

    @property
    def has_later(self) -> bool:
        """Whether there may be entries of later blocks."""
        return self.is_running or self.is_restoring


class BlockSums:
    """For each block, the sum of the hashes of its entries in one family.

    A walk over a family is eight times as fast as to look for each of its entries. So a block's entries are compared
    all at once with what they must be, and only where the sums differ, one by one.

    The hashes are Python's own: 64 bits, keyed with a secret of each process. So sums of two processes are not alike,
    and nobody can make other entries with the same sum.
    """

    def __init__(self, first: int, last: int) -> None:
        self._first = first
        self._sums = array("Q", bytes(8 * (last - first + 1)))

    def add(self, height: int, entry: bytes) -> None:
        """`entry` is a key and its value."""
        at = height - self._first
        self._sums[at] = self._sums[at] + hash(entry) & _HASH_MASK

    def is_of(self, height: int, entries: Iterable[bytes]) -> bool:
        """Whether these are the entries of the block that were added."""
        return self._sums[height - self._first] == sum(map(hash, entries)) & _HASH_MASK


def count_entries(
    database: Database, family: str, blocks: Range, found: Findings, sums: BlockSums | None = None
) -> int:
    """How many entries belong to the blocks, in a family of which each entry belongs to one; adds them to `sums`."""
    height_of = _HEIGHTS[family]
    # What the first block left comes from before it, unless that is genesis.
    first = blocks.first + (family in (keys.ACCOUNTS, keys.CHANGES, keys.HISTORY) and blocks.first > 0)
    is_kept_for_ever = family in (keys.ACCOUNTS, keys.HISTORY)
    count = strays = 0
    for key, value in database.walk(family):
        try:
            height = height_of(key, value)
        except (Corrupt, StructError):
            height = -1
        if first <= height <= blocks.last:
            count += 1
            if sums is not None:
                sums.add(height, key + value)
            continue
        is_later = height > blocks.last and not blocks.has_later
        is_left = height < blocks.cleared and not is_kept_for_ever
        if height < 0 or is_later or is_left:
            strays += 1
            if strays <= SHOWN_STRAYS:
                found.add(family, f"the entry 0x{key.hex()} belongs to no block that is kept")
    if strays > SHOWN_STRAYS:
        found.add(family, f"{strays} entries belong to no block that is kept")
    return count


def check_tx_index(database: Database, blocks: Range, found: Findings) -> int:
    """Check that each transaction in the lists of hashes is found by its hash; returns how many entries there are."""
    sums, count = BlockSums(blocks.first, blocks.last), 0
    with found.noted(keys.TX_INDEX):
        count = count_entries(database, keys.TX_INDEX, blocks, found, sums)
    for height in range(blocks.first, blocks.last + 1):
        with found.noted(keys.TX_INDEX, height):
            _check_index_of(database, height, sums, found)
    return count


def _check_index_of(database: Database, height: int, sums: BlockSums, found: Findings) -> None:
    # A list that is missing has a finding of its own.
    hashes = database.get(keys.TX_HASHES, keys.encode_height(height)) or b""
    entries = [tx_hash + keys.encode_location(height, at) for at, tx_hash in enumerate(keys.split_hashes(hashes))]
    if sums.is_of(height, entries):
        return
    for position, entry in enumerate(entries):
        tx_hash, place = entry[: keys.HASH_SIZE], entry[keys.HASH_SIZE :]
        with found.noted(keys.TX_INDEX, height):
            if (stored := database.get(keys.TX_INDEX, tx_hash)) != place:
                raise Corrupt(f"0x{tx_hash.hex()} leads to {shown(stored)}, not to its place {position}")


def _completing_block(key: bytes, value: bytes) -> int:
    """The block that completed a node of the history."""
    if len(key) != 9 or len(value) != keys.HASH_SIZE or key[0] > 63:
        return -1
    return ((int.from_bytes(key[1:], "big") + 1) << key[0]) - 1


def _by_key(size: int) -> Callable[[bytes, bytes], int]:
    return lambda key, value: int.from_bytes(key[:8], "big") if len(key) == size else -1


_HEIGHTS: dict[str, Callable[[bytes, bytes], int]] = {
    keys.HEADERS: _by_key(8),
    keys.TX_HASHES: _by_key(8),
    keys.CHANGES: _by_key(8),
    keys.SIGNATURES: _by_key(8),
    keys.TXS: _by_key(12),
    keys.BLOCK_INDEX: lambda key, value: keys.decode_height(value) if len(key) == keys.HASH_SIZE else -1,
    keys.TX_INDEX: lambda key, value: keys.decode_location(value)[0] if len(key) == keys.HASH_SIZE else -1,
    keys.ACCOUNTS: lambda key, value: keys.decode_version_key(key)[1],
    keys.REFERENCES: lambda key, value: keys.height_of_reference(key),
    keys.HISTORY: _completing_block,
}
COUNTED = tuple(_HEIGHTS)
"""The families of which each entry belongs to one block."""


def check_old_history(database: Database, genesis: Genesis, blocks: Range, found: Findings) -> None:
    """Check the nodes that blocks up to the first one have made: they are kept, and later ones stand on them.

    Where the chain began with a snapshot, what is below the snapshot's own nodes was never here, but for block 0. Those
    on top are loaded with the first block, whose history root covers them.
    """
    for key, value in database.walk(keys.HISTORY):
        if not 0 <= _completing_block(key, value) <= blocks.first:
            continue
        level, index = key[0], int.from_bytes(key[1:], "big")
        if level:
            left, right = (
                database.get(keys.HISTORY, keys.encode_history_key(level - 1, 2 * index + side)) for side in (0, 1)
            )
            # A snapshot of block 2 or 3 has this node as one of its own, and the leaf of block 0 was here before it.
            is_own = right is None and (level, index) == (1, 0)
            is_half = (left is None) != (right is None) and not is_own
            if is_half or (left and right and node_hash(left, right) != value):
                found.add(keys.HISTORY, f"node {index} of level {level} is not that of the two below it")
        elif index == 0 and value != leaf_hash(genesis_outcome(genesis).block.hash):
            found.add(keys.HISTORY, "node 0 of level 0 is not that of genesis")


def check_steps_of(
    database: Database, genesis: Genesis, blocks: Range, governance: Governance | None, found: Findings
) -> list[Step]:
    """Check all changes of who signs, from genesis on up to the last block's; returns them."""
    steps: list[Step] = []
    validators, chain_id, height = first_validators(genesis), engine_chain_id(genesis), 0
    for number, (key, stored) in enumerate(database.walk(keys.STEPS)):
        if blocks.has_later and key > keys.encode_height(blocks.last + 1):
            # That of a later block.
            break
        try:
            step = msgspec.json.decode(stored, type=Step)
            if msgspec.json.encode(step) != stored or keys.encode_height(signed_height(step.signed)) != key:
                raise Corrupt("it is not in its one canonical form, or not in its place")
            validators, height = check_steps([step], validators, chain_id, (number, height))
            steps.append(step)
        except (msgspec.MsgspecError, UnicodeDecodeError, InvalidProof, Corrupt) as damage:
            found.add(keys.STEPS, f"change {number} of who signs: {damage}")
            return steps
    if governance is not None:
        behind = governance.set_changes - len(steps)
        # That of one of the latest blocks is signed later; after a crash the node asks CometBFT for it.
        if behind < 0 or (behind == 0 and validators != members_of(governance)):
            found.add(
                keys.STEPS, f"{len(steps)} changes of validators are stored; the state has {governance.set_changes}"
            )
    return steps
