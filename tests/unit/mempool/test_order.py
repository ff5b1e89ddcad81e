"""Each sender's transactions, bids and rankings, and the mining order over all senders, also at large sizes."""

import heapq
import random

import pytest

from cairn.domain.types import EMPTY_ACCOUNT, MAX_UINT256, Address
from cairn.mempool.order import QUEUED, Entry, Order, Ranking, SenderTxs, bid_of, pays_more
from tests.support.transfers import address, transfer
from tests.unit.mempool.pools import NOW, PoolWithState


def popped(chains: list[list[Entry]]) -> list[Entry]:
    heads = [(chain[0].bid, number, 0) for number, chain in enumerate(chains) if chain]
    heapq.heapify(heads)
    order = []
    while heads:
        _, number, position = heapq.heappop(heads)
        order.append(chains[number][position])
        if position + 1 < len(chains[number]):
            heapq.heappush(heads, (chains[number][position + 1].bid, number, position + 1))
    return order


class Filled:
    """An order with chains of random prices, and the same chains as plain lists."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.order = Order()
        self.chains: dict[Address, list[Entry]] = {address(sender): [] for sender in range(1, 41)}
        self.seq = 0

    def entry(self, sender: int, nonce: int) -> Entry:
        self.seq += 1
        price = self.random.choice([10, 10, 11, 20, 50])
        tx = transfer(sender, nonce, gas_price=price, value=self.seq)
        return Entry(tx, 0, bid_of(price, self.seq), tx.cost)

    def fill(self, count: int) -> None:
        for _ in range(count):
            sender = self.random.randrange(1, 41)
            chain = self.chains[address(sender)]
            sender_txs = self.order.by_sender.get(address(sender)) or self.order.new_sender(
                address(sender), EMPTY_ACCOUNT
            )
            entry = self.entry(sender, sender_txs.next_nonce)
            self.order.add(sender_txs, entry)
            chain.append(entry)

    def in_step(self) -> bool:
        order = list(self.order.mining_order())
        return order == popped(list(self.chains.values())) and self.order.pending_count == len(order)


def test_the_mining_order_takes_the_best_first_transaction_each_time() -> None:
    filled = Filled(seed=1)
    filled.fill(3_000)
    assert filled.in_step()


def test_the_mining_order_holds_while_blocks_and_arrivals_alternate() -> None:
    filled = Filled(seed=2)
    for _ in range(10):
        filled.fill(300)
        block = list(filled.order.mining_order())[:200]
        taken: dict[Address, int] = {}
        for entry in block:
            taken[entry.tx.sender] = entry.tx.nonce + 1
        for sender, nonce in taken.items():
            sender_txs = filled.order.by_sender.get(sender)
            assert sender_txs is not None
            departed = filled.order.advance(sender_txs, nonce)
            assert departed == filled.chains[sender][: len(departed)]
            del filled.chains[sender][: len(departed)]
            if not filled.chains[sender]:
                # A sender_txs that ended starts over at nonce 0 here, as an order knows no accounts.
                assert filled.order.by_sender.get(sender) is None
        assert filled.in_step()


def test_the_mining_order_holds_after_replacements() -> None:
    filled = Filled(seed=3)
    filled.fill(1_000)
    for _ in range(300):
        sender = filled.random.choice([sender for sender, chain in filled.chains.items() if chain])
        chain = filled.chains[sender]
        position = filled.random.randrange(len(chain))
        sender_txs = filled.order.by_sender.get(sender)
        assert sender_txs is not None
        new = filled.entry(int.from_bytes(sender, "big"), position)
        filled.order.replace(sender_txs, chain[position], new)
        chain[position] = new
        assert filled.in_step()


def test_a_higher_price_is_the_better_bid_whenever_it_came() -> None:
    assert bid_of(11, seq=2**63) < bid_of(10, seq=0)


def test_at_one_price_the_earlier_bid_is_better() -> None:
    assert bid_of(10, seq=1) < bid_of(10, seq=2)


def test_no_bid_equals_the_lead_of_a_queued_transaction() -> None:
    assert bid_of(MAX_UINT256, seq=0) > QUEUED


def test_pays_more_looks_at_the_price_alone() -> None:
    assert pays_more(bid_of(11, seq=9), bid_of(10, seq=1))
    assert not pays_more(bid_of(10, seq=1), bid_of(10, seq=9))
    assert not pays_more(bid_of(9, seq=1), bid_of(10, seq=9))


def test_a_ranking_is_sorted_whatever_the_order_of_additions() -> None:
    ranking = Ranking()
    entries = {number: Entry(transfer(1, number), 0, number, 0) for number in (30, 10, 20)}
    for number, entry in entries.items():
        ranking.add(number, entry)
    assert list(ranking.entries_from(0)) == [entries[10], entries[20], entries[30]]
    assert list(ranking.entries_from(20)) == [entries[20], entries[30]]
    assert list(ranking.entries_from(21)) == [entries[30]]
    assert list(ranking.entries_from(31)) == []
    assert ranking.find_last() is entries[30]
    ranking.remove(30)
    assert ranking.find_last() is entries[20]
    assert len(ranking) == 2


def test_an_empty_ranking_has_no_last_entry() -> None:
    assert Ranking().find_last() is None


def test_removing_an_unknown_number_raises() -> None:
    with pytest.raises(ValueError, match="7 not in list"):
        Ranking().remove(7)


def entry(nonce: int) -> Entry:
    tx = transfer(1, nonce)
    return Entry(tx, 0, bid_of(10, nonce), tx.cost)


def some_sender() -> tuple[SenderTxs, dict[int, Entry]]:
    sender_txs = SenderTxs(0, nonce=5, next_nonce=5, sender=address(1), arrival=1)
    entries = {nonce: entry(nonce) for nonce in (5, 6, 9, 8)}
    sender_txs.append(entries[5])
    sender_txs.append(entries[6])
    sender_txs.queued = {9: entries[9], 8: entries[8]}
    return sender_txs, entries


def test_the_length_counts_pending_and_queued() -> None:
    sender_txs, _ = some_sender()
    assert (len(sender_txs), sender_txs.next_nonce) == (4, 7)


def test_a_transaction_is_found_by_nonce_pending_or_queued() -> None:
    sender_txs, entries = some_sender()
    assert [sender_txs.find(nonce) for nonce in range(4, 11)] == [entries.get(nonce) for nonce in range(4, 11)]


def test_entries_from_a_nonce_are_in_order() -> None:
    sender_txs, _ = some_sender()
    for nonce, expected in [(0, [5, 6, 8, 9]), (5, [5, 6, 8, 9]), (6, [6, 8, 9]), (7, [8, 9]), (9, [9]), (10, [])]:
        assert [found.tx.nonce for found in sender_txs.entries_from(nonce)] == expected


def test_cut_removes_the_pending_from_a_nonce_on() -> None:
    sender_txs, entries = some_sender()
    assert sender_txs.cut(6) == [entries[6]]
    assert (sender_txs.pending, sender_txs.nonce, sender_txs.next_nonce) == ([entries[5]], 5, 6)
    assert sender_txs.find(6) is None


def test_advance_removes_pending_up_to_and_beyond_the_last() -> None:
    sender_txs, entries = some_sender()
    assert sender_txs.advance(6) == [entries[5]]
    assert (sender_txs.pending, sender_txs.nonce, sender_txs.next_nonce) == ([entries[6]], 6, 7)
    assert sender_txs.advance(6) == []
    assert sender_txs.advance(8) == [entries[6]]
    assert (sender_txs.pending, sender_txs.nonce, sender_txs.next_nonce) == ([], 8, 8)


def found(pools: PoolWithState, sender: int, nonce: int) -> Entry:
    entry = pools.pool.find(transfer(sender, nonce).hash)
    assert entry is not None
    return entry


def test_entries_since_gives_later_arrivals_newest_first() -> None:
    pools = PoolWithState()
    first, second = transfer(1, 0), transfer(2, 0)
    pools.admit(first)
    seq = pools.pool.next_seq
    assert pools.pool.order.entries_since(seq) == []
    replacement = transfer(1, 0, gas_price=20)
    pools.admit(second, replacement)
    assert [entry.tx for entry in pools.pool.order.entries_since(seq)] == [replacement, second]
    assert [entry.seq for entry in pools.pool.order.entries_since(0)] == [2, 1]


def test_pending_from_gives_the_transactions_of_a_sender_without_a_gap() -> None:
    pools = PoolWithState()
    pools.admit(*(transfer(1, nonce) for nonce in (0, 1, 2, 4)))
    assert [entry.tx.nonce for entry in pools.pool.order.pending_from(address(1), 1)] == [1, 2]
    assert list(pools.pool.order.pending_from(address(1), 3)) == []
    assert list(pools.pool.order.pending_from(address(2), 0)) == []
    pools.commit(transfer(1, 0))
    assert [entry.tx.nonce for entry in pools.pool.order.pending_from(address(1), 0)] == [1, 2]


def test_a_transaction_of_another_node_is_not_local() -> None:
    pools = PoolWithState()
    pools.admit(transfer(1, 0))
    pools.pool.admit(transfer(2, 0), NOW, local=False)
    assert (found(pools, 1, 0).local, found(pools, 2, 0).local) == (True, False)
    assert [entry.tx.sender for entry in pools.pool.order.mining_order()] == [address(1), address(2)]


def test_removing_a_transaction_queues_its_successors() -> None:
    pools = PoolWithState()
    chain = pools.admit_chain(1, [10] * 3)
    assert pools.pool.remove(chain[1].hash) == [(chain[1].hash, "evicted")]
    assert pools.pool.remove(chain[1].hash) == []
    assert (pools.pool.pending_count, pools.pool.queued_count) == (1, 1)
    assert pools.pool.drops.get(chain[1].hash) == "evicted"
