"""What the transactions in CometBFT's own mempool do to their senders: the state that the next one is checked against.

After a commit it is empty, and CometBFT checks all that its mempool still holds again, in order.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cairn.domain.errors import (
    InsufficientFunds,
    NonceTooHigh,
    NonceTooLow,
    Rejected,
    ReplacementUnderpriced,
    UpdateRefused,
)
from cairn.domain.governance import ValidatorUpdate
from cairn.domain.rules import validate_tx
from cairn.domain.transition import StateView
from cairn.domain.types import Account, Address, Rules, Tx, TxHash


class Takings(NamedTuple):
    """What became of many at once."""

    taken: list[Tx]
    refused: list[tuple[Tx, Rejected]]


class _Lane:
    """One sender's transactions, without a hole, from the confirmed nonce on."""

    __slots__ = ("account", "cost", "txs")

    def __init__(self, account: Account) -> None:
        self.account = account
        """As confirmed: what the first one's nonce and the cost of all are held against."""
        self.txs: list[Tx] = []
        self.cost = 0

    def copy(self) -> "_Lane":
        lane = _Lane(self.account)
        lane.txs = self.txs.copy()
        lane.cost = self.cost
        return lane


class Overlay:
    def __init__(self, state: StateView, price_bump_percent: int, base: Mapping[Address, _Lane] | None = None) -> None:
        """With `base`, what is added here leaves those lanes as they are."""
        self._state = state
        self._price_bump_percent = price_bump_percent
        self._base = base or {}
        self._lanes: dict[Address, _Lane] = {}
        self._before: set[TxHash] = set()
        """What it held before the last block; CometBFT may still be about to ask for it again."""
        self._update: ValidatorUpdate | None = None

    def reset(self) -> None:
        """A block was committed: all that stays comes again."""
        self._before = {tx.hash for lane in self._lanes.values() for tx in lane.txs}
        self._lanes = {}
        self._update = None

    def clear(self) -> None:
        """CometBFT's mempool is empty."""
        self.reset()
        self._before = set()

    def branch(self) -> "Overlay":
        """One to try things on; `merge` makes them count."""
        return Overlay(self._state, self._price_bump_percent, self._lanes)

    def merge(self, trial: "Overlay") -> None:
        self._lanes.update(trial._lanes)

    def take(self, txs: Iterable[Tx], rules: Rules) -> Takings:
        """Count all that can be mined; what is past, or counted already, is passed over."""
        taken: list[Tx] = []
        refused: list[tuple[Tx, Rejected]] = []
        lanes, lane_of = self._lanes, self._lane_of
        for tx in txs:
            lane = lanes.get(tx.sender) or lane_of(tx.sender)
            held = lane.txs
            place = tx.nonce - lane.account.nonce
            if place < 0 or (place < len(held) and held[place].hash == tx.hash):
                continue
            try:
                validate_tx(tx, rules)
                cost = lane.cost + tx.cost
                # Nearly all of them are their senders' next ones.
                if place == len(held) and cost <= lane.account.balance:
                    held.append(tx)
                    lane.cost = cost
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
        """Whether CometBFT's mempool is known to have it."""
        if tx.hash in self._before:
            return True
        lane = self._lanes.get(tx.sender)
        if lane is None:
            return False
        place = tx.nonce - lane.account.nonce
        return 0 <= place < len(lane.txs) and lane.txs[place].hash == tx.hash

    def let_go(self, tx: Tx) -> None:
        """CometBFT's mempool refused it or threw it out."""
        self._before.discard(tx.hash)

    def is_past(self, tx: Tx) -> bool:
        """Whether its nonce is used: it was confirmed, or another one in its place."""
        return tx.nonce < self._lane_of(tx.sender).account.nonce

    def check(self, tx: Tx) -> None:
        """Raise `TxRejected` unless `tx` is its sender's next one, or a better paid one in place of another."""
        lane = self._lane_of(tx.sender)
        account, held = lane.account, lane.txs
        place = tx.nonce - account.nonce
        if place < 0:
            raise NonceTooLow(f"nonce is {tx.nonce}; the account's next one is {account.nonce}")
        if place > len(held):
            raise NonceTooHigh(f"nonce is {tx.nonce}; the sender's next one is {account.nonce + len(held)}")
        cost = lane.cost + tx.cost
        if place < len(held):
            old = held[place]
            cost -= old.cost
            self._check_replacement(tx, old)
        if cost > account.balance:
            raise InsufficientFunds(
                f"the account holds {account.balance}; the sender's pending transactions and this one cost {cost}"
            )

    def _check_replacement(self, tx: Tx, old: Tx) -> None:
        least_price = -(-old.gas_price * (100 + self._price_bump_percent) // 100)
        if tx.hash != old.hash and tx.gas_price < max(least_price, old.gas_price + 1):
            raise ReplacementUnderpriced(
                f"gasPrice is {tx.gas_price}; the pending transaction with this nonce pays {old.gas_price}"
            )

    def add(self, tx: Tx) -> None:
        """Count `tx`, which `check` let pass."""
        lane = self._lane_of(tx.sender)
        place = tx.nonce - lane.account.nonce
        if place < len(lane.txs):
            lane.cost -= lane.txs[place].cost
            lane.txs[place] = tx
        else:
            lane.txs.append(tx)
        lane.cost += tx.cost
        self._lanes[tx.sender] = lane

    def _lane_of(self, sender: Address) -> _Lane:
        lane = self._lanes.get(sender)
        if lane is None:
            base = self._base.get(sender)
            lane = _Lane(self._state.account(sender)) if base is None else base.copy()
            # Without money, it is kept only with something in it: anybody can name such senders.
            if lane.account.balance:
                self._lanes[sender] = lane
        return lane

    def check_update(self, update: ValidatorUpdate) -> None:
        """One at a time: the next one builds on its outcome."""
        if self._update is not None and self._update != update:
            raise UpdateRefused("another validator update waits for its block")

    def add_update(self, update: ValidatorUpdate) -> None:
        self._update = update
