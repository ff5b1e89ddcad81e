"""The board on which the core shows its head and its mempool to all workers."""

import os

import pytest

from cairn.board import Board
from cairn.domain.types import Address

ONE = Address(bytes(18) + b"\1\2")
OTHER = Address(bytes(18) + b"\2\1")
IN_THE_SLOT_OF_ONE = Address(b"\7" * 18 + b"\1\2")


def test_a_new_board_is_closed_and_shows_nothing() -> None:
    board = Board()
    assert (board.generation % 2, board.head, board.counts) == (0, -1, (0, 0))
    assert (board.holds(ONE), board.changes_of(ONE)) == (False, 0)


def test_each_opening_has_a_generation_of_its_own_which_is_odd() -> None:
    board, seen = Board(), list[int]()
    for _ in range(3):
        board.begin()
        assert board.generation % 2 == 0
        board.open()
        seen.append(board.generation)
    # The last one was killed while it was opened.
    board.open()
    seen.append(board.generation)
    assert all(generation % 2 for generation in seen)
    assert len(set(seen)) == len(seen)


def test_closing_twice_is_closing_once() -> None:
    board = Board()
    board.open()
    board.close()
    closed = board.generation
    board.close()
    assert board.generation == closed == 2


def test_a_transaction_is_held_until_it_goes_and_each_change_has_a_number_of_its_own() -> None:
    board = Board()
    numbers = [board.changes_of(ONE)]
    for more, is_held in ((1, True), (1, True), (0, True), (-1, True), (-1, False)):
        board.note(ONE, more)
        numbers.append(board.changes_of(ONE))
        assert board.holds(ONE) is is_held
    assert len(set(numbers)) == len(numbers)
    assert (board.holds(OTHER), board.changes_of(OTHER)) == (False, 0)


def test_who_shares_a_slot_counts_as_having_changed_too() -> None:
    board = Board()
    board.note(IN_THE_SLOT_OF_ONE, 1)
    assert board.holds(ONE), "whoever asks the core learns that it holds none"
    assert board.changes_of(ONE) == 1
    board.note(ONE, 1)
    board.note(IN_THE_SLOT_OF_ONE, -1)
    assert board.holds(ONE)


@pytest.mark.parametrize("was_open", [True, False])
def test_what_a_killed_core_held_is_gone_and_its_numbers_do_not_come_back(was_open: bool) -> None:
    board = Board()
    board.begin()
    if was_open:
        board.open()
    board.note(ONE, 3)
    board.show_counts(2, 1)
    board.show_head(7)
    board.begin()
    assert (board.holds(ONE), board.counts) == (False, (0, 0))
    assert (board.changes_of(ONE), board.head) == (1, 7)


@pytest.mark.parametrize("counts", [(0, 1), (1, 0), (100_000, 99_999), (2**32 - 1, 2**32 - 1)])
def test_both_counts_are_one_number(counts: tuple[int, int]) -> None:
    board = Board()
    board.show_counts(*counts)
    assert board.counts == counts


def test_every_process_sees_what_another_one_writes() -> None:
    board = Board()
    child = os.fork()
    if child == 0:
        board.show_head(41)
        board.note(ONE, 1)
        board.open()
        os._exit(0)
    os.waitpid(child, 0)
    assert (board.head, board.holds(ONE), board.generation) == (41, True, 1)
