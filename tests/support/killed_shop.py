"""A shop and its node, killed again and again while customers order and pay: every order is delivered exactly once.

The shop is killed before a random step that writes to its disk, and the node in the middle of its work, as often. Both
start again with what they have on disk.
"""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from cairn.client import COIN, Account, Client
from cairn.client.models import ConfirmedTransaction
from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.ports import free_ports
from tests.support.shop import Books, Shop

PRICE = 3 * COIN
ORDERS_AT_ONCE = 8
MOST_BOOKED = 12
"""The node is killed after up to so many payments of a life of the shop."""
SELLER, BUYER = Account.dev(1), Account.dev(2)


class KillableNode:
    """A node that starts again at the same address, with its chain."""

    def __init__(self, directory: Path) -> None:
        [port] = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self._args = (
            "dev", "--port", str(port), "--data-dir", str(directory), "--block-time", "0.01", "--workers", "1"
        )  # fmt: skip
        self._start()

    def _start(self) -> None:
        self._process = NodeProcess.start(self._args)

    def kill_and_start(self) -> None:
        self._process.kill_group()
        self._process.close()
        self._start()

    def __enter__(self) -> "KillableNode":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.close()


class Buyers:
    """They order and pay until they are told to stop. Some pay twice, some too little, some for what nobody ordered."""

    def __init__(self, shop: Shop, node: Client, rng: random.Random) -> None:
        self._shop = shop
        self._node = node
        self._rng = rng
        self.orders: list[str] = []
        """Their references."""
        self.paid = 0
        self.stop = threading.Event()

    def buy(self) -> None:
        wallet = self._node.wallet(BUYER)
        with httpx.Client(timeout=PATIENCE_S) as web:
            while not self.stop.is_set():
                names = [f"order-{len(self.orders) + number}" for number in range(ORDERS_AT_ONCE)]
                references = [self._order(web, name) for name in names]
                self.orders += references
                payments: list[tuple[str, int, str | None]] = [(SELLER.address, PRICE, each) for each in references]
                payments += [(SELLER.address, *wrong) for wrong in self._mistakes(references)]
                self._rng.shuffle(payments)
                for sent in wallet.send_all(payments):
                    assert isinstance(sent, str), sent
                    self._node.wait(sent, timeout_s=PATIENCE_S)
                self.paid += len(payments)

    def _mistakes(self, references: list[str]) -> list[tuple[int, str | None]]:
        again, too_little = self._rng.choices(references, k=2)
        return [(PRICE, again), (PRICE - 1, too_little), (PRICE, None), (PRICE, "order 0"), (PRICE, f" {again}")]

    def _order(self, web: httpx.Client, name: str) -> str:
        """The reference to pay with. Whoever is not sure to be heard orders again, which makes no second order."""
        references = {self._put(web, name), self._put(web, name)}
        assert len(references) == 1, references
        return references.pop()

    def _put(self, web: httpx.Client, name: str) -> str:
        """Again and again, until the shop is open and answers."""
        answers: list[str] = []

        def is_answered() -> bool:
            try:
                answers.append(web.put(self._shop.url + name).json()["reference"])
            except (httpx.TransportError, ValueError):
                # Nobody is there, or was killed in the middle of the answer.
                return False
            return True

        wait_until(is_answered, PATIENCE_S, f"an answer of the shop to {name}")
        return answers[-1]


@dataclass
class KilledShop:
    """One run, and what has happened so far."""

    shop: Shop
    node: KillableNode
    rng: random.Random
    kills: int = 0
    """Of each side."""
    delivered: dict[str, str] = field(default_factory=dict)
    """The tickets that were on disk after a kill: none may be replaced."""
    books: Books = field(default_factory=lambda: Books({}, [], []))

    def run(self, kills: int) -> None:
        with Client(self.node.url, timeout_s=PATIENCE_S) as client:
            buyers = Buyers(self.shop, client, random.Random(self.rng.random()))
            with self._buying(buyers):
                for _ in range(kills):
                    self._kill_both()
            self.books = self.shop.books()
            self._check(client, buyers)

    @contextmanager
    def _buying(self, buyers: Buyers) -> Iterator[None]:
        with ThreadPoolExecutor(1) as others:
            buying = others.submit(buyers.buy)
            try:
                yield
            finally:
                buyers.stop.set()
                # Who still waits for an answer gets it.
                with self.shop.open() as running:
                    buying.result(PATIENCE_S)
                    running.await_booked(buyers.paid)

    def _kill_both(self) -> None:
        """A life of the shop, in which the node is killed, too; or after it, if the shop was killed first."""
        last = len(self.shop.books().payments) + self.rng.randrange(MOST_BOOKED)
        with self.shop.open_doomed(self.rng) as running:
            wait_until(
                lambda: not running.is_open or len(self.shop.books().payments) > last, PATIENCE_S, "payments or a kill"
            )
            self.node.kill_and_start()
            running.await_kill()
        self.kills += 1
        self.delivered = self.shop.books().tickets | self.delivered

    def _check(self, client: Client, buyers: Buyers) -> None:
        received = [tx for tx in reversed(list(client.history(SELLER.address))) if tx.to == SELLER.address.lower()]
        assert self.books.payments == [tx.tx_hash for tx in received], "each payment is booked once, in order"
        assert self.books.tickets.keys() == set(buyers.orders), "each order is delivered"
        kept = {reference: self.books.tickets[reference] for reference in self.delivered}
        assert kept == self.delivered, "each order is delivered once"
        assert self.books.refunds == expected_refunds(received, buyers.orders)


def expected_refunds(received: list[ConfirmedTransaction], orders: list[str]) -> list[str]:
    """The payments that are not the first of an order's price with its reference, in the order of the chain."""
    unpaid = set(orders)
    refunds = []
    for payment in received:
        if payment.value == PRICE and payment.reference in unpaid:
            unpaid.remove(payment.reference)
        else:
            refunds.append(payment.tx_hash)
    return refunds
