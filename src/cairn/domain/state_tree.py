"""The tree over all accounts, whose root is a header's state root, and the accounts that one block touches.

    record (number 0)    keccak-256 of the governance record; of nothing on a chain without validators
    account              address 20 | balance 32 | nonce 8 | height of the last touch 8 | next address 20
    touched account      address 20 | touched before 8 | balance before 32 | nonce before 8 | balance 32 | nonce 8

Numbers are big-endian; a height of 2^64-1 means that no block touched it before.

Accounts are leaves in the order of their creation, from number 1 on, and never leave. `next` is the next higher address
that exists; of the highest it is the lowest. So one leaf proves what an account holds, or that there is none between
two addresses. A block touches an account when a transaction names it or its balance changes.
"""

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from hashlib import sha256
from struct import Struct
from typing import Protocol, Self

import msgspec

from cairn.domain.crypto import keccak256
from cairn.domain.merkle import LEAF_PREFIX, NODE_BYTES, NODE_PREFIX, leaf_hash, root_steps
from cairn.domain.steps import Steps, finish, in_groups
from cairn.domain.types import EMPTY_ACCOUNT, MAX_UINT64, Account, Address

RECORD_NUMBER = 0
NEVER_TOUCHED = MAX_UINT64

_STATE_LEAF = Struct(">20s32sQQ20s")
_CHANGE_LEAF = Struct(">20sQ32sQ32sQ")
_hashed_state = Struct(">c20s32sQQ20s").pack
_hashed_change = Struct(">c20sQ32sQ32sQ").pack
put_node = Struct(f"{NODE_BYTES}s").pack_into
STATE_LEAF_BYTES = _STATE_LEAF.size
CHANGE_LEAF_BYTES = _CHANGE_LEAF.size

AccountChange = tuple[Address, Account, Account]
"""An account that a block touches, before and after it."""


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where an account is in the tree, and what its leaf says besides what it holds."""

    number: int
    touched: int
    """Height of the newest block that touched it."""
    next: Address


class StateLeaf(msgspec.Struct, frozen=True):
    """A leaf of the state tree, read."""

    address: Address
    account: Account
    touched: int
    next: Address

    def skips(self, address: Address) -> bool:
        """Whether it shows that there is no account at `address`."""
        if self.address < self.next:
            return self.address < address < self.next
        return address > self.address or address < self.next


class ChangeLeaf(msgspec.Struct, frozen=True):
    """A leaf of the tree of touched accounts, read."""

    address: Address
    touched_before: int | None
    before: Account
    after: Account


def state_leaf(address: Address, account: Account, place: Place) -> bytes:
    balance = account.balance.to_bytes(32, "big")
    return _STATE_LEAF.pack(address, balance, account.nonce, place.touched, place.next)


def read_state_leaf(leaf: bytes) -> StateLeaf:
    """The leaf of an account. Raises `ValueError`."""
    if len(leaf) != STATE_LEAF_BYTES:
        raise ValueError(f"a leaf of the state has {STATE_LEAF_BYTES} bytes, not {len(leaf)}")
    address, balance, nonce, touched, following = _STATE_LEAF.unpack(leaf)
    return StateLeaf(Address(address), Account(int.from_bytes(balance, "big"), nonce), touched, Address(following))


def change_leaf(address: Address, touched_before: int | None, before: Account, after: Account) -> bytes:
    return _CHANGE_LEAF.pack(
        address,
        NEVER_TOUCHED if touched_before is None else touched_before,
        before.balance.to_bytes(32, "big"),
        before.nonce,
        after.balance.to_bytes(32, "big"),
        after.nonce,
    )


def read_change_leaf(leaf: bytes) -> ChangeLeaf:
    """The leaf of a touched account. Raises `ValueError`."""
    if len(leaf) != CHANGE_LEAF_BYTES:
        raise ValueError(f"a leaf of a touched account has {CHANGE_LEAF_BYTES} bytes, not {len(leaf)}")
    address, touched, balance_before, nonce_before, balance, nonce = _CHANGE_LEAF.unpack(leaf)
    return ChangeLeaf(
        Address(address),
        None if touched == NEVER_TOUCHED else touched,
        Account(int.from_bytes(balance_before, "big"), nonce_before),
        Account(int.from_bytes(balance, "big"), nonce),
    )


def record_leaf(governance: bytes | None) -> bytes:
    """The leaf of number 0: of the governance's canonical bytes, or of a chain that has none."""
    return keccak256(governance or b"")


class TreeUpdate(msgspec.Struct, frozen=True):
    """New nodes of a tree, which are not in it yet."""

    size: int
    root: bytes
    levels: list[dict[int, bytes]]
    """By index, lowest level first; the lowest are leaf hashes."""


class _Replaced(msgspec.Struct, frozen=True):
    """The nodes that an update replaced, so that the tree before it can still be read."""

    root: bytes
    size: int
    levels: list[tuple["array[int]", bytes]]
    """By level: ascending indexes, and as many nodes."""

    def find(self, level: int, index: int) -> bytes | None:
        if level >= len(self.levels):
            return None
        indexes, nodes = self.levels[level]
        at = bisect_left(indexes, index)
        if at == len(indexes) or indexes[at] != index:
            return None
        return nodes[at * NODE_BYTES : (at + 1) * NODE_BYTES]


class LeafPath(msgspec.Struct, frozen=True):
    """Where a leaf is, and the siblings up to the root, lowest first."""

    number: int
    size: int
    siblings: list[bytes]


class StateTree:
    """All nodes, level by level from the leaf hashes up, 32 bytes each: 64 bytes an account, and no objects."""

    def __init__(self, levels: list[bytearray], kept: int = 0) -> None:
        """The trees before the latest `kept` updates can still be read."""
        self.levels = levels
        self._replaced: deque[_Replaced] = deque(maxlen=kept)

    @classmethod
    def from_leaves(cls, leaves: bytes | bytearray, kept: int = 0) -> Self:
        """The tree over leaf hashes, one after the other."""
        levels = [bytearray(leaves)]
        while len(low := levels[-1]) > NODE_BYTES:
            above = bytearray()
            for at in range(0, len(low) - NODE_BYTES, 2 * NODE_BYTES):
                above += sha256(NODE_PREFIX + low[at : at + 2 * NODE_BYTES]).digest()
            if len(low) // NODE_BYTES % 2:
                above += low[-NODE_BYTES:]
            levels.append(above)
        return cls(levels, kept)

    @property
    def size(self) -> int:
        return len(self.levels[0]) // NODE_BYTES

    @property
    def root(self) -> bytes:
        return bytes(self.levels[-1])

    def updated(self, leaves: dict[int, bytes]) -> TreeUpdate:
        """What the tree becomes with these leaf hashes, some of which may be new: the next numbers then."""
        return finish(self.updated_steps(leaves))

    def updated_steps(self, leaves: dict[int, bytes]) -> Steps[TreeUpdate]:
        """As `updated`. The tree must not change between two steps."""
        width = size = max(self.size, max(leaves, default=0) + 1)
        levels, new = [leaves], leaves
        while width > 1:
            low = self.levels[len(levels) - 1] if len(levels) <= len(self.levels) else b""
            last, above = width - 1, {}
            # All of a block's paths together: what two of them share is hashed once.
            for group in in_groups(list({index >> 1 for index in new})):
                for parent in group:
                    left = 2 * parent
                    at = left * NODE_BYTES
                    node = new.get(left) or low[at : at + NODE_BYTES]
                    if left == last:
                        above[parent] = bytes(node)
                        continue
                    right = new.get(left + 1) or low[at + NODE_BYTES : at + 2 * NODE_BYTES]
                    above[parent] = sha256(NODE_PREFIX + node + right).digest()
                yield
            levels.append(above)
            width, new = (width + 1) >> 1, above
        return TreeUpdate(size, new.get(0) or self.root, levels)

    def apply(self, update: TreeUpdate) -> None:
        """Take the new nodes in. The block that they belong to must be on disk."""
        if self._replaced.maxlen:
            self._replaced.append(self._what_changes(update))
        width = update.size
        for number, nodes in enumerate(update.levels):
            if number == len(self.levels):
                self.levels.append(bytearray())
            level = self.levels[number]
            level.extend(bytes(width * NODE_BYTES - len(level)))
            for index, node in nodes.items():
                # A third of the time that a slice takes.
                put_node(level, index * NODE_BYTES, node)
            width = (width + 1) >> 1

    def find_path(self, number: int, root: bytes) -> LeafPath | None:
        """The path of a leaf in the tree with this root; None unless that is the latest, or one before that is kept."""
        later: list[_Replaced] = []
        size = self.size
        if root != self.root:
            kept = list(self._replaced)
            found = next((at for at in reversed(range(len(kept))) if kept[at].root == root), None)
            if found is None:
                return None
            later, size = kept[found:], kept[found].size
        width, index, level, siblings = size, number, 0, []
        while width > 1:
            if (sibling := index ^ 1) < width:
                siblings.append(self._node(level, sibling, later))
            width, index, level = (width + 1) >> 1, index >> 1, level + 1
        return LeafPath(number, size, siblings)

    def _node(self, level: int, index: int, later: Sequence[_Replaced]) -> bytes:
        for replaced in later:
            if (node := replaced.find(level, index)) is not None:
                return node
        return bytes(self.levels[level][index * NODE_BYTES : (index + 1) * NODE_BYTES])

    def _what_changes(self, update: TreeUpdate) -> _Replaced:
        levels = []
        for level, nodes in zip(self.levels, update.levels, strict=False):
            indexes = array("I", sorted(index for index in nodes if index * NODE_BYTES < len(level)))
            old = b"".join(level[index * NODE_BYTES : (index + 1) * NODE_BYTES] for index in indexes)
            levels.append((indexes, old))
        return _Replaced(self.root, self.size, levels)


class StateView(Protocol):
    """The accounts that a block is applied to."""

    def account(self, address: Address) -> Account:
        """The account at `address`; an empty one if there is none."""


class AccountPlaces(StateView, Protocol):
    """The accounts, and their places in the tree."""

    def place(self, address: Address) -> Place | None:
        """None if there is no such account."""

    def find_below(self, address: Address) -> Address | None:
        """The highest address of an account below this one; the highest of all if there is none; None in no state."""


class StateUpdate(msgspec.Struct, frozen=True):
    """What a block does to the tree of accounts, and the tree of those that it touches. Nothing of it is kept yet."""

    tree: TreeUpdate
    changes_root: bytes
    change_leaves: list[bytes]
    """Leaf hashes of the touched accounts, in the order of addresses."""
    places: dict[Address, Place]
    """The new places of the touched accounts, in the order of addresses."""
    relinked: dict[Address, Place]
    """The new places of those that are not touched, and come before a new one now."""


def update_state(
    tree: StateTree, state: AccountPlaces, height: int, touched: Sequence[AccountChange], record: bytes | None = None
) -> StateUpdate:
    """Apply what a block at `height` touches; `record` is the new leaf of number 0, if that changes."""
    return finish(update_steps(tree, state, height, touched, record))


def update_steps(
    tree: StateTree, state: AccountPlaces, height: int, touched: Sequence[AccountChange], record: bytes | None = None
) -> Steps[StateUpdate]:
    """As `update_state`. The state must not change between two steps."""
    changes = sorted(touched)
    yield
    known: list[Place | None] = []
    place_of = state.place
    for group in in_groups(changes):
        known += [place_of(address) for address, _, _ in group]
        yield
    new_ones = [change[0] for change, place in zip(changes, known, strict=True) if place is None]
    links = yield from _link(state, new_ones)
    number = max(tree.size, RECORD_NUMBER + 1)
    leaves: dict[int, bytes] = {} if record is None else {RECORD_NUMBER: leaf_hash(record)}
    places: dict[Address, Place] = {}
    change_leaves = []
    before_it = iter(known)
    for group in in_groups(changes):
        # The changes first: a place that nothing is paired with would be lost.
        for (address, before, after), place in zip(group, before_it, strict=False):
            if place is None:
                new, last = Place(number, height, links[address]), NEVER_TOUCHED
                number += 1
            else:
                following = links.get(address) or place.next if links else place.next
                new, last = Place(place.number, height, following), place.touched
            places[address] = new
            balance, nonce = after.balance.to_bytes(32, "big"), after.nonce
            leaves[new.number] = sha256(_hashed_state(LEAF_PREFIX, address, balance, nonce, height, new.next)).digest()
            change_leaves.append(
                sha256(
                    _hashed_change(
                        LEAF_PREFIX, address, last, before.balance.to_bytes(32, "big"), before.nonce, balance, nonce
                    )
                ).digest()
            )
        yield
    relinked: dict[Address, Place] = {}
    for group_before in in_groups(list(links.keys() - places.keys())):
        for address in group_before:
            place = place_of(address)
            assert place is not None
            relinked[address] = new = Place(place.number, place.touched, links[address])
            leaves[new.number] = leaf_hash(state_leaf(address, state.account(address), new))
        yield
    updated = yield from tree.updated_steps(leaves)
    changes_root = yield from root_steps(change_leaves)
    return StateUpdate(updated, changes_root, change_leaves, places, relinked)


def _link(state: AccountPlaces, new: Sequence[Address]) -> Steps[dict[Address, Address]]:
    """The next address of each new account, and of each that comes before one; `new` ascends."""
    links: dict[Address, Address] = {}
    last: Address | None = None
    for address in new:
        below = state.find_below(address)
        if last is not None and (below is None or below > address or below < last):
            below = last
        if below is None:
            links[address] = address
        else:
            links[address] = links.get(below) or _next_of(state, below)
            links[below] = address
        last = address
        # Each is a seek.
        yield
    return links


def _next_of(state: AccountPlaces, address: Address) -> Address:
    place = state.place(address)
    assert place is not None, f"0x{address.hex()} is in the order of accounts, and has no place"
    return place.next


class NoAccounts:
    """The state before genesis."""

    def account(self, address: Address) -> Account:
        return EMPTY_ACCOUNT

    def place(self, address: Address) -> Place | None:
        return None

    def find_below(self, address: Address) -> Address | None:
        return None


def leaves_in_order(accounts: Mapping[Address, tuple[Account, Place]], record: bytes) -> bytes:
    """The leaf hashes of a whole state, for `StateTree.from_leaves`."""
    leaves = bytearray(NODE_BYTES * (len(accounts) + 1))
    leaves[:NODE_BYTES] = leaf_hash(record)
    for address, (account, place) in accounts.items():
        at = place.number * NODE_BYTES
        leaves[at : at + NODE_BYTES] = leaf_hash(state_leaf(address, account, place))
    return bytes(leaves)
