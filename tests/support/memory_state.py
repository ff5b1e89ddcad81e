"""A state in memory that blocks are applied to, and the naive trees that the domain's are compared with."""

import hashlib
from bisect import bisect_left
from collections.abc import Sequence

from cairn.domain.history import History
from cairn.domain.merkle import EMPTY_ROOT
from cairn.domain.state_tree import Place, StateTree, StateUpdate, leaves_in_order, record_leaf
from cairn.domain.transition import BlockOutcome
from cairn.domain.types import EMPTY_ACCOUNT, Account, Address


class MemoryState:
    """Accounts with their places, as `build_block` needs them."""

    def __init__(self, *outcomes: BlockOutcome) -> None:
        """After these blocks, from genesis on."""
        self.accounts: dict[Address, Account] = {}
        self.places: dict[Address, Place] = {}
        self.tree = StateTree.from_leaves(b"")
        self.history = History()
        for outcome in outcomes:
            self.apply(outcome)

    def account(self, address: Address) -> Account:
        return self.accounts.get(address, EMPTY_ACCOUNT)

    def place(self, address: Address) -> Place | None:
        return self.places.get(address)

    def find_below(self, address: Address) -> Address | None:
        ordered = sorted(self.places)
        return ordered[bisect_left(ordered, address) - 1] if ordered else None

    def apply(self, outcome: BlockOutcome) -> None:
        self.take(outcome.accounts, outcome.state)
        self.history = outcome.history

    def take(self, accounts: dict[Address, Account], update: StateUpdate) -> None:
        self.accounts.update(accounts)
        self.places |= update.places | update.relinked
        self.tree.apply(update.tree)


def naive_root(leaves: Sequence[bytes]) -> bytes:
    """The root over data, as RFC 6962 defines it: from the top."""
    return _naive_root(leaves) if leaves else EMPTY_ROOT


def _naive_root(leaves: Sequence[bytes]) -> bytes:
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    middle = 1
    while 2 * middle < len(leaves):
        middle *= 2
    return hashlib.sha256(b"\1" + _naive_root(leaves[:middle]) + _naive_root(leaves[middle:])).digest()


def naive_state_root(state: MemoryState, governance: bytes | None = None) -> bytes:
    """The root over all accounts, with the next addresses found anew."""
    ordered = sorted(state.places)
    leaves = [record_leaf(governance)] + [b""] * len(ordered)
    for at, address in enumerate(ordered):
        account, place = state.account(address), state.places[address]
        following = ordered[(at + 1) % len(ordered)]
        numbers = account.nonce.to_bytes(8, "big") + place.touched.to_bytes(8, "big")
        leaves[place.number] = address + account.balance.to_bytes(32, "big") + numbers + following
    return naive_root(leaves)


def tree_from_scratch(state: MemoryState, governance: bytes | None = None) -> StateTree:
    accounts = {address: (state.account(address), place) for address, place in state.places.items()}
    return StateTree.from_leaves(leaves_in_order(accounts, record_leaf(governance)))
