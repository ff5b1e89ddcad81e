"""What CometBFT's mempool may hold: each sender's transactions in a row, and paid for."""

from unittest.mock import ANY

import pytest

from cairn.domain.errors import (
    GasPriceTooLow,
    InsufficientFunds,
    NonceTooHigh,
    NonceTooLow,
    ReplacementUnderpriced,
    UpdateRefused,
)
from cairn.domain.governance import Before, ValidatorRecord, ValidatorUpdate
from cairn.engine.network.overlay import Overlay
from tests.support.transfers import RULES, Accounts, address, transfer

NEW = Before(0, 0, 0, 0)


@pytest.fixture
def state() -> Accounts:
    accounts = Accounts()
    accounts.put(address(1), balance=10**9, nonce=3)
    return accounts


@pytest.fixture
def overlay(state: Accounts) -> Overlay:
    return Overlay(state)


def add(overlay: Overlay, *nonces: int) -> None:
    for nonce in nonces:
        overlay.check(transfer(1, nonce))
        overlay.add(transfer(1, nonce))


def test_takes_only_the_next_nonce(overlay: Overlay) -> None:
    add(overlay, 3, 4)
    with pytest.raises(NonceTooLow, match="nonce is 2; the account's next one is 3"):
        overlay.check(transfer(1, 2))
    with pytest.raises(NonceTooHigh, match="nonce is 6; the sender's next one is 5"):
        overlay.check(transfer(1, 6))
    overlay.check(transfer(1, 5))


def test_checking_alone_changes_nothing(overlay: Overlay) -> None:
    overlay.check(transfer(1, 3))
    with pytest.raises(NonceTooHigh):
        overlay.check(transfer(1, 4))


def test_after_a_commit_it_starts_from_the_confirmed_state(overlay: Overlay, state: Accounts) -> None:
    add(overlay, 3, 4, 5)
    state.put(address(1), 10**9, nonce=5)
    overlay.reset()
    add(overlay, 5, 6)
    with pytest.raises(NonceTooLow):
        overlay.check(transfer(1, 4))


def test_a_replacement_pays_a_tenth_more(overlay: Overlay) -> None:
    add(overlay, 3, 4)
    with pytest.raises(ReplacementUnderpriced):
        overlay.check(transfer(1, 3, gas_price=10, value=2))
    better = transfer(1, 3, gas_price=11)
    overlay.check(better)
    overlay.add(better)
    assert overlay.holds(better)
    assert not overlay.holds(transfer(1, 3))
    assert overlay.holds(transfer(1, 4))
    overlay.check(transfer(1, 5))


def test_the_same_transaction_again_is_no_replacement(overlay: Overlay) -> None:
    add(overlay, 3)
    overlay.check(transfer(1, 3))


def test_the_balance_must_cover_all_transactions_of_a_sender(overlay: Overlay, state: Accounts) -> None:
    cost = transfer(1, 3).cost
    state.put(address(1), balance=2 * cost, nonce=3)
    add(overlay, 3, 4)
    with pytest.raises(InsufficientFunds, match=f"holds {2 * cost}; .* cost {3 * cost}"):
        overlay.check(transfer(1, 5))
    # In place of the old one it is counted once, and it costs more.
    with pytest.raises(InsufficientFunds):
        overlay.check(transfer(1, 4, gas_price=11))


def test_a_replacement_gives_back_what_the_old_one_cost(overlay: Overlay, state: Accounts) -> None:
    first, second = transfer(1, 3, value=500_000), transfer(1, 4)
    better = transfer(1, 3, gas_price=11, value=0)
    state.put(address(1), balance=first.cost + second.cost, nonce=3)
    for tx in (first, second, better):
        overlay.check(tx)
        overlay.add(tx)
    left = first.cost - better.cost
    fee = second.fee
    with pytest.raises(InsufficientFunds):
        overlay.check(transfer(1, 5, value=left - fee + 1))
    overlay.check(transfer(1, 5, value=left - fee))


def test_replacements_in_one_take_free_what_they_replace(overlay: Overlay, state: Accounts) -> None:
    dear, better, last = transfer(1, 3, value=500_000), transfer(1, 3, gas_price=11, value=0), transfer(1, 4)
    state.put(address(1), balance=dear.cost, nonce=3)
    assert overlay.take([dear, last], RULES)[0] == [dear]
    assert overlay.take([better, last, dear, better], RULES) == ([better, last], [(dear, ANY)])
    assert overlay.take([transfer(1, 2)], RULES) == ([], [])


def test_a_branch_does_not_change_its_base(overlay: Overlay) -> None:
    add(overlay, 3)
    trial = overlay.branch()
    better, last = transfer(1, 3, gas_price=11), transfer(1, 4)
    assert trial.take([better, last], RULES)[0] == [better, last]
    assert overlay.holds(transfer(1, 3))
    with pytest.raises(NonceTooHigh, match="the sender's next one is 4"):
        overlay.check(transfer(1, 5))
    overlay.merge(trial)
    assert overlay.holds(better)
    assert overlay.holds(last)
    overlay.check(transfer(1, 5))


def test_transactions_held_before_a_block_are_known_until_the_next_block(overlay: Overlay) -> None:
    add(overlay, 3, 4)
    overlay.reset()
    add(overlay, 3)
    assert [overlay.holds(transfer(1, nonce)) for nonce in (3, 4, 5)] == [True, False, False]
    assert [overlay.held_before(transfer(1, nonce)) for nonce in (3, 4, 5)] == [True, True, False]
    assert not overlay.held_before(transfer(2, 0))
    overlay.reset()
    assert [overlay.held_before(transfer(1, nonce)) for nonce in (3, 4)] == [True, False]
    overlay.clear()
    assert not overlay.held_before(transfer(1, 3))


def test_take_refuses_transactions_that_break_a_rule(overlay: Overlay) -> None:
    cheap = transfer(1, 3, gas_price=9)
    taken, refused = overlay.take([cheap, transfer(1, 3)], RULES)
    assert taken == [transfer(1, 3)]
    assert [(tx, type(refusal)) for tx, refusal in refused] == [(cheap, GasPriceTooLow)]


def test_a_cleared_overlay_holds_nothing(overlay: Overlay) -> None:
    add(overlay, 3, 4)
    overlay.reset()
    add(overlay, 3)
    overlay.clear()
    assert not overlay.holds(transfer(1, 3))
    assert [overlay.held_before(transfer(1, nonce)) for nonce in (3, 4)] == [False, False]
    overlay.check(transfer(1, 3))


def test_an_overlay_holds_only_what_was_added(overlay: Overlay) -> None:
    assert not overlay.holds(transfer(1, 3))
    add(overlay, 3)
    assert not overlay.holds(transfer(1, 2))
    assert not overlay.holds(transfer(1, 4))


def test_one_update_at_a_time(overlay: Overlay) -> None:
    first = ValidatorUpdate(0, ValidatorRecord(b"\x05" * 32, 1, address(9)), NEW)
    overlay.check_update(first)
    overlay.add_update(first)
    overlay.check_update(first)
    with pytest.raises(UpdateRefused):
        overlay.check_update(ValidatorUpdate(0, ValidatorRecord(b"\x05" * 32, 2, address(9)), NEW))
    overlay.reset()
    overlay.check_update(ValidatorUpdate(0, ValidatorRecord(b"\x05" * 32, 2, address(9)), NEW))
