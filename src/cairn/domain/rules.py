"""Whether a transaction is valid: by itself, and after those of its sender before it.

The mempool, the view of CometBFT's mempool, and blocks all use these rules.
"""

import msgspec

from cairn.domain.errors import (
    DataTooLong,
    GasPriceTooLow,
    GasTooHigh,
    GasTooLow,
    InsufficientFunds,
    NonceTooHigh,
    NonceTooLow,
    ReplacementUnderpriced,
    TxRejected,
)
from cairn.domain.types import DYNAMIC_FEE, MAX_UINT64, TRANSFER_GAS, Account, Rules, Tx

RULES_VERSION = 2
"""The version of these rules: nodes with different ones cannot agree on blocks."""
PRICE_BUMP_PERCENT = 10
"""How much more a replacement must pay than the transaction that it replaces."""


def validate_tx(tx: Tx, rules: Rules) -> None:
    """Check `tx` against the chain's parameters. Needs no state; raises `TxRejected`."""
    if tx.data:
        _validate_data(tx, rules)
    elif tx.gas < TRANSFER_GAS:
        raise GasTooLow(f"gas is {tx.gas}; a transfer takes {TRANSFER_GAS}")
    if tx.gas > rules.block_gas_limit:
        raise GasTooHigh(f"gas is {tx.gas}; a block has {rules.block_gas_limit}")
    if tx.gas_price < rules.gas_price:
        raise _price_too_low(tx, rules.gas_price)
    # The account's nonce after it must still fit 64 bits (EIP-2681).
    if tx.nonce >= MAX_UINT64:
        raise NonceTooHigh(f"nonce is {tx.nonce}; the last one is {MAX_UINT64 - 1}")


def check_data(data: bytes, most: int) -> None:
    """Check that the chain, which takes `most` bytes, takes this data. Raises `DataTooLong`."""
    if len(data) > most:
        taken = f"{most} at most" if most else "no data"
        raise DataTooLong(f"the data has {len(data)} bytes; this chain takes {taken}")


def _validate_data(tx: Tx, rules: Rules) -> None:
    check_data(tx.data, rules.max_data_bytes)
    if tx.gas < tx.gas_used:
        raise GasTooLow(f"gas is {tx.gas}; a transfer with this data takes {tx.gas_used}")


def _price_too_low(tx: Tx, base_fee: int) -> GasPriceTooLow:
    if tx.kind == DYNAMIC_FEE:
        return GasPriceTooLow(
            f"max fee per gas less than block base fee: maxFeePerGas: {tx.max_fee}, baseFee: {base_fee}"
        )
    return GasPriceTooLow(f"gasPrice is {tx.gas_price}; this chain takes {base_fee} or more")


class SenderBudget(msgspec.Struct, gc=False, eq=False):
    """What one sender's transactions cost, and which nonce is next.

    It counts those from the account's nonce on that have no gap between them, and the cost of those after a gap. Its
    owner holds the transactions, and reports additions and removals.

    nonce            next_nonce
      |                  |
      [ without a gap   ]      [ after a gap: only their cost ]
    """

    balance: int
    """The account's balance before any of them is paid, including what it received meanwhile."""
    nonce: int
    """The account's nonce, which the first of them has."""
    next_nonce: int
    """The nonce that the next one must have."""
    cost: int = 0
    """The cost of all, those after a gap too. While the balance covers it, each can be paid for.

    In a block it is what they pay: a block may hold what no mempool would accept.
    """

    # Whether one fits.

    def take(self, tx: Tx, tx_cost: int) -> bool:
        """Add `tx`, which costs `tx_cost`, if it has the next nonce and can be paid for."""
        cost = self.cost + tx_cost
        if tx.nonce != self.next_nonce or cost > self.balance:
            return False
        self.next_nonce += 1
        self.cost = cost
        return True

    def refusal(self, tx: Tx) -> TxRejected:
        """Why `take` did not accept `tx` into a block.

        The order of the reasons is part of consensus: validators sign a hash over the number of the first one.
        """
        account = self.account
        if tx.nonce < account.nonce:
            return NonceTooLow(f"nonce is {tx.nonce}; the account's next one is {account.nonce}")
        if tx.debit > account.balance:
            return InsufficientFunds(f"the transfer costs {tx.debit} with its fee; the account holds {account.balance}")
        return NonceTooHigh(f"nonce is {tx.nonce}; the account's next one is {account.nonce}")

    def check_nonce(self, tx: Tx, old: Tx | None, nonce_gap: int = 0) -> None:
        """Raise `TxRejected` unless `tx` may replace `old`, or be added if there is no `old`.

        `nonce_gap` is how many nonces may be missing before it.
        """
        if tx.nonce < self.nonce:
            raise NonceTooLow(f"nonce is {tx.nonce}; the account's next one is {self.nonce}")
        if tx.nonce > self.next_nonce + nonce_gap:
            near = f"the next one is {self.next_nonce}, and {nonce_gap} ahead is the most"
            exact = f"the sender's next one is {self.next_nonce}"
            raise NonceTooHigh(f"nonce is {tx.nonce}; {near if nonce_gap else exact}")
        if old is not None and old.hash != tx.hash:
            check_replacement(tx, old)

    def check_funds(self, tx: Tx, old: Tx | None = None) -> int:
        """Raise `InsufficientFunds` unless `tx`, in place of `old`, and all the others can be paid for.

        Returns the cost of `tx`.
        """
        tx_cost = tx.cost
        cost = self.cost + tx_cost
        if old is not None:
            cost -= old.cost
        if cost > self.balance:
            raise InsufficientFunds(
                f"the account holds {self.balance}; the sender's pending transactions and this one cost {cost}"
            )
        return tx_cost

    # What it comes to.

    @property
    def account(self) -> Account:
        """The account once all without a gap are applied."""
        return Account(self.balance - self.cost, self.next_nonce)

    @property
    def is_overdrawn(self) -> bool:
        return self.cost > self.balance


def check_replacement(tx: Tx, old: Tx) -> None:
    """Raise `ReplacementUnderpriced` unless both caps of `tx` are far enough above those of `old`.

    Otherwise it might pay less than `old` at some base fee. A legacy transaction has its gas price as both caps.
    """
    caps = (
        ("maxFeePerGas", tx.fee_cap, old.fee_cap),
        ("maxPriorityFeePerGas", tx.tip_cap, old.tip_cap),
    )
    for field, offered, before in caps:
        if offered < least_replacement_price(before):
            name = field if tx.kind == DYNAMIC_FEE else "gasPrice"
            beside = "" if tx.kind == old.kind else f" as {field}"
            raise ReplacementUnderpriced(
                f"{name} is {offered}; the pending transaction with this nonce pays {before}{beside}, "
                f"and a replacement must pay {PRICE_BUMP_PERCENT} % more"
            )


def least_replacement_price(old: int) -> int:
    """The least price that may replace `old`."""
    bumped = -(-old * (100 + PRICE_BUMP_PERCENT) // 100)
    # If transactions are free, ten per cent more than 0 would still be 0.
    return max(bumped, old + 1)
