"""A time limit for whoever is at the other end; it runs out only while this process runs."""

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable

PARTS = 8
"""Parts into which a limit is divided."""
LATE = 0.25
"""A part that ends later than this share of its length does not count: the process did not run meanwhile."""


class Countdown:
    """Calls `expired` after `limit_s`, unless it is cancelled before.

    After a pause of the process, timers are due before it has read what arrived meanwhile. So the limit is counted in
    parts, and a part that ended late is repeated, so that arrivals are read first. There are at most twice as many
    parts, so that the limit also ends where every part is late.
    """

    def __init__(self, loop: AbstractEventLoop, limit_s: float, expired: Callable[[], None]) -> None:
        self._loop = loop
        self._part_s = limit_s / PARTS
        self._expired = expired
        self._left = self._repeatable = PARTS
        self._timer = self._begin_part()

    def cancel(self) -> None:
        self._timer.cancel()

    def _begin_part(self) -> TimerHandle:
        self._ends_at = self._loop.time() + self._part_s
        return self._loop.call_later(self._part_s, self._end_part)

    def _end_part(self) -> None:
        is_late = self._loop.time() - self._ends_at > LATE * self._part_s
        if is_late and self._repeatable:
            self._repeatable -= 1
        else:
            self._left -= 1
        if self._left:
            self._timer = self._begin_part()
        else:
            self._expired()
