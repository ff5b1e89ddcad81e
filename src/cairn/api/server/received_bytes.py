"""The memory of requests that clients have sent and that are not answered yet.

All connections of a worker share a budget of bytes, of which one client gets at most half. Small requests are not
counted, so that nobody who fills the budget keeps others from submitting or reading.
"""

from cairn.api.server.access import client_of
from cairn.api.server.client_shares import Shares
from cairn.domain.errors import TooManyUnansweredBytes

UNCOUNTED_BYTES = 8 * 1024
"""Of each connection: far more than a submission has. The number of connections is limited, too."""


class ReceivedBytes:
    """What one connection holds."""

    __slots__ = ("_client", "_shares", "counted")

    def __init__(self, shares: Shares, client: str) -> None:
        self._shares = shares
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
            self._shares.give_back(self._client, -more)
        elif more and not self._shares.take(self._client, more):
            raise TooManyUnansweredBytes("too many bytes of your requests, or of all, are not answered yet")
        self.counted = size_bytes
