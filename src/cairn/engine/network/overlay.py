"""The state after all transactions in CometBFT's mempool: the next transaction is checked against it.

After a commit it is empty, and CometBFT rechecks everything that its mempool still holds, in order.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from cairn.domain.errors import Rejected, UpdateRefused
from cairn.domain.governance import Update
from cairn.domain.rules import SenderQueue, validate_tx
from cairn.domain.transition import StateView
from cairn.domain.types import Address, Rules, Tx


class Takings(NamedTuple):
    """The result of checking many at once."""

    taken: list[Tx]
    refused: list[tuple[Tx, Rejected]]


class _Lane(SenderQueue, gc=True):
    """One sender's transactions, without a gap, from the confirmed nonce on."""

    txs: list[Tx] = msgspec.field(default_factory=list)

    def copy(self) -> "_Lane":
        return _Lane(self.balance, self.nonce, self.next_nonce, self.cost, self.txs.copy())

    def find(self, nonce: int) -> Tx | None:
        return self.txs[nonce - self.nonce] if self.nonce <= nonce < self.next_nonce else None

    def holds(self, tx: Tx) -> bool:
        held = self.find(tx.nonce)
        return held is not None and held.hash == tx.hash


class Overlay:
    def __init__(self, state: StateView, base: Mapping[Address, _Lane] | None = None) -> None:
        """With `base`, additions do not change the lanes of `base`."""
        self._state = state
        self._base = base or {}
        self._lanes: dict[Address, _Lane] = {}
        self._lanes_before: dict[Address, _Lane] = {}
        """The lanes before the last block; CometBFT may not have rechecked all of them yet."""
        self._update: Update | None = None

    def reset(self) -> None:
        """A block was committed: CometBFT will recheck all that stays."""
        self._lanes_before, self._lanes = self._lanes, {}
        self._update = None

    def clear(self) -> None:
        """CometBFT's mempool is empty."""
        self.reset()
        self._lanes_before = {}

    def branch(self) -> "Overlay":
        """A copy for trials; `merge` makes them count."""
        return Overlay(self._state, self._lanes)

    def merge(self, trial: "Overlay") -> None:
        self._lanes.update(trial._lanes)

    def take(self, txs: Iterable[Tx], rules: Rules) -> Takings:
        """Count all that can be mined. Used nonces, and what is already counted, are skipped."""
        taken: list[Tx] = []
        refused: list[tuple[Tx, Rejected]] = []
        lanes, lane_of = self._lanes, self._lane_of
        for tx in txs:
            lane = lanes.get(tx.sender) or lane_of(tx.sender)
            if tx.nonce < lane.next_nonce and (tx.nonce < lane.nonce or lane.holds(tx)):
                continue
            try:
                validate_tx(tx, rules)
                # Nearly all have their sender's next nonce.
                if lane.take(tx):
                    lane.txs.append(tx)
                    lanes[tx.sender] = lane
                else:
                    self.check(tx)
                    self.add(tx)
            except Rejected as refusal:
                refused.append((tx, refusal))
            else:
                taken.append(tx)
        return Takings(taken, refused)

    def holds(self, tx: Tx) -> bool:
        """Whether CometBFT's mempool has it, as far as its checks since the last block show."""
        lane = self._lanes.get(tx.sender)
        return lane is not None and lane.holds(tx)

    def held_before(self, tx: Tx) -> bool:
        """Whether CometBFT's mempool had it before the last block."""
        lane = self._lanes_before.get(tx.sender)
        return lane is not None and lane.holds(tx)

    def is_past(self, tx: Tx) -> bool:
        """Whether its nonce is used, by itself or by another one."""
        return tx.nonce < self._lane_of(tx.sender).nonce

    def check(self, tx: Tx) -> None:
        """Raise `TxRejected` unless `tx` has its sender's next nonce, or replaces another at a higher price."""
        lane = self._lane_of(tx.sender)
        old = lane.find(tx.nonce)
        lane.check_place(tx, old)
        lane.check_funds(tx, old)

    def add(self, tx: Tx) -> None:
        """Count `tx`, which `check` accepted."""
        lane = self._lane_of(tx.sender)
        old = lane.find(tx.nonce)
        if old is None:
            lane.txs.append(tx)
            lane.next_nonce += 1
        else:
            lane.txs[tx.nonce - lane.nonce] = tx
            lane.cost -= old.cost
        lane.cost += tx.cost
        self._lanes[tx.sender] = lane

    def _lane_of(self, sender: Address) -> _Lane:
        lane = self._lanes.get(sender)
        if lane is None:
            base = self._base.get(sender)
            lane = self._new_lane(sender) if base is None else base.copy()
            # Empty lanes of accounts without coins are not stored: an attacker can invent such senders.
            if lane.balance:
                self._lanes[sender] = lane
        return lane

    def _new_lane(self, sender: Address) -> _Lane:
        account = self._state.account(sender)
        return _Lane(account.balance, account.nonce, account.nonce)

    def check_update(self, update: Update) -> None:
        """One update at a time: the next one depends on its outcome."""
        if self._update is not None and self._update != update:
            raise UpdateRefused("another update waits for its block")

    def add_update(self, update: Update) -> None:
        self._update = update
