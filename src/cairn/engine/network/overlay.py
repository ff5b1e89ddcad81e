"""The state after all transactions in CometBFT's mempool: the next transaction is checked against it.

After a commit it is empty, and CometBFT rechecks everything that its mempool still holds, in order.
"""

from collections.abc import Iterable, Mapping

import msgspec

from cairn.domain.errors import Rejected, UpdateRefused
from cairn.domain.governance import Update
from cairn.domain.rules import SenderBudget, validate_tx
from cairn.domain.state_tree import StateView
from cairn.domain.types import Address, Rules, Tx


class _SenderTxs(SenderBudget, gc=True):
    """One sender's transactions, without a gap, from the confirmed nonce on."""

    txs: list[Tx] = msgspec.field(default_factory=list)

    def copy(self) -> "_SenderTxs":
        return _SenderTxs(self.balance, self.nonce, self.next_nonce, self.cost, self.txs.copy())

    def find(self, nonce: int) -> Tx | None:
        return self.txs[nonce - self.nonce] if self.nonce <= nonce < self.next_nonce else None

    def holds(self, tx: Tx) -> bool:
        held = self.find(tx.nonce)
        return held is not None and held.hash == tx.hash


class Overlay:
    def __init__(self, state: StateView, base: Mapping[Address, _SenderTxs] | None = None) -> None:
        """With `base`, additions do not change `base`."""
        self._state = state
        self._base = base or {}
        self._by_sender: dict[Address, _SenderTxs] = {}
        self._before_block: dict[Address, _SenderTxs] = {}
        """As before the last block; CometBFT may not have rechecked all of them yet."""
        self._update: Update | None = None

    def reset(self) -> None:
        """A block was committed: CometBFT will recheck all that stays."""
        self._before_block, self._by_sender = self._by_sender, {}
        self._update = None

    def clear(self) -> None:
        """CometBFT's mempool is empty."""
        self.reset()
        self._before_block = {}

    def branch(self) -> "Overlay":
        """A copy for trials; `merge` makes them count."""
        return Overlay(self._state, self._by_sender)

    def merge(self, trial: "Overlay") -> None:
        self._by_sender.update(trial._by_sender)

    def take(self, txs: Iterable[Tx], rules: Rules) -> tuple[list[Tx], list[tuple[Tx, Rejected]]]:
        """Count all that can be mined. Returns those, and the others with the reasons.

        Used nonces, and what is already counted, are skipped.
        """
        taken: list[Tx] = []
        refused: list[tuple[Tx, Rejected]] = []
        by_sender, txs_of_sender = self._by_sender, self._sender_txs_of
        for tx in txs:
            sender_txs = by_sender.get(tx.sender) or txs_of_sender(tx.sender)
            if tx.nonce < sender_txs.next_nonce and (tx.nonce < sender_txs.nonce or sender_txs.holds(tx)):
                continue
            try:
                validate_tx(tx, rules)
                # Nearly all have their sender's next nonce.
                if sender_txs.take(tx, tx.cost):
                    sender_txs.txs.append(tx)
                    by_sender[tx.sender] = sender_txs
                else:
                    self.check(tx)
                    self.add(tx)
            except Rejected as refusal:
                refused.append((tx, refusal))
            else:
                taken.append(tx)
        return taken, refused

    def holds(self, tx: Tx) -> bool:
        """Whether CometBFT's mempool has it, as far as its checks since the last block show."""
        sender_txs = self._by_sender.get(tx.sender)
        return sender_txs is not None and sender_txs.holds(tx)

    def held_before(self, tx: Tx) -> bool:
        """Whether CometBFT's mempool had it before the last block."""
        sender_txs = self._before_block.get(tx.sender)
        return sender_txs is not None and sender_txs.holds(tx)

    def is_past(self, tx: Tx) -> bool:
        """Whether its nonce is used, by itself or by another one."""
        return tx.nonce < self._sender_txs_of(tx.sender).nonce

    def check(self, tx: Tx) -> None:
        """Raise `TxRejected` unless `tx` has its sender's next nonce, or replaces another at a higher price."""
        sender_txs = self._sender_txs_of(tx.sender)
        old = sender_txs.find(tx.nonce)
        sender_txs.check_nonce(tx, old)
        sender_txs.check_funds(tx, old)

    def add(self, tx: Tx) -> None:
        """Count `tx`, which `check` accepted."""
        sender_txs = self._sender_txs_of(tx.sender)
        old = sender_txs.find(tx.nonce)
        if old is None:
            sender_txs.txs.append(tx)
            sender_txs.next_nonce += 1
        else:
            sender_txs.txs[tx.nonce - sender_txs.nonce] = tx
            sender_txs.cost -= old.cost
        sender_txs.cost += tx.cost
        self._by_sender[tx.sender] = sender_txs

    def _sender_txs_of(self, sender: Address) -> _SenderTxs:
        sender_txs = self._by_sender.get(sender)
        if sender_txs is None:
            base = self._base.get(sender)
            sender_txs = self._new_sender(sender) if base is None else base.copy()
            # Accounts without coins and transactions are not stored: an attacker can invent such senders.
            if sender_txs.balance:
                self._by_sender[sender] = sender_txs
        return sender_txs

    def _new_sender(self, sender: Address) -> _SenderTxs:
        account = self._state.account(sender)
        return _SenderTxs(account.balance, account.nonce, account.nonce)

    def check_update(self, update: Update) -> None:
        """One update at a time: the next one depends on its outcome."""
        if self._update is not None and self._update != update:
            raise UpdateRefused("another update waits for its block")

    def add_update(self, update: Update) -> None:
        self._update = update
