"""The state root: it depends on the state alone, not on the way there."""

from array import array

import pytest
from blake3 import blake3

from cairn.domain import lattice as lattices
from cairn.domain.crypto import keccak256
from cairn.domain.lattice import RECENT_VECTORS, SUM_SIZE, Lattice
from cairn.domain.types import EMPTY_ACCOUNT, MAX_UINT64, MAX_UINT256, Account, Address

ALICE, BOB = Address(b"\x01" * 20), Address(b"\x02" * 20)


def test_the_empty_state_is_all_zero() -> None:
    assert Lattice.empty().sum == bytes(SUM_SIZE)
    assert Lattice.empty().root == keccak256(bytes(2048))


def test_no_change_changes_nothing() -> None:
    lattice = Lattice.empty().updated([(ALICE, EMPTY_ACCOUNT, Account(5, 1))])
    assert lattice.updated([]) == lattice
    assert lattice.updated([(ALICE, Account(5, 1), Account(5, 1))]) == lattice


def test_an_empty_account_is_no_part_of_the_state() -> None:
    assert Lattice.empty().updated([(ALICE, EMPTY_ACCOUNT, EMPTY_ACCOUNT)]) == Lattice.empty()
    full = Lattice.empty().updated([(ALICE, EMPTY_ACCOUNT, Account(5, 0))])
    assert full.updated([(ALICE, Account(5, 0), EMPTY_ACCOUNT)]) == Lattice.empty()


def test_the_way_to_a_state_has_no_part_in_it() -> None:
    one, two = Account(5, 1), Account(MAX_UINT256, MAX_UINT64)
    together = Lattice.empty().updated([(ALICE, EMPTY_ACCOUNT, one), (BOB, EMPTY_ACCOUNT, two)])
    swapped = Lattice.empty().updated([(BOB, EMPTY_ACCOUNT, two), (ALICE, EMPTY_ACCOUNT, one)])
    detour = Lattice.empty().updated([(ALICE, EMPTY_ACCOUNT, two)]).updated([(BOB, EMPTY_ACCOUNT, two)])
    assert together == swapped == detour.updated([(ALICE, two, one)])


@pytest.mark.parametrize("fold_every", [2, 3, 7])
def test_sums_of_more_vectors_than_fit_are_folded(monkeypatch: pytest.MonkeyPatch, fold_every: int) -> None:
    accounts = [(Address(bytes([number]) * 20), Account(number, number)) for number in range(1, 30)]
    one_by_one = Lattice.empty()
    for account in accounts:
        one_by_one = one_by_one.with_accounts([account])
    monkeypatch.setattr("cairn.domain.lattice._FOLD_EVERY", fold_every)
    assert Lattice.empty().with_accounts(accounts) == one_by_one


def test_every_part_of_an_account_counts() -> None:
    roots = {
        Lattice.empty().updated([(at, EMPTY_ACCOUNT, account)]).root
        for at, account in [
            (ALICE, Account(1, 0)),
            (BOB, Account(1, 0)),
            (ALICE, Account(2, 0)),
            (ALICE, Account(1, 1)),
        ]
    }
    assert len(roots) == 4


def test_equal_vectors_do_not_cancel_out() -> None:
    # Lanes add; with exclusive-or the same account twice would vanish.
    once = Lattice.empty().updated([(ALICE, EMPTY_ACCOUNT, Account(1, 0))])
    assert once.updated([(ALICE, EMPTY_ACCOUNT, Account(1, 0))]) not in (Lattice.empty(), once)


def test_more_vectors_than_a_lane_can_add_at_once() -> None:
    # One vector has lanes close to 2^16, so adding it this often passes 2^32 in them.
    count = 70_000
    vector = array("H", blake3(ALICE + (1).to_bytes(32, "big") + bytes(8)).digest(length=SUM_SIZE))
    expected = b"".join((lane * count % 65_536).to_bytes(2, "little") for lane in vector)
    lattice = Lattice.empty().updated((ALICE, EMPTY_ACCOUNT, Account(1)) for _ in range(count))
    assert lattice.sum == expected
    assert lattice.updated((ALICE, Account(1), EMPTY_ACCOUNT) for _ in range(count)) == Lattice.empty()


def test_a_whole_state_is_summed_like_its_changes() -> None:
    accounts = [(Address(bytes([number]) * 20), Account(number, number % 2)) for number in range(5)]
    changes = [(address, EMPTY_ACCOUNT, account) for address, account in accounts]
    halves = Lattice.empty().with_accounts(accounts[:2]).with_accounts(accounts[2:])
    assert halves == Lattice.empty().updated(changes)


def test_accounts_that_change_again_and_again_are_hashed_once_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[bytes] = []

    def counting(data: bytes) -> object:
        hashed.append(data)
        return blake3(data)

    monkeypatch.setattr(lattices, "blake3", counting)
    addresses = [Address(number.to_bytes(20, "big")) for number in range(RECENT_VECTORS)]
    lattice = Lattice.empty().updated((address, EMPTY_ACCOUNT, Account(7, 1)) for address in addresses)
    for nonce in (2, 3):
        hashed.clear()
        lattice = lattice.updated((address, Account(7, nonce - 1), Account(7, nonce)) for address in addresses)
        assert len(hashed) == RECENT_VECTORS
    assert len(lattices._recent_vectors) == RECENT_VECTORS
