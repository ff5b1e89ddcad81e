"""Tells the log when somebody has set the machine's clock."""

import time
from collections.abc import Callable

import structlog

JUMP_S = 1.0
"""What is less is how clocks are kept right."""
GLANCE_S = 0.1
"""Both clocks are read within this time, or what they show is not of one moment."""

log = structlog.get_logger("cairn.node")


def since_boot() -> float:
    """Seconds, with those in which the machine was suspended, where the system tells (Linux)."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


class ClockJumps:
    """Compares the clock with one that nobody can set."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = since_boot) -> None:
        self._wall = wall
        self._steady = steady
        self._offset_s: float | None = None
        """By how much the clock was ahead of the other at the last look; None if that is not known yet."""
        self.look()

    def look(self) -> None:
        """Call it about twice a second: what is slower than a jump is not told."""
        before, now, after = self._steady(), self._wall(), self._steady()
        if after - before > GLANCE_S:
            # A busy machine put the process off between the two. The next look sees a jump as well.
            return
        offset_s = now - after
        by_s = 0.0 if self._offset_s is None else offset_s - self._offset_s
        self._offset_s = offset_s
        if abs(by_s) >= JUMP_S:
            log.warning("the clock jumped", by_s=round(by_s, 1), clock=time.strftime("%FT%TZ", time.gmtime(now)))
