"""When a chain with one block maker makes blocks: for transactions, at intervals, or only when asked to."""

import math
from collections.abc import Callable


class Pace:
    """Two switches, as hardhat has them: automine, by which transactions get a block, and an interval, at which blocks
    come in any case. What is pending goes into whichever comes first.

    It outlives an engine: a dev chain that is reverted goes on at the pace that its developer chose.
    """

    def __init__(self, block_time_s: float, empty_blocks: bool) -> None:
        """Without empty blocks the block time is how often transactions get a block; 0 is at once."""
        is_interval = empty_blocks and block_time_s > 0
        self.automine_s: float | None = None if is_interval else block_time_s
        """How often a block is made while there are transactions, 0 for at once, None for never."""
        self.interval_s: float | None = block_time_s if is_interval else None
        """How often a block is made, empty or not; None for never."""
        self.on_change: Callable[[], None] = lambda: None
        """Set by the engine that runs."""

    def set_automine(self, on: bool, *, alone: bool = False) -> None:
        """`alone` is how anvil does it: whichever switch is turned on turns the other off."""
        self.automine_s = 0.0 if on else None
        if on and alone:
            self.interval_s = None
        self.on_change()

    def set_interval(self, seconds: float, *, alone: bool = False) -> None:
        """0 is none; `alone` then ends all mining."""
        self.interval_s = seconds or None
        if alone:
            self.automine_s = None
        self.on_change()


class Ticks:
    """Multiples of a period since it was set: time spent making a block delays no later one."""

    def __init__(self) -> None:
        self._period_s: float | None = None
        self._start = 0.0
        self._next = self._used = 0

    def due(self, period_s: float | None, now: float) -> float:
        """When the next one is; infinity without a period, and now if the period is 0."""
        if period_s != self._period_s:
            self._period_s, self._start, self._next, self._used = period_s, now, 0, 0
        if not period_s:
            return math.inf if period_s is None else now
        # Never the same one twice: a timer may fire a hair before its time.
        self._next = max(self._used, int((now - self._start) / period_s)) + 1
        return self._start + self._next * period_s

    def use(self) -> None:
        """The one that `due` told last is over."""
        self._used = self._next
