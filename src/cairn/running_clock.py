"""Time limits that do not run out while this process is paused, as on a machine that was suspended.

After a pause, timers are due before the process has read what arrived meanwhile, and nobody else may have run either.
"""

from asyncio import AbstractEventLoop
from collections.abc import Callable

PARTS = 8
"""Parts into which a countdown is divided."""
LATE = 0.25
"""The share of its length by which a part may end late."""


class RunningClock:
    """How long this process has run, by another clock that it looks at in intervals.

    A look that comes late shows a pause. It counts as half an interval. So a pause hardly shortens a limit, what
    arrived meanwhile is read before the limit ends, and where every look is late it still ends.
    """

    def __init__(self, time: float, interval_s: float, late: float = 1.0) -> None:
        """A look is late after the share `late` of an interval more. `time` is now, by the other clock."""
        self.interval_s = interval_s
        self.now = 0.0
        """As of the last look."""
        self._late = 1 + late
        self._looked_at = time

    def look(self, time: float) -> float:
        """`time` is now, by the other clock. Returns how long this process has run."""
        passed_s = time - self._looked_at
        self._looked_at = time
        self.now += passed_s if passed_s <= self._late * self.interval_s else self.interval_s / 2
        return self.now


class Countdown:
    """Calls `expired` after `limit_s` by a running clock, unless it is cancelled before."""

    def __init__(self, loop: AbstractEventLoop, limit_s: float, expired: Callable[[], None]) -> None:
        self._loop = loop
        self._limit_s = limit_s
        self._expired = expired
        self._clock = RunningClock(loop.time(), limit_s / PARTS, LATE)
        self._look()

    def cancel(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        left_s = self._limit_s - self._clock.look(self._loop.time())
        if left_s > 0:
            self._timer = self._loop.call_later(min(left_s, self._clock.interval_s), self._look)
        else:
            self._expired()
