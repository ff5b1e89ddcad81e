"""The feed announces that a block is on disk. Subscribers read the block itself from the store, now or later.

So replay and live events are the same, and no events are kept for slow or disconnected subscribers.
"""

from collections.abc import Callable

Listener = Callable[[int], None]


class Feed:
    """Calls every listener with every height after its subscription, in order, except those that a jump skips."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._height: int | None = None

    def subscribe(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def announce(self, height: int) -> None:
        """Announce that the block at `height`, and all before it, are on disk."""
        assert self._height is None or height == self._height + 1, f"height {height} announced after {self._height}"
        self._tell(height)

    def jump(self, height: int) -> None:
        """Announce that the chain continues from `height`, and that no earlier blocks are kept."""
        assert self._height is None or height > self._height, f"a jump to height {height} from {self._height}"
        self._tell(height)

    def repeat(self, height: int) -> None:
        """Announce the newest height again: the store's files have changed, and nothing else."""
        for listener in self._listeners:
            listener(height)

    def _tell(self, height: int) -> None:
        self._height = height
        self.repeat(height)
