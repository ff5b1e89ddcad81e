"""When the embedded engine makes blocks: for transactions, at intervals, or only on request."""

import math
from collections.abc import Callable


class Pace:
    """Two switches, as in hardhat: automine makes a block for transactions, and an interval makes blocks in any case. A
    pending transaction is in whichever block comes first.

    It outlives an engine: a dev chain keeps its pace after a revert.
    """

    def __init__(self, block_time_s: float, empty_blocks: bool) -> None:
        """Without empty blocks, the block time is the interval at which transactions get a block; 0 means at once."""
        is_interval = empty_blocks and block_time_s > 0
        self.automine_s: float | None = None if is_interval else block_time_s
        """The interval at which transactions get a block; 0 means at once, None never."""
        self.interval_s: float | None = block_time_s if is_interval else None
        """The interval of blocks that are made in any case, empty or not; None means never."""
        self.on_change: Callable[[], None] = lambda: None
        """Set by the engine that runs."""

    def set_automine(self, on: bool, *, alone: bool = False) -> None:
        """With `alone`, as in anvil, switching one on switches the other off."""
        self.automine_s = 0.0 if on else None
        if on and alone:
            self.interval_s = None
        self.on_change()

    def set_interval(self, seconds: float, *, alone: bool = False) -> None:
        """0 means none; with `alone` that ends all mining."""
        self.interval_s = seconds or None
        if alone:
            self.automine_s = None
        self.on_change()

    def set(self, automine_s: float | None, interval_s: float | None) -> None:
        """Both at once, as they were at some time."""
        self.automine_s, self.interval_s = automine_s, interval_s or None
        self.on_change()


class Ticks:
    """Multiples of a period, counted from when it was set, so that a slow block delays no later one."""

    def __init__(self) -> None:
        self._period_s: float | None = None
        self._start = 0.0
        self._next = self._used = 0

    def due(self, period_s: float | None, now: float) -> float:
        """The next time; infinity without a period, now if the period is 0."""
        if period_s != self._period_s:
            self._period_s, self._start, self._next, self._used = period_s, now, 0, 0
        if not period_s:
            return math.inf if period_s is None else now
        # Never the same one twice: a timer may fire slightly early.
        self._next = max(self._used, int((now - self._start) / period_s)) + 1
        return self._start + self._next * period_s

    def use(self) -> None:
        """The time that `due` returned last has passed."""
        self._used = self._next
