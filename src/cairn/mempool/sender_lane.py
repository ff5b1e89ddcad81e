"""One sender's transactions: those that can be mined in a row, and those that wait for a missing nonce."""

import msgspec

from cairn.domain.sender_queue import SenderQueue
from cairn.domain.types import Address
from cairn.mempool.entry import Entry


class SenderLane(SenderQueue, gc=True, kw_only=True):
    """Holds the nonces like this:

    nonce             next_nonce
      |                   |
      [ ready: no holes  ] hole [ waiting ] hole [ waiting ]
    """

    sender: Address
    arrival: int
    """Order of arrival among the senders."""
    ready: list[Entry] = msgspec.field(default_factory=list)
    waiting: dict[int, Entry] = msgspec.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ready) + len(self.waiting)

    def find(self, nonce: int) -> Entry | None:
        if self.nonce <= nonce < self.next_nonce:
            return self.ready[nonce - self.nonce]
        return self.waiting.get(nonce)

    def append(self, entry: Entry) -> None:
        """Make the one with `next_nonce` ready."""
        self.ready.append(entry)
        self.next_nonce += 1

    def cut(self, nonce: int) -> list[Entry]:
        """Take out what is ready from `nonce` on."""
        position = nonce - self.nonce
        taken = self.ready[position:]
        del self.ready[position:]
        self.next_nonce = nonce
        return taken

    def advance(self, nonce: int) -> list[Entry]:
        """The account's next confirmed one is `nonce` now: take out what is ready before it."""
        passed = self.ready[: nonce - self.nonce]
        del self.ready[: len(passed)]
        self.nonce = nonce
        self.next_nonce = nonce + len(self.ready)
        return passed

    def entries_from(self, nonce: int) -> list[Entry]:
        """Those with `nonce` and later ones, by nonce: all that waits comes after all that is ready."""
        waiting = sorted(later for later in self.waiting if later >= nonce)
        return [*self.ready[max(0, nonce - self.nonce) :], *(self.waiting[later] for later in waiting)]
