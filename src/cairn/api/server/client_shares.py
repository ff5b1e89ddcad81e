"""Places that all clients of a worker share, so that none of them takes all."""

from collections import Counter


class Shares:
    """A client may hold at most as many places as are free, so a single one gets half, and others always find some."""

    def __init__(self, places: int) -> None:
        self._places = self._left = places
        self._held: Counter[str] = Counter()

    def take(self, client: str, count: int = 1) -> bool:
        """Whether there were so many places for the client; it now has them."""
        # As if they were taken one by one.
        if self._held[client] + count - 1 >= self._left - (count - 1):
            return False
        self._held[client] += count
        self._left -= count
        return True

    def resize(self, places: int) -> None:
        """Have so many places from now on. What is taken stays taken; of fewer places none may be free for a while."""
        self._left += places - self._places
        self._places = places

    @property
    def taken(self) -> int:
        return self._places - self._left

    def give_back(self, client: str, count: int = 1) -> None:
        self._left += count
        self._held[client] -= count
        if self._held[client] <= 0:
            del self._held[client]
