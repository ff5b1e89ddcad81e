"""The feed: tells that a block is on disk. What is in the block, subscribers read from the store, now or later.

So replay and live are the same thing, and nobody has to keep events for a subscriber that is slow or away.
"""

from collections.abc import Callable

Listener = Callable[[int], None]


class Feed:
    """Every listener hears of every height after its subscription, in order, but for those that a jump leaves out."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._height: int | None = None

    def subscribe(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def announce(self, height: int) -> None:
        """Tell that the block at `height`, and all before it, are on disk."""
        assert self._height is None or height == self._height + 1, f"height {height} announced after {self._height}"
        self._tell(height)

    def jump(self, height: int) -> None:
        """Tell that the chain goes on from `height`, and that nothing is kept of the blocks before it."""
        assert self._height is None or height > self._height, f"a jump to height {height} from {self._height}"
        self._tell(height)

    def _tell(self, height: int) -> None:
        self._height = height
        for listener in self._listeners:
            listener(height)
