"""Others' transactions that nobody has asked about yet.

What other nodes take in reaches every node, and most of it is in a block a moment later. Until somebody looks, it is
kept as it came: in no order, with no price compared. A sender is either noted here or has a lane, never both.
"""

from collections.abc import Iterable
from typing import NamedTuple

from cairn.domain.types import Address, Tx

MOST = 8_192
"""The next question lists them all, which must stay a moment: about 50 ms."""


class Note(NamedTuple):
    place: int
    """Among all that was ever noted."""
    received_at: int
    """Unix time in whole seconds."""
    up_s: int
    """The same moment, in seconds that the node had been up."""
    tx: Tx


class Unlisted:
    def __init__(self) -> None:
        self.by_sender: dict[Address, list[Note]] = {}
        """Each sender's, by nonce and without a hole; only changed here."""
        self.count = 0
        self._next_place = 0

    def add(self, tx: Tx, received_at: int, up_s: int) -> bool:
        """Note `tx` behind those of its sender; False if it does not follow them, or if there are enough."""
        if self.count >= MOST:
            return False
        notes = self.by_sender.get(tx.sender)
        if notes is None:
            notes = self.by_sender[tx.sender] = []
        elif tx.nonce != notes[-1].tx.nonce + 1:
            return False
        notes.append(Note(self._next_place, received_at, up_s, tx))
        self._next_place += 1
        self.count += 1
        return True

    def senders(self, up_s: int | None = None) -> list[Address]:
        """All that have something here; with a time, only those whose first one came by then."""
        if up_s is None:
            return list(self.by_sender)
        return [sender for sender, notes in self.by_sender.items() if notes[0].up_s <= up_s]

    def take(self, senders: Iterable[Address]) -> list[Note]:
        """All that these have here, as it came; it is noted no longer."""
        taken = [note for sender in senders for note in self.by_sender.pop(sender, ())]
        self.count -= len(taken)
        # The places differ, so nothing else is compared.
        return sorted(taken)

    def settle(self, sender: Address, nonce: int) -> list[Tx]:
        """Let go what comes before `nonce`, which is the sender's next confirmed one."""
        notes = self.by_sender.get(sender)
        if notes is None:
            return []
        passed = max(0, nonce - notes[0].tx.nonce)
        left = notes[passed:]
        if left:
            self.by_sender[sender] = left
        else:
            del self.by_sender[sender]
        self.count -= len(notes) - len(left)
        return [note.tx for note in notes[:passed]]
