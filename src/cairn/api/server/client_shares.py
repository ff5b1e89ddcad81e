"""Places that all clients of a worker share, so that none of them takes all."""

from collections import Counter


class Shares:
    """A client may hold at most as many places as are free, so a single one gets half, and others always find some."""

    def __init__(self, places: int) -> None:
        self._left = places
        self._held: Counter[str] = Counter()

    def take(self, client: str) -> bool:
        """Whether there was a place for the client; it now has it."""
        if self._held[client] >= self._left:
            return False
        self._held[client] += 1
        self._left -= 1
        return True

    def give_back(self, client: str, count: int = 1) -> None:
        self._left += count
        self._held[client] -= count
        if self._held[client] <= 0:
            del self._held[client]
