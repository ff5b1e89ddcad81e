"""A browser and a chain with something to see for each file, and a fresh visitor for each test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, Route

from tests.support.browser import Theme, Visitor, open_browser
from tests.support.node_process import NodeProcess
from tests.support.public import PublicNode
from tests.support.wallet import COIN, dev_account

Visit = Callable[..., Visitor]
Axe = Callable[[Visitor], list[str]]
AXE = Path(__file__).parents[2] / "js" / "node_modules" / "axe-core" / "axe.min.js"
RUN_AXE = "async () => (await axe.run({ resultTypes: ['violations'] })).violations"
EMPTY_BLOCKS = 30
TRANSFERS = 60
"""More than a page of a block's transactions and of an account's history."""
RICH = dev_account(0).address
DEV_SIGNED = "Signed with the published dev key"
"""What the explorer says of a proof that holds, on a dev chain."""


def make_block(node: PublicNode, to: str = RICH, value: int = 1) -> None:
    node.await_confirmed(node.post({"from": RICH, "to": to, "value": str(value), "gas": 21_000}).json()["txHash"])


def fact(page: Page, name: str) -> Locator:
    return page.locator(".facts > div", has=page.get_by_text(name, exact=True))


def search(page: Page, text: str) -> None:
    page.get_by_role("searchbox").fill(text)
    page.get_by_role("searchbox").press("Enter")


class Held:
    """Holds the page's requests for a path, so that no answer comes until they are let go."""

    def __init__(self, page: Page, path: str) -> None:
        self._waiting: list[Route] = []
        self._is_open = False
        page.route(path, self._take)

    def _take(self, route: Route) -> None:
        if self._is_open:
            route.continue_()
        else:
            self._waiting.append(route)

    def let_go(self) -> None:
        self._is_open = True
        for route in self._waiting:
            route.continue_()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Not for longer: while it is open an event loop runs in this thread, and other tests run their own."""
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def process() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev("--block-time", "0.2", "--workers", "1") as started:
        yield started


@pytest.fixture(scope="module")
def node(process: NodeProcess) -> Iterator[PublicNode]:
    """A chain of more than a page of blocks; the newest hold transfers, one of them many."""
    public = PublicNode(process.url)
    mining = {"jsonrpc": "2.0", "id": 1, "method": "hardhat_mine", "params": [hex(EMPTY_BLOCKS)]}
    assert public.http.post("/rpc", json=mining).json()["result"] is True
    first, second = dev_account(0).address, dev_account(1).address
    transfer = {"from": first, "to": second, "value": str(COIN // 8 + 1), "gas": 21_000}
    public.await_confirmed(public.post(transfer).json()["txHash"])
    answers = public.post([transfer] * TRANSFERS, "/txs").json()
    public.await_confirmed(answers[-1]["txHash"])
    yield public
    public.close()


@pytest.fixture
def visit(browser: Browser, node: PublicNode) -> Iterator[Visit]:
    """Makes visitors; at the end, none of them may have had a reason to complain."""
    visitors: list[Visitor] = []

    def make(theme: Theme = "light", is_phone: bool = False) -> Visitor:
        visitors.append(Visitor(browser, node.url, theme, is_phone))
        return visitors[-1]

    yield make
    for visitor in visitors:
        visitor.close()
    assert [complaint for visitor in visitors for complaint in visitor.complaints] == []


@pytest.fixture(scope="module")
def axe() -> Axe:
    """Says what keeps a person out of the view that a visitor sees."""
    if not AXE.exists():
        pytest.skip("axe-core is not here: run `make js`")
    script = AXE.read_text()

    def run(visitor: Visitor) -> list[str]:
        if not visitor.run("() => 'axe' in window"):
            visitor.run(f"() => {{ {script} }}")
        return [f"{each['impact']} {each['id']}: {each['nodes'][0]['html']}" for each in visitor.run(RUN_AXE)]

    return run
