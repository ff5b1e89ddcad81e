"""The tree over all accounts, compared with one that is built anew from its definition after every block."""

import hashlib
import random

import pytest

from cairn.domain.merkle import EMPTY_ROOT, verify_inclusion
from cairn.domain.state_tree import (
    AccountChange,
    Place,
    StateTree,
    StateUpdate,
    change_leaf,
    read_change_leaf,
    read_state_leaf,
    record_leaf,
    state_leaf,
    update_state,
)
from cairn.domain.types import EMPTY_ACCOUNT, Account, Address


def address(number: int) -> Address:
    return Address(number.to_bytes(20, "big"))


class Accounts:
    """Accounts and places in dicts; the order of addresses is found by sorting."""

    def __init__(self, kept: int = 0) -> None:
        self.accounts: dict[Address, Account] = {}
        self.places: dict[Address, Place] = {}
        self.tree = StateTree.from_leaves(b"", kept)
        self.height = 0
        self.take(update_state(self.tree, self, 0, [], record_leaf(None)), {})

    def account(self, address: Address) -> Account:
        return self.accounts.get(address, EMPTY_ACCOUNT)

    def place(self, address: Address) -> Place | None:
        return self.places.get(address)

    def find_below(self, address: Address) -> Address | None:
        below = [other for other in self.places if other < address]
        return max(below or self.places, default=None)

    def touch(self, *touched: tuple[Address, Account]) -> StateUpdate:
        self.height += 1
        changes: list[AccountChange] = [(each, self.account(each), after) for each, after in touched]
        update = update_state(self.tree, self, self.height, changes)
        self.take(update, dict(touched))
        return update

    def take(self, update: StateUpdate, accounts: dict[Address, Account]) -> None:
        self.tree.apply(update.tree)
        assert self.tree.root == update.tree.root
        self.accounts |= accounts
        self.places |= update.places | update.relinked

    def leaves(self) -> list[bytes]:
        """All leaves by the definition: by number, each with the next address of the sorted ones."""
        ordered = sorted(self.places)
        leaves = [record_leaf(None)] + [b""] * len(ordered)
        for at, each in enumerate(ordered):
            account, place = self.account(each), self.places[each]
            numbers = account.nonce.to_bytes(8, "big") + place.touched.to_bytes(8, "big")
            following = ordered[(at + 1) % len(ordered)]
            leaves[place.number] = each + account.balance.to_bytes(32, "big") + numbers + following
        return leaves


def naive_root(leaves: list[bytes]) -> bytes:
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    middle = 1 << ((len(leaves) - 1).bit_length() - 1)
    return hashlib.sha256(b"\1" + naive_root(leaves[:middle]) + naive_root(leaves[middle:])).digest()


@pytest.mark.parametrize("seed", range(20))
def test_the_root_after_random_blocks_is_that_of_a_tree_built_anew(seed: int) -> None:
    rng, accounts = random.Random(seed), Accounts()
    for _ in range(30):
        chosen = rng.sample(range(60), rng.randint(0, 8))
        accounts.touch(*((address(number), Account(rng.randint(0, 5), rng.randint(0, 3))) for number in chosen))
        assert accounts.tree.root == naive_root(accounts.leaves())
        assert accounts.tree.levels == StateTree.from_leaves(bytes(accounts.tree.levels[0])).levels


def test_new_accounts_of_a_block_are_numbered_in_the_order_of_addresses() -> None:
    accounts = Accounts()
    accounts.touch((address(9), Account(1)), (address(3), Account(1)))
    accounts.touch((address(5), Account(1)), (address(1), Account(1)))
    assert {each[-1]: place.number for each, place in accounts.places.items()} == {3: 1, 9: 2, 1: 3, 5: 4}


def test_an_account_that_becomes_empty_stays_in_its_place() -> None:
    accounts = Accounts()
    accounts.touch((address(1), Account(5)))
    accounts.touch((address(1), EMPTY_ACCOUNT))
    assert accounts.places[address(1)] == Place(1, 2, address(1))
    assert accounts.tree.size == 2


@pytest.mark.parametrize("back", [0, 1, 2, 3])
def test_the_paths_of_the_latest_kept_trees_lead_to_their_roots(back: int) -> None:
    rng, accounts = random.Random(back), Accounts(kept=3)
    past: list[tuple[bytes, list[bytes]]] = []
    for _ in range(25):
        chosen = rng.sample(range(40), 4)
        accounts.touch(*((address(number), Account(rng.randint(0, 9))) for number in chosen))
        past.append((accounts.tree.root, accounts.leaves()))
        root, leaves = past[max(-1 - back, -len(past))]
        for number, leaf in enumerate(leaves):
            path = accounts.tree.find_path(number, root)
            assert path is not None
            assert path.size == len(leaves)
            assert verify_inclusion(leaf, number, path.size, path.siblings, root)


def test_the_path_in_a_tree_that_is_not_kept_is_none() -> None:
    accounts = Accounts(kept=1)
    first = accounts.tree.root
    accounts.touch((address(1), Account(1)))
    assert accounts.tree.find_path(0, first) is not None
    accounts.touch((address(2), Account(1)))
    assert accounts.tree.find_path(0, first) is None


def test_a_block_that_touches_nothing_has_the_empty_changes_root_and_changes_no_node() -> None:
    accounts = Accounts()
    before = accounts.tree.root
    assert accounts.touch().changes_root == EMPTY_ROOT
    assert accounts.tree.root == before


def test_a_touched_account_names_the_block_that_touched_it_before() -> None:
    accounts = Accounts()
    one = accounts.touch((address(1), Account(5)))
    two = accounts.touch((address(1), Account(5, 1)))
    first = change_leaf(address(1), None, EMPTY_ACCOUNT, Account(5))
    second = change_leaf(address(1), 1, Account(5), Account(5, 1))
    assert verify_inclusion(first, 0, 1, [], one.changes_root)
    assert verify_inclusion(second, 0, 1, [], two.changes_root)


def test_leaves_are_read_as_they_were_written() -> None:
    leaf = state_leaf(address(1), Account(2**200, 7), Place(3, 4, address(9)))
    read = read_state_leaf(leaf)
    assert (read.address, read.account, read.touched, read.next) == (address(1), Account(2**200, 7), 4, address(9))
    assert len(leaf) == 88
    change = read_change_leaf(change_leaf(address(1), None, EMPTY_ACCOUNT, Account(1, 2)))
    assert (change.touched_before, change.before, change.after) == (None, EMPTY_ACCOUNT, Account(1, 2))
    with pytest.raises(ValueError, match="88 bytes, not 87"):
        read_state_leaf(leaf[:-1])
    with pytest.raises(ValueError, match="108 bytes, not 88"):
        read_change_leaf(leaf)


@pytest.mark.parametrize(
    ("own", "following", "asked", "is_skipped"),
    [(1, 5, 3, True), (1, 5, 5, False), (1, 5, 1, False), (1, 5, 7, False), (5, 1, 7, True), (5, 1, 0, True)]
    + [(5, 1, 3, False), (5, 5, 5, False), (5, 5, 4, True), (5, 5, 6, True), (5, 1, 1, False)],
)
def test_a_leaf_shows_that_there_is_none_between_its_address_and_the_next(
    own: int, following: int, asked: int, is_skipped: bool
) -> None:
    leaf = read_state_leaf(state_leaf(address(own), Account(1), Place(1, 1, address(following))))
    assert leaf.skips(address(asked)) is is_skipped
