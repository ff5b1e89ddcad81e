"""Tells the log when somebody has set the machine's clock."""

import time
from collections.abc import Callable

import structlog

JUMP_S = 1.0
"""What is less is how clocks are kept right."""

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
        self._offset_s = wall() - steady()

    def look(self) -> None:
        """Call it about twice a second: what is slower than a jump is not told."""
        now, steady = self._wall(), self._steady()
        by_s = now - steady - self._offset_s
        self._offset_s += by_s
        if abs(by_s) >= JUMP_S:
            log.warning("the clock jumped", by_s=round(by_s, 1), clock=time.strftime("%FT%TZ", time.gmtime(now)))
