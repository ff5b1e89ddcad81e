"""Transactions that left this mempool and may still be confirmed by another node, until their nonces are used."""

from itertools import islice

import msgspec

from cairn.board import Board
from cairn.domain.types import Address, DropReason, Tx, TxHash

MOST = 10_000
MOST_OF_SENDER = 100
"""A sender who replaces again and again must not push out what is remembered of others."""


class UnheldTx(msgspec.Struct, frozen=True, gc=False):
    tx: Tx
    received_at: int
    """Unix time in whole seconds."""
    local: bool
    """This node accepted it."""
    reason: DropReason
    """Why it left."""


class Unheld:
    """The newest ones only. Beyond the limits, the oldest are forgotten."""

    def __init__(self, board: Board | None = None) -> None:
        self._board = board or Board()
        self.by_hash: dict[TxHash, UnheldTx] = {}
        """Changed only here."""
        self._by_sender: dict[Address, dict[TxHash, None]] = {}

    def is_local(self, tx_hash: TxHash) -> bool:
        found = self.by_hash.get(tx_hash)
        return found is not None and found.local

    def senders(self) -> list[Address]:
        return list(self._by_sender)

    def add(self, unheld: UnheldTx) -> list[TxHash]:
        """Returns those that are forgotten for it."""
        tx = unheld.tx
        self._board.note(tx.sender, 0)
        self.by_hash[tx.hash] = unheld
        of_sender = self._by_sender.setdefault(tx.sender, {})
        of_sender[tx.hash] = None
        forgotten = list(islice(of_sender, max(0, len(of_sender) - MOST_OF_SENDER)))
        if not forgotten:
            forgotten = list(islice(self.by_hash, max(0, len(self.by_hash) - MOST)))
        for tx_hash in forgotten:
            self.pop(tx_hash)
        return forgotten

    def pop(self, tx_hash: TxHash) -> None:
        """Forget it, if it is here."""
        unheld = self.by_hash.pop(tx_hash, None)
        if unheld is not None:
            self._board.note(unheld.tx.sender, 0)
            of_sender = self._by_sender[unheld.tx.sender]
            del of_sender[tx_hash]
            if not of_sender:
                del self._by_sender[unheld.tx.sender]

    def settle(self, sender: Address, nonce: int) -> list[TxHash]:
        """Remove those before `nonce`, the account's confirmed nonce."""
        passed = [each for each in self._by_sender.get(sender, ()) if self.by_hash[each].tx.nonce < nonce]
        for tx_hash in passed:
            self.pop(tx_hash)
        return passed
