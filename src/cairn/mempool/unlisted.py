"""Transactions of other nodes that nobody has asked about yet (ADR 025).

What other nodes accept reaches every node, and most of it is in a block a moment later. Until somebody asks, it is
stored as it came, without the work for the mining order. A sender is either here or has a sender_txs, never both.
"""

from collections.abc import Iterable
from typing import NamedTuple

from cairn.domain.types import Address, Tx

MOST = 8_192
"""A question lists them all, so their number is limited: listing them takes about 50 ms."""


class Note(NamedTuple):
    place: int
    """Its number among all that were ever added."""
    received_at: int
    """Unix time in whole seconds."""
    up_s: int
    """The same moment, in seconds of the node's uptime."""
    tx: Tx


class Unlisted:
    def __init__(self) -> None:
        self.by_sender: dict[Address, list[Note]] = {}
        """By sender, by nonce and without a gap; changed only here."""
        self.count = 0
        self._next_place = 0

    def add(self, tx: Tx, received_at: int, up_s: int) -> bool:
        """Add `tx` after those of its sender. False if its nonce does not follow, or if there are too many."""
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
        """All senders here; with a time, only those whose first transaction arrived by then."""
        if up_s is None:
            return list(self.by_sender)
        return [sender for sender, notes in self.by_sender.items() if notes[0].up_s <= up_s]

    def take(self, senders: Iterable[Address]) -> list[Note]:
        """Remove and return the transactions of these senders, in the order of arrival."""
        taken = [note for sender in senders for note in self.by_sender.pop(sender, ())]
        self.count -= len(taken)
        # The numbers are unique, so nothing else is compared.
        return sorted(taken)

    def settle(self, sender: Address, nonce: int) -> list[Tx]:
        """Remove what comes before `nonce`, the account's confirmed nonce."""
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
