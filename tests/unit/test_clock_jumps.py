"""A clock that somebody sets is told of; one that is kept right, or a machine that slept, is not."""

import pytest
from structlog.testing import capture_logs

from cairn.clock_jumps import ClockJumps


@pytest.mark.parametrize(
    ("wall", "steady", "told"),
    [
        ([1000.0, 1000.5, 1001.0], [5.0, 5.5, 6.0], []),
        ([1000.0, 4600.5, 4601.0], [5.0, 5.5, 6.0], [3600.0]),
        ([1000.0, 400.5, 401.0, 1001.5], [5.0, 5.5, 6.0, 6.5], [-600.0, 600.0]),
        # Suspended for an hour.
        ([1000.0, 4600.5], [5.0, 3605.5], []),
        ([1000.0, 1000.9, 1001.8], [5.0, 5.5, 6.0], []),
    ],
)
def test_tells_by_how_much_the_clock_was_set(wall: list[float], steady: list[float], told: list[float]) -> None:
    # The steady clock is read before and after the other.
    walls, steadies = iter(wall), iter([each for each in steady for _ in range(2)])
    jumps = ClockJumps(lambda: next(walls), lambda: next(steadies))
    with capture_logs() as lines:
        for _ in wall[1:]:
            jumps.look()
    assert [line["by_s"] for line in lines] == told


def test_a_process_that_is_put_off_between_both_clocks_tells_of_no_jump() -> None:
    """Neither at the look at which that happens, nor at the next one; and a jump meanwhile is told of then."""
    walls = iter([1000.0, 1004.5, 1005.0, 1008.5, 4609.0, 4612.5])
    steadies = iter([5.0, 9.0, 9.5, 9.5, 10.0, 13.0, 13.5, 13.5, 14.0, 17.0, 17.5, 17.5])
    with capture_logs() as lines:
        jumps = ClockJumps(lambda: next(walls), lambda: next(steadies))
        for _ in range(5):
            jumps.look()
    assert [line["by_s"] for line in lines] == [3600.0]
