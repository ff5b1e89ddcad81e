"""The leaves of a whole state, gathered from its accounts: at a start without a file of them, and for snapshots."""

from array import array
from collections.abc import Callable

from cairn.domain.errors import Corrupt
from cairn.domain.merkle import NODE_BYTES, leaf_hash, node_hash
from cairn.domain.state_tree import RECORD_NUMBER, Place, state_leaf
from cairn.domain.types import Account, Address

SLICE_NODES = 256
"""Nodes that are hashed between two pauses: some tenths of a millisecond of work."""


class StateLeaves:
    """Takes every account in the order of addresses, and gives their leaf hashes in the order of their numbers."""

    def __init__(self) -> None:
        self._numbers = array("Q")
        self._hashes = bytearray()
        """As the numbers are, in the order of addresses."""
        self._first: Address | None = None
        self._last: tuple[Address, Account, int, int] | None = None
        """The account whose next one is not known yet."""

    def add(self, address: Address, account: Account, number: int, touched: int) -> None:
        """`touched` is the height of the newest block that touched it."""
        if self._last is None:
            self._first = address
        else:
            self._hash_last(address)
        self._last = address, account, number, touched

    @property
    def count(self) -> int:
        """How many accounts there are."""
        return len(self._numbers) + (self._last is not None)

    def in_order(self, record: bytes) -> bytearray:
        """All leaf hashes by number, that of the record first; no account may follow. Raises `Corrupt`."""
        if self._first is not None:
            self._hash_last(self._first)
            self._first = self._last = None
        leaves = bytearray(NODE_BYTES * (len(self._numbers) + 1))
        leaves[:NODE_BYTES] = leaf_hash(record)
        is_set = bytearray(len(self._numbers) + 1)
        is_set[RECORD_NUMBER] = 1
        for at, number in enumerate(self._numbers):
            if number >= len(is_set) or is_set[number]:
                raise Corrupt(f"{len(self._numbers)} accounts have other numbers than 1 to {len(self._numbers)}")
            is_set[number] = 1
            start = number * NODE_BYTES
            leaves[start : start + NODE_BYTES] = self._hashes[at * NODE_BYTES : (at + 1) * NODE_BYTES]
        return leaves

    def _hash_last(self, following: Address) -> None:
        assert self._last is not None
        address, account, number, touched = self._last
        self._numbers.append(number)
        self._hashes += leaf_hash(state_leaf(address, account, Place(number, touched, following)))


def root_in_slices(leaves: bytearray, pause: Callable[[], None]) -> bytes:
    """The root over leaf hashes, computed beside other work; at least one leaf."""
    level = leaves
    while len(level) > NODE_BYTES:
        above = bytearray()
        for start in range(0, len(level), 2 * NODE_BYTES * SLICE_NODES):
            pause()
            part = level[start : start + 2 * NODE_BYTES * SLICE_NODES]
            for at in range(0, len(part) - NODE_BYTES, 2 * NODE_BYTES):
                above += node_hash(part[at : at + NODE_BYTES], part[at + NODE_BYTES : at + 2 * NODE_BYTES])
            if len(part) // NODE_BYTES % 2:
                above += part[-NODE_BYTES:]
        level = above
    return bytes(level)
