"""The budget for what peers send in vain: how far it goes, how fast it comes back, and when the log tells of it."""

from collections.abc import MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from cairn.engine.network.checks import NOTICE_INTERVAL_S, NOTICED, READ_AT_ONCE, READ_PER_S, Refusals


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def refusals(clock: Clock) -> Refusals:
    return Refusals(clock)


def test_the_budget_is_what_is_read_at_once(refusals: Refusals) -> None:
    refusals.add(READ_AT_ONCE - 1)
    assert not refusals.is_over_budget
    refusals.add(1)
    assert refusals.is_over_budget


def test_one_that_was_not_read_costs_as_much_as_one_signature(refusals: Refusals) -> None:
    refusals.add(READ_AT_ONCE - 1)
    refusals.add(0)
    assert refusals.is_over_budget


def test_what_is_turned_away_costs_nothing(refusals: Refusals) -> None:
    refusals.add(READ_AT_ONCE - 1)
    refusals.add_unread()
    assert not refusals.is_over_budget


def test_the_budget_comes_back_with_time(refusals: Refusals, clock: Clock) -> None:
    refusals.add(READ_AT_ONCE + 2 * READ_PER_S)
    seen = []
    for _ in range(3):
        seen.append(refusals.is_over_budget)
        clock.now += 1
    assert seen == [True, True, True]
    assert not refusals.is_over_budget


def test_what_was_used_up_before_is_counted_with_the_time_since(refusals: Refusals, clock: Clock) -> None:
    refusals.add(READ_AT_ONCE)
    clock.now += 1
    refusals.add(READ_PER_S - 1)
    assert not refusals.is_over_budget
    refusals.add(1)
    assert refusals.is_over_budget


def test_no_more_than_the_whole_budget_comes_back(refusals: Refusals, clock: Clock) -> None:
    clock.now += 1_000
    refusals.add(READ_AT_ONCE)
    assert refusals.is_over_budget


def refuse(refusals: Refusals, count: int) -> list[MutableMapping[str, Any]]:
    with capture_logs() as lines:
        for _ in range(count):
            refusals.add(2)
    return lines


def test_the_log_tells_what_was_refused_since_it_last_did(refusals: Refusals, clock: Clock) -> None:
    assert refuse(refusals, NOTICED - 1) == []
    with capture_logs() as lines:
        refusals.add_unread()
    assert [(line["refused"], line["signatures_read"], line["turned_away_unread"]) for line in lines] == [
        (NOTICED - 1, 2 * (NOTICED - 1), 1)
    ]
    assert refuse(refusals, NOTICED) == []
    clock.now += NOTICE_INTERVAL_S
    (line,) = refuse(refusals, 1)
    assert (line["refused"], line["turned_away_unread"]) == (NOTICED + 1, 0)


@pytest.mark.parametrize(("pause_s", "lines"), [(NOTICE_INTERVAL_S - 0.1, 1), (NOTICE_INTERVAL_S, 0)])
def test_only_many_within_a_while_are_news(refusals: Refusals, clock: Clock, pause_s: float, lines: int) -> None:
    assert refuse(refusals, NOTICED - 1) == []
    clock.now += pause_s
    assert len(refuse(refusals, 1)) == lines
    assert len(refuse(refusals, NOTICED - 1)) == 1 - lines
