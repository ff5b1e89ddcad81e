"""The shop of docs/tutorial.md in TypeScript; both shops, killed at random steps: each order is delivered exactly once.

`SHOP_SEED=…` draws the same customers and kills again.
"""

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from cairn.client import COIN, Account, Client
from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.pages import Terminal
from tests.support.shop import IN_TYPESCRIPT, PAGE, Customer, PythonShop, Shop, TypeScriptShop, compile_shop
from tests.support.typescript import untested_packages

SEED = int(os.environ.get("SHOP_SEED", random.SystemRandom().randrange(2**32)))
KILLS = 8
ORDERS_AT_ONCE = 8
SELLER, BUYER = Account.dev(1), Account.dev(2)


@pytest.fixture(scope="module")
def compiled(js_packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the program is in JavaScript."""
    directory = tmp_path_factory.mktemp("typescript")
    with NodeProcess.start_dev() as node:
        compile_shop(directory, node.url, js_packages)
    return directory


def test_the_page_in_typescript(compiled: Path, tmp_path: Path) -> None:
    install, _, _, (open_shop, opened) = IN_TYPESCRIPT.steps()
    assert untested_packages(install.line) == []
    pay = PAGE.section("3. Order and pay")
    [told] = pay.code("text")
    with NodeProcess.start_dev("--block-time", "0.1") as node:
        shop = TypeScriptShop(tmp_path, node.url, compiled)
        assert open_shop.split() == list(shop.command)
        with shop.open() as running:
            running.await_text(shop.own(opened))
            Customer(Terminal(tmp_path, node.url), shop).do(*pay.steps())
            running.await_text(shop.own(opened + told))


class Buyers:
    """They order and pay until they are told to stop. Some pay twice, some pay what nobody asked for."""

    def __init__(self, shop: Shop, node: Client, web: httpx.Client) -> None:
        self._shop = shop
        self._web = web
        self._node = node
        self._rng = random.Random(SEED)
        self.amounts: set[str] = set()
        """Of all orders."""
        self.paid = 0
        self.stop = threading.Event()

    def buy(self) -> None:
        wallet = self._node.wallet(BUYER)
        while not self.stop.is_set():
            amounts = [self._order(f"order-{len(self.amounts) + number}") for number in range(ORDERS_AT_ONCE)]
            self.amounts.update(amounts)
            values = [*map(int, amounts), int(self._rng.choice(amounts)), self._rng.randrange(1, 20 * COIN)]
            self._rng.shuffle(values)
            for sent in wallet.send_all([(SELLER.address, value) for value in values]):
                assert isinstance(sent, str), sent
                self._node.wait(sent, timeout_s=PATIENCE_S)
            self.paid += len(values)

    def _order(self, name: str) -> str:
        """The amount to pay. Whoever is not sure to be heard orders again, which makes no second order."""
        amounts = {self._put(name), self._put(name)}
        assert len(amounts) == 1, amounts
        return amounts.pop()

    def _put(self, name: str) -> str:
        """Again and again, until the shop is open and answers."""
        answers: list[str] = []

        def is_answered() -> bool:
            try:
                answers.append(self._web.put(self._shop.url + name).json()["amount"])
            except httpx.TransportError:
                return False
            return True

        wait_until(is_answered, PATIENCE_S, f"an answer of the shop to {name}")
        return answers[-1]


@pytest.mark.parametrize("language", ["Python", "TypeScript"])
def test_each_order_is_delivered_once(language: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with (
        NodeProcess.start_dev("--block-time", "0.1", "--workers", "1") as process,
        Client(process.url, timeout_s=PATIENCE_S) as node,
        httpx.Client(timeout=PATIENCE_S) as web,
    ):
        shop: Shop
        if language == "Python":
            shop = PythonShop(tmp_path, process.url)
        else:
            shop = TypeScriptShop(tmp_path, process.url, request.getfixturevalue("compiled"))
        buyers = Buyers(shop, node, web)
        with ThreadPoolExecutor(1) as others:
            buying = others.submit(buyers.buy)
            try:
                delivered = kill_again_and_again(shop)
            finally:
                buyers.stop.set()
                # Who still waits for an answer gets it.
                with shop.open() as running:
                    buying.result(PATIENCE_S)
                    running.await_booked(buyers.paid)
        books = shop.books()
        assert books.tickets.keys() == buyers.amounts
        assert {amount: books.tickets[amount] for amount in delivered} == delivered, f"SHOP_SEED={SEED}"
        assert books.refunds == expected_refunds(node, buyers.amounts), f"SHOP_SEED={SEED}"


def kill_again_and_again(shop: Shop) -> dict[str, str]:
    """The tickets that were on disk after the kills; what was delivered must not be replaced."""
    rng = random.Random(SEED)
    delivered: dict[str, str] = {}
    for _ in range(KILLS):
        with shop.open_doomed(rng) as running:
            running.await_kill()
        delivered = shop.books().tickets | delivered
    return delivered


def expected_refunds(node: Client, amounts: set[str]) -> list[str]:
    """The payments that are not the first of an order's amount, in the order of the chain."""
    unpaid = set(amounts)
    refunds = []
    for payment in reversed(list(node.history(SELLER.address))):
        if str(payment.value) in unpaid:
            unpaid.remove(str(payment.value))
        else:
            refunds.append(payment.tx_hash)
    return refunds
