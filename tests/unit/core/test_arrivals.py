"""New pending transactions are told once, in their order, to those who listen."""

import asyncio
from collections.abc import Sequence

from cairn.core.arrivals import Arrivals
from cairn.domain.types import Tx
from tests.support.transfers import transfer
from tests.unit.mempool.pools import NOW, PoolWithState


async def test_what_others_took_in_is_told_too() -> None:
    pools, told = PoolWithState(), list[Tx]()

    def listener(txs: Sequence[Tx]) -> None:
        told.extend(txs)

    pools.pool.admit(transfer(1, 0), NOW, local=False)
    arrivals = Arrivals(pools.pool, asyncio.get_running_loop())
    arrivals.listen(listener)
    # What was here before somebody listened is no arrival.
    arrivals.tell()
    assert told == []
    pools.pool.admit(transfer(2, 0), NOW, local=False)
    pools.admit(transfer(3, 0))
    pools.pool.admit(transfer(2, 1), NOW, local=False)
    arrivals.tell()
    assert {tx.hash for tx in told} == {tx.hash for tx in (transfer(3, 0), transfer(2, 0), transfer(2, 1))}
    arrivals.tell()
    assert len(told) == 3
    arrivals.close()
