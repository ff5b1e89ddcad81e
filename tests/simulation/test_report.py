"""The report of many runs."""

from collections import Counter

from tests.simulation.report import Summary
from tests.simulation.run import Result
from tests.simulation.setup import Tally


def result(seed: int, failure: str = "") -> Result:
    tally = Tally(Counter(kill=2), Counter({"kills": 1, "prunes": 0}))
    return Result(seed, (0, 1, 2), failure, "", 1.0, tally, 7_200.0, "")


def test_a_run_reports_its_steps_and_faults() -> None:
    summary = Summary(base=77)
    for seed in (3, 2001, 1002):
        summary.add(result(seed))
    text = summary.markdown("make simulate", known=[3])
    for row in (
        "| seeds | 3: 1 that failed once, 2 fresh ones |",
        "| base seed | 77 (`--base 77` draws the same fresh seeds) |",
        "| first fresh seed | 2001 |",
        "| last fresh seed | 1002 |",
        "| steps | 9 |",
        "| virtual time | 6 h |",
        "| failures | 0 |",
        "| kills | 3 |",
        "| kill | 6 |",
    ):
        assert row in text.splitlines()
    assert "prunes" not in text
    assert "None." in text
    assert summary.text().splitlines()[0].endswith("clean")


def test_a_failing_seed_is_named() -> None:
    summary = Summary(base=77)
    summary.add(result(3))
    summary.add(result(4, failure="Traceback:\n  there\nlost: node1 does not find it\n"))
    assert "- seed 4: lost: node1 does not find it" in summary.markdown("make simulate", known=[]).splitlines()
    assert "1 of 2 seeds fail" in summary.text()
