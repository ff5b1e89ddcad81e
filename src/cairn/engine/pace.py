"""When a chain with one block maker makes blocks: at once, at intervals, or only when asked to."""

from collections.abc import Callable


class Pace:
    """It outlives an engine: a dev chain that is reverted goes on at the pace that its developer chose."""

    def __init__(self, block_time_s: float) -> None:
        """0 is at once."""
        self._at_once = block_time_s == 0
        self._interval_s = block_time_s
        self.on_change: Callable[[], None] = lambda: None
        """Set by the engine that runs."""

    @property
    def block_time_s(self) -> float | None:
        """Seconds between two blocks, 0 for a block as soon as there is a transaction, None for no block at all."""
        if self._at_once:
            return 0.0
        return self._interval_s or None

    def set_at_once(self, on: bool) -> None:
        self._at_once = on
        self.on_change()

    def set_interval(self, seconds: float) -> None:
        """0 is none."""
        self._interval_s = seconds
        self.on_change()
