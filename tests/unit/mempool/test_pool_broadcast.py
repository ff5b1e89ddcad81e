"""What a broadcaster asks of the pool: what is new, what is in a row, and who answers for it."""

from cairn.mempool.order import Entry
from tests.support.transfers import address, transfer
from tests.unit.mempool.pools import NOW, PoolWithState


def found(pools: PoolWithState, sender: int, nonce: int) -> Entry:
    entry = pools.pool.find(transfer(sender, nonce).hash)
    assert entry is not None
    return entry


def test_tells_what_came_in_since() -> None:
    pools = PoolWithState()
    first, second = transfer(1, 0), transfer(2, 0)
    pools.admit(first)
    seq = pools.pool.next_seq
    assert pools.pool.order.entries_since(seq) == []
    replacement = transfer(1, 0, gas_price=20)
    pools.admit(second, replacement)
    assert [entry.tx for entry in pools.pool.order.entries_since(seq)] == [replacement, second]
    assert [entry.seq for entry in pools.pool.order.entries_since(0)] == [2, 1]


def test_tells_what_of_a_sender_is_in_a_row() -> None:
    pools = PoolWithState()
    pools.admit(*(transfer(1, nonce) for nonce in (0, 1, 2, 4)))
    assert [entry.tx.nonce for entry in pools.pool.order.pending_from(address(1), 1)] == [1, 2]
    assert list(pools.pool.order.pending_from(address(1), 3)) == []
    assert list(pools.pool.order.pending_from(address(2), 0)) == []
    pools.commit(transfer(1, 0))
    assert [entry.tx.nonce for entry in pools.pool.order.pending_from(address(1), 0)] == [1, 2]


def test_marks_what_only_other_nodes_took_in() -> None:
    pools = PoolWithState()
    pools.admit(transfer(1, 0))
    pools.pool.admit(transfer(2, 0), NOW, local=False)
    assert (found(pools, 1, 0).local, found(pools, 2, 0).local) == (True, False)
    assert [entry.tx.sender for entry in pools.pool.order.mining_order()] == [address(1), address(2)]


def test_removes_one_and_lets_its_successors_wait() -> None:
    pools = PoolWithState()
    chain = pools.admit_chain(1, [10] * 3)
    assert pools.pool.remove(chain[1].hash) == [(chain[1].hash, "evicted")]
    assert pools.pool.remove(chain[1].hash) == []
    assert (pools.pool.pending_count, pools.pool.queued_count) == (1, 1)
    assert pools.pool.drops.get(chain[1].hash) == "evicted"
