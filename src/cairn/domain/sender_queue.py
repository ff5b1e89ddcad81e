"""One sender's transactions in a row: what they take from its account, and which one may be next.

The pool, CometBFT's mempool and blocks all go by this one rule.
"""

import msgspec

from cairn.domain.errors import (
    InsufficientFunds,
    NonceTooHigh,
    NonceTooLow,
    ReplacementUnderpriced,
    TxRejected,
)
from cairn.domain.types import DYNAMIC_FEE, Account, Tx


class SenderQueue(msgspec.Struct, gc=False, eq=False):
    """Only sums: whoever holds the transactions tells it what comes and goes.

    nonce            next_nonce
      |                  |
      [ queued: no hole ] hole [ only paid for ]
    """

    balance: int
    """What the account holds before any of the queue is paid, with all that it received meanwhile."""
    nonce: int
    """The account's: what the first in the queue carries."""
    next_nonce: int
    """What the next one must carry."""
    cost: int = 0
    """Of all that is queued, and of what waits behind a hole. While the balance covers it, each can be paid for."""

    # Whether one fits.

    def take(self, tx: Tx) -> bool:
        """Queue `tx` if it is the next one and can be paid for."""
        cost = self.cost + tx.cost
        if tx.nonce != self.next_nonce or cost > self.balance:
            return False
        self.next_nonce += 1
        self.cost = cost
        return True

    def refusal(self, tx: Tx) -> TxRejected:
        """Why `take` did not take `tx` into a block.

        The order of the reasons is part of consensus: validators sign a hash over the number of the first one.
        """
        account = self.account
        if tx.nonce < account.nonce:
            return NonceTooLow(f"nonce is {tx.nonce}; the account's next one is {account.nonce}")
        if tx.cost > account.balance:
            return InsufficientFunds(f"the transfer costs {tx.cost} with its fee; the account holds {account.balance}")
        return NonceTooHigh(f"nonce is {tx.nonce}; the account's next one is {account.nonce}")

    def check_place(self, tx: Tx, old: Tx | None, price_bump_percent: int, nonce_gap: int = 0) -> None:
        """Raise `TxRejected` unless `tx` may stand where `old` stands, or behind the queue where nothing does.

        `nonce_gap` is how many nonces may be missing before it.
        """
        if tx.nonce < self.nonce:
            raise NonceTooLow(f"nonce is {tx.nonce}; the account's next one is {self.nonce}")
        if tx.nonce > self.next_nonce + nonce_gap:
            near = f"the next one is {self.next_nonce}, and {nonce_gap} ahead is the most"
            exact = f"the sender's next one is {self.next_nonce}"
            raise NonceTooHigh(f"nonce is {tx.nonce}; {near if nonce_gap else exact}")
        if old is not None and old.hash != tx.hash:
            check_replacement(tx, old, price_bump_percent)

    def check_funds(self, tx: Tx, old: Tx | None = None) -> None:
        """Raise `InsufficientFunds` unless `tx`, in place of `old`, and all the others can be paid for."""
        cost = self.cost + tx.cost
        if old is not None:
            cost -= old.cost
        if cost > self.balance:
            raise InsufficientFunds(
                f"the account holds {self.balance}; the sender's pending transactions and this one cost {cost}"
            )

    # What it comes to.

    @property
    def account(self) -> Account:
        """The account once all of the queue is applied."""
        return Account(self.balance - self.cost, self.next_nonce)

    @property
    def is_overdrawn(self) -> bool:
        return self.cost > self.balance


def check_replacement(tx: Tx, old: Tx, price_bump_percent: int) -> None:
    """Raise `ReplacementUnderpriced` unless both caps of `tx` are far enough above those of `old`.

    Only so is what it pays above what `old` pays at any base fee; a legacy transaction has its gas price for both.
    """
    caps = (
        ("maxFeePerGas", tx.fee_cap, old.fee_cap),
        ("maxPriorityFeePerGas", tx.tip_cap, old.tip_cap),
    )
    for field, offered, before in caps:
        if offered < least_replacement_price(before, price_bump_percent):
            name = field if tx.kind == DYNAMIC_FEE else "gasPrice"
            beside = "" if tx.kind == old.kind else f" as {field}"
            raise ReplacementUnderpriced(
                f"{name} is {offered}; the pending transaction with this nonce pays {before}{beside}, "
                f"and a replacement must pay {price_bump_percent} % more"
            )


def least_replacement_price(old: int, price_bump_percent: int) -> int:
    """What must be offered at least in place of `old`."""
    bumped = -(-old * (100 + price_bump_percent) // 100)
    # Where transactions are free, ten per cent more than nothing would be nothing.
    return max(bumped, old + 1)
