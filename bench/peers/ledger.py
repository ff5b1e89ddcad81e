"""What the accounts must hold: the balances that every chain has to answer with after the same transfers."""

from collections import Counter
from collections.abc import Iterable

from bench.workload import BALANCE
from cairn.domain.types import TRANSFER_GAS, Address, Tx


class Ledger:
    def __init__(self) -> None:
        self._changes: Counter[Address] = Counter()
        self._nonces: Counter[Address] = Counter()

    def apply(self, txs: Iterable[Tx]) -> None:
        for tx in txs:
            self._changes[tx.sender] -= tx.value + TRANSFER_GAS * tx.gas_price
            self._changes[tx.to] += tx.value
            self._nonces[tx.sender] += 1

    def balance(self, address: Address) -> int:
        """Get what an account holds that the chain began with."""
        return BALANCE + self._changes[address]

    def next_nonce(self, address: Address) -> int:
        return self._nonces[address]
