"""A long chain and a full mempool: the explorer shows pages of them, and never freezes.

`EXPLORER_BLOCKS=100000 EXPLORER_PENDING=10000 pytest -s` takes more, and shows the figures.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.explorer.conftest import DEV_SIGNED
from tests.support.browser import Visitor
from tests.support.node_process import NodeProcess
from tests.support.pace import Pace
from tests.support.pauses import is_any_child_paused
from tests.support.public import PublicNode
from tests.support.wallet import dev_account

BLOCKS = int(os.environ.get("EXPLORER_BLOCKS", "600"))
PENDING = int(os.environ.get("EXPLORER_PENDING", "600"))
MINED_AT_ONCE = 2_000
BATCH = 100
TIMEOUT_S = 900 + BLOCKS // 40
"""Most of it goes into making the blocks, each of which is synced to the disk."""

# Far above what a person would bear on a machine of their own.
MAX_INTERACTIVE_S = 15
MAX_TASK_S = 1.5
MAX_ROWS = 61

SENDERS = [dev_account(index).address for index in range(10)]
WATCH_TASKS = """
window.longest = 0;
new PerformanceObserver((list) => {
  for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
}).observe({ type: "longtask", buffered: true });
"""


@dataclass(frozen=True, slots=True)
class Figures:
    interactive_ms: float
    """From the first byte asked for to a page that is whole and answers."""
    longest_task_ms: float
    """The longest time in which the page could not answer; 0 when none took 50 ms."""
    rows: int


class Reader(Visitor):
    """Opens views from nothing and keeps what it took."""

    def __init__(self, browser: Browser, url: str, pace: Pace) -> None:
        super().__init__(browser, url)
        self._pace = pace
        self.page.add_init_script(WATCH_TASKS)

    def limit_ms(self, limit_s: float) -> float:
        """What a limit comes to on this machine; the browser may have been paused as well."""
        return 1_000 * self._pace.stretch(limit_s)

    def measure(self, route: str) -> Figures:
        page = self.open(route)
        page.wait_for_function("() => performance.getEntriesByName('cairn-interactive').length > 0")
        # Verification of a large block goes on after the page is there.
        expect(page.get_by_text("Verifying")).to_have_count(0)
        interactive = self.run("() => performance.getEntriesByName('cairn-interactive')[0].startTime")
        figures = Figures(interactive, self.run("() => window.longest"), page.get_by_role("row").count())
        print(
            f"\n  {route[:60]:60} {figures.interactive_ms:7.0f} ms, longest task {figures.longest_task_ms:4.0f} ms",
            end="",
        )
        assert figures.interactive_ms < self.limit_ms(MAX_INTERACTIVE_S), route
        assert figures.longest_task_ms < self.limit_ms(MAX_TASK_S), route
        assert figures.rows < MAX_ROWS, route
        return figures


@pytest.fixture(scope="module")
def node() -> Iterator[PublicNode]:
    """A chain that makes blocks only when told to."""
    with NodeProcess.start_dev("--block-time", "86400", "--workers", "1") as process:
        public = PublicNode(process.url)
        public.http.timeout = 600
        mine(public, BLOCKS)
        yield public
        public.close()


@pytest.fixture
def reader(browser: Browser, node: PublicNode) -> Iterator[Reader]:
    with Pace(is_any_child_paused) as pace:
        visitor = Reader(browser, node.url, pace)
        yield visitor
        visitor.close()
    assert visitor.complaints == []


def mine(node: PublicNode, count: int) -> None:
    for done in range(0, count, MINED_AT_ONCE):
        params = [hex(min(MINED_AT_ONCE, count - done))]
        answer = node.http.post("/rpc", json={"jsonrpc": "2.0", "id": 1, "method": "hardhat_mine", "params": params})
        assert answer.json()["result"] is True, answer.text


def fill_mempool(node: PublicNode, count: int) -> None:
    for first in range(0, count, BATCH):
        batch = [
            {"from": SENDERS[index % 10], "to": SENDERS[(index + 1) % 10], "value": str(10**18 + index), "gas": 21_000}
            for index in range(first, min(count, first + BATCH))
        ]
        assert all("txHash" in result for result in node.post(batch, "/txs").json())


@pytest.mark.timeout(TIMEOUT_S)
def test_views_of_a_long_chain_open_and_a_block_is_found(reader: Reader, node: PublicNode) -> None:
    head = node.read("/chain")["head"]["blockHeight"]
    assert head >= BLOCKS
    routes = ("/", "/blocks", f"/blocks?after={head // 2}", "/blocks?after=25", f"/block/{head // 2}")
    for route in (*routes, "/txs", "/accounts", "/status"):
        reader.measure(route)
    page = reader.page
    page.get_by_role("searchbox").fill(f"{head - 7:,}")
    page.get_by_role("searchbox").press("Enter")
    expect(page.locator("h1")).to_have_text(f"Block {head - 7:,}")


@pytest.mark.timeout(TIMEOUT_S)
def test_blocks_faster_than_anyone_can_look(reader: Reader, node: PublicNode) -> None:
    reader.measure("/")
    mine(node, 300)
    head = node.read("/chain")["head"]["blockHeight"]
    expect(reader.page.locator("h1")).to_contain_text(f"{head:,}")
    heights = reader.page.locator(".chart").first.locator("g").evaluate_all("(all) => all.map((g) => g.dataset.height)")
    assert heights == [str(height) for height in range(head, head - 60, -1)]
    assert reader.run("() => window.longest") < reader.limit_ms(MAX_TASK_S)


@pytest.mark.timeout(TIMEOUT_S)
def test_full_mempool_and_then_a_full_block(reader: Reader, node: PublicNode) -> None:
    fill_mempool(node, PENDING)
    assert node.read("/chain")["mempool"]["pending"] == PENDING
    reader.measure("/")
    reader.measure("/mempool")
    expect(reader.page.locator("h2")).to_have_text(f"{PENDING:,} transactions")
    for _ in range(3):
        before = str(reader.page.locator("tbody a").first.get_attribute("href"))
        reader.page.get_by_role("link", name="Next page").click()
        expect(reader.page.locator("tbody a").first).not_to_have_attribute("href", before)
    reader.measure(f"/account/{SENDERS[0]}")
    mine(node, 1)
    head = node.read("/chain")["head"]["blockHeight"]
    reader.measure(f"/block/{head}")
    expect(reader.page.get_by_text(DEV_SIGNED)).to_be_visible()
    reader.measure(f"/account/{SENDERS[0]}")
    reader.measure("/accounts")
    reader.measure("/txs")
    expect(reader.page.locator(".page-number")).to_have_text("Transactions 1 to 25")
    tx_hash = node.read(f"/block/{head}")["transactions"][PENDING // 2]
    reader.measure(f"/tx/{tx_hash}")
    expect(reader.page.get_by_text(DEV_SIGNED)).to_be_visible()
