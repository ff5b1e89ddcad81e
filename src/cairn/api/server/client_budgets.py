"""Budgets that all clients of a worker share, so that none of them takes all: of subscriptions, and of bytes.

The bytes are those of requests that clients have sent and that are not answered yet. Small requests are not counted, so
that nobody who fills the budget keeps others from submitting or reading.
"""

from collections import Counter

from cairn.api.server.access import client_of
from cairn.domain.errors import TooManyUnansweredBytes

UNCOUNTED_BYTES = 8 * 1024
"""Of each connection: far more than a submission has. The number of connections is limited, too."""


class ClientBudget:
    """A client may hold at most as much as is free, so a single one gets half, and others always find some."""

    def __init__(self, size: int) -> None:
        self._size = self._left = size
        self._held: Counter[str] = Counter()

    def take(self, client: str, count: int = 1) -> bool:
        """Whether there was so much for the client; it now has it."""
        # As if it were taken one by one.
        if self._held[client] + count - 1 >= self._left - (count - 1):
            return False
        self._held[client] += count
        self._left -= count
        return True

    def resize(self, size: int) -> None:
        """What is taken stays taken, so of a smaller budget nothing may be free for a while."""
        self._left += size - self._size
        self._size = size

    @property
    def taken(self) -> int:
        return self._size - self._left

    def give_back(self, client: str, count: int = 1) -> None:
        self._left += count
        self._held[client] -= count
        if self._held[client] <= 0:
            del self._held[client]


class ReceivedBytes:
    """What one connection holds."""

    __slots__ = ("_budget", "_client", "counted")

    def __init__(self, budget: ClientBudget, client: str) -> None:
        self._budget = budget
        self._client = client_of(client)
        self.counted = 0
        """What it takes of the budget."""

    def hold(self, size_bytes: int) -> None:
        """It holds so many bytes now. Raises `TooManyUnansweredBytes`, and holds what it did."""
        if size_bytes > UNCOUNTED_BYTES or self.counted:
            self._count(max(0, size_bytes - UNCOUNTED_BYTES))

    def move_to(self, client: str) -> None:
        """They are another client's. Raises `TooManyUnansweredBytes`."""
        counted = self.counted
        self._count(0)
        self._client = client_of(client)
        self._count(counted)

    def _count(self, size_bytes: int) -> None:
        more = size_bytes - self.counted
        if more < 0:
            self._budget.give_back(self._client, -more)
        elif more and not self._budget.take(self._client, more):
            raise TooManyUnansweredBytes("too many bytes of requests, yours or all together, are not answered yet")
        self.counted = size_bytes
