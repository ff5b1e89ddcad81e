"""A bounded cache that forgets the least recently used. It has no clock."""

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruCache(OrderedDict[K, V]):
    """Beyond `most` in all, the entry that was kept or used longest ago is forgotten.

    Each entry counts 1, or what `weigh` says of it. A cache with `weigh` is changed by the methods below only.
    """

    # An OrderedDict: finding the first key of a plain dict gets slow after many removals.

    def __init__(self, most: int, weigh: Callable[[V], int] | None = None) -> None:
        super().__init__()
        self._most = most
        self._weigh = weigh
        self._weight = 0

    def keep(self, key: K, value: V) -> None:
        """Keep it as the newest. One that weighs more than a quarter of all is not kept: it would displace the rest."""
        if self._weigh is not None:
            weight = self._weigh(value)
            if weight > self._most // 4:
                return
            self._weight += weight - (self._weigh(self[key]) if key in self else 0)
        self[key] = value
        self.move_to_end(key)
        while (len(self) if self._weigh is None else self._weight) > self._most:
            _, oldest = self.popitem(last=False)
            if self._weigh is not None:
                self._weight -= self._weigh(oldest)

    def use(self, key: K) -> V | None:
        """Find it, and make it the newest."""
        value = self.get(key)
        if value is not None:
            self.move_to_end(key)
        return value

    def clear(self) -> None:
        super().clear()
        self._weight = 0
