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
    walls, steadies = iter(wall), iter(steady)
    jumps = ClockJumps(lambda: next(walls), lambda: next(steadies))
    with capture_logs() as lines:
        for _ in wall[1:]:
            jumps.look()
    assert [line["by_s"] for line in lines] == told
