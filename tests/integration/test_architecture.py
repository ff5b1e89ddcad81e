"""docs/architecture.md compared with the source, and its paths with what a node really does."""

import re
from pathlib import Path

import pytest

from tests.support.ways import BALANCE, BLOCK, EVENT, SOURCE, SUBMISSION, Way, trace_all

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
HEADINGS = {
    SUBMISSION: "The path of a transaction",
    BALANCE: "The path of a read",
    EVENT: "The path of an event",
    BLOCK: "The path of a block from CometBFT",
}


@pytest.fixture(scope="module")
def traced() -> dict[str, Way]:
    return {way.name: way for way in trace_all()}


def described(heading: str) -> list[str]:
    """The files of a path, in their order."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\d+\. `([a-z_/0-9]+\.py)`", section, re.M)


def missed(stops: list[str], way: Way) -> list[str]:
    """What is left of `stops` when the trace has ended: nothing, if it passes them in this order."""
    left = list(stops)
    for stop in way.stops:
        if left and stop.file == left[0]:
            del left[0]
    return left


@pytest.mark.parametrize("name", HEADINGS)
def test_a_traced_path_passes_the_files_of_the_page_in_their_order(name: str, traced: dict[str, Way]) -> None:
    stops = described(HEADINGS[name])
    assert len(stops) > 10
    assert missed(stops, traced[name]) == [], traced[name].files


def test_each_file_and_folder_that_the_page_names_exists() -> None:
    folders = "|".join(sorted(path.name for path in SOURCE.iterdir() if path.is_dir()))
    named = set(re.findall(rf"(?<![\w/])(?:{folders})/[a-z_0-9/]+(?:\.py)?|(?<=`)[a-z_]+\.py(?=`)", PAGE.read_text()))
    assert len(named) > 30
    missing = [name for name in named if not (SOURCE / name).exists() and not (SOURCE / f"{name}.py").exists()]
    assert missing == []
