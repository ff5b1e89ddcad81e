"""A pool whose senders are rich unless a test says otherwise."""

from collections.abc import Sequence

from cairn.domain.steps import finish
from cairn.domain.types import Tx
from cairn.mempool.pool import Drop, Mempool, PoolLimits
from tests.support.transfers import RULES, Accounts, address, transfer

NOW = 1_700_000_000
RICH = 10**18


class PoolWithState:
    def __init__(self, limits: PoolLimits | None = None) -> None:
        self.state = Accounts()
        for sender in range(1, 20):
            self.state.put(address(sender), RICH, 0)
        self.pool = Mempool(RULES, limits or PoolLimits(), self.state)

    def admit(self, *txs: Tx, at: int = NOW) -> None:
        for tx in txs:
            assert self.pool.admit(tx, at).added

    def admit_chain(self, sender: int, prices: Sequence[int], first_nonce: int = 0) -> list[Tx]:
        txs = [transfer(sender, nonce, gas_price=price) for nonce, price in enumerate(prices, first_nonce)]
        self.admit(*txs)
        return txs

    def order(self) -> list[Tx]:
        return self.select(10**12)

    def select(self, gas_limit: int) -> list[Tx]:
        """What a block would have; none is made."""
        txs = finish(self.pool.take(gas_limit))
        self.pool.give_back()
        return txs

    def listed(self) -> list[Tx]:
        return [entry.tx for entry in self.pool.page(1_000).entries]

    def expire(self, up_s: int) -> list[Drop]:
        """The node has been up for so long."""
        self.pool.up_s = up_s
        return self.pool.expire()

    def commit(self, *txs: Tx) -> list[Drop]:
        """Apply a block to the state, then tell the pool."""
        for tx in txs:
            self.state.apply(tx)
        return self.pool.confirm(txs)
