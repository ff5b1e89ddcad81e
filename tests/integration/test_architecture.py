"""The paths in docs/architecture.md, compared with what a node really does."""

import re
from pathlib import Path

import pytest

from tests.support.ways import BALANCE, BLOCK, EVENT, SUBMISSION, Way, trace_all

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
HEADINGS = {
    SUBMISSION: "The path of a transaction",
    BALANCE: "The path of a read",
    EVENT: "The path of an event",
    BLOCK: "The path of a block from CometBFT",
}
FILE = r"`([a-z_/0-9]+\.py)`"


@pytest.fixture(scope="module")
def traced() -> dict[str, Way]:
    return {way.name: way for way in trace_all()}


def described(heading: str) -> tuple[list[str], list[str]]:
    """The stops of a way, in their order, and its helpers."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(rf"^\d+\. {FILE}", section, re.M), re.findall(FILE, section.partition("\nHelpers: ")[2])


def missed(stops: list[str], way: Way) -> list[str]:
    """What is left of `stops` when the trace has ended: nothing, if it passes them in this order."""
    left = list(stops)
    for stop in way.stops:
        if left and stop.file == left[0]:
            del left[0]
    return left


@pytest.mark.parametrize("name", HEADINGS)
def test_a_real_one_passes_the_stops_in_their_order(name: str, traced: dict[str, Way]) -> None:
    stops, _ = described(HEADINGS[name])
    assert len(stops) > 10
    assert missed(stops, traced[name]) == [], traced[name].files


@pytest.mark.parametrize("name", HEADINGS)
def test_it_enters_every_file_that_the_page_names_and_no_other(name: str, traced: dict[str, Way]) -> None:
    stops, helpers = described(HEADINGS[name])
    assert set(traced[name].files) == {*stops, *helpers}
    assert not {*stops} & {*helpers}
    assert len(helpers) == len({*helpers})
