"""One sender's transactions: those that can be mined in a row, and those that wait for a missing nonce."""

from cairn.domain.types import Address
from cairn.mempool.entry import Entry


class Lane:
    """Holds the nonces like this:

    nonce             next_nonce
      |                   |
      [ ready: no holes  ] hole [ waiting ] hole [ waiting ]
    """

    __slots__ = ("arrival", "cost", "nonce", "ready", "sender", "waiting")

    def __init__(self, sender: Address, nonce: int, arrival: int) -> None:
        self.sender = sender
        self.nonce = nonce
        """The account's confirmed one: what the first of `ready` carries."""
        self.arrival = arrival
        """Order of arrival among the senders."""
        self.ready: list[Entry] = []
        self.waiting: dict[int, Entry] = {}
        self.cost = 0
        """Of all in the lane. While the balance covers it, each can be paid for after those before it."""

    def __len__(self) -> int:
        return len(self.ready) + len(self.waiting)

    @property
    def next_nonce(self) -> int:
        return self.nonce + len(self.ready)

    def find(self, nonce: int) -> Entry | None:
        position = nonce - self.nonce
        if 0 <= position < len(self.ready):
            return self.ready[position]
        return self.waiting.get(nonce)

    def entries_from(self, nonce: int) -> list[Entry]:
        """Those with `nonce` and later ones, by nonce: all that waits comes after all that is ready."""
        waiting = sorted(later for later in self.waiting if later >= nonce)
        return [*self.ready[max(0, nonce - self.nonce) :], *(self.waiting[later] for later in waiting)]
