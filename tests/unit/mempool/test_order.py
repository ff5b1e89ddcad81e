"""The mining order equals popping the best head again and again, also at sizes that the model is too slow for."""

import heapq
import random

from cairn.domain.types import EMPTY_ACCOUNT, Address
from cairn.mempool.order import Entry, Order, bid_of
from tests.support.transfers import address, transfer


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
        return Entry(transfer(sender, nonce, gas_price=price, value=self.seq), 0, bid_of(price, self.seq))

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


def test_the_order_is_that_of_popping_the_best_head() -> None:
    filled = Filled(seed=1)
    filled.fill(3_000)
    assert filled.in_step()


def test_it_stays_so_while_blocks_and_new_ones_alternate() -> None:
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


def test_it_stays_so_after_replacements() -> None:
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
