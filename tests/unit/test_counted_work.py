"""What the node does for each of its ways, counted, against the baseline in tests/support/counted_work.json.

After a change that is worth its cost, and after one that saves much, `make baseline` writes it anew.
"""

import pytest

from tests.support.counted_work import (
    SYSTEM_CALLS,
    WAYS_ALONE,
    Counts,
    count_system_calls,
    count_ways,
    python_version,
    read_baseline,
)
from tests.support.programs import need_program
from tests.support.untold import untold_slowness

MOST = 1.05
LEAST = 0.8
"""Below it the baseline would let much come back unnoticed."""
SLACK = 1
"""System calls of some ways are so few that one more is above the bound, and whether one is made may be a race."""


@pytest.fixture(scope="module")
def baseline() -> dict[str, Counts]:
    found = read_baseline().get(python_version())
    if found is None:
        pytest.skip(f"no baseline of Python {python_version()} here: run `make baseline`")
    return found


def test_each_way_takes_about_as_many_calls_instructions_and_allocations_as_before(
    baseline: dict[str, Counts],
) -> None:
    # Where the disk is busy, a slow sync and the request that waits for it would be logged, which is work, too.
    with untold_slowness():
        counted = count_ways()
    assert set(counted) == set(baseline)
    assert [found for kind in WAYS_ALONE for found in outside(counted, baseline, kind)] == []


def test_each_way_takes_about_as_many_system_calls_as_before(baseline: dict[str, Counts]) -> None:
    counted = count_system_calls(need_program("strace"))
    assert outside(counted, baseline, SYSTEM_CALLS, SLACK) == []


@pytest.mark.parametrize(("number", "is_told"), [(100, False), (105, False), (106, True), (80, False), (79, True)])
def test_more_than_five_percent_more_or_twenty_less_is_told(number: int, is_told: bool) -> None:
    told = outside({"a way": {"bytecodes": number}}, {"a way": {"bytecodes": 100}}, "bytecodes")
    assert told == ([f"a way: {number} bytecodes, and 100 in the baseline"] if is_told else [])


def outside(counted: dict[str, Counts], baseline: dict[str, Counts], kind: str, slack: int = 0) -> list[str]:
    """What is not within the bounds, in words."""
    return [
        f"{way}: {counts[kind]} {kind}, and {baseline[way][kind]} in the baseline"
        for way, counts in counted.items()
        if not _is_within(counts[kind], baseline[way][kind], slack)
    ]


def _is_within(now: int, before: int, slack: int) -> bool:
    return LEAST * before - slack <= now <= max(MOST * before, before + slack)
