"""The node goes and comes back; the page says so, and misses nothing."""

from pathlib import Path

from playwright.sync_api import Browser, Route, expect

from tests.support.browser import Visitor
from tests.support.node_process import NodeProcess
from tests.support.ports import free_ports
from tests.support.public import PublicNode
from tests.support.rpc import rpc
from tests.support.wallet import dev_account

RICH = dev_account(0).address
BLOCKS = 5
RECORD_HEADINGS = """() => {
    globalThis.headings = [];
    new MutationObserver(() => globalThis.headings.push(document.querySelector("main h1")?.textContent))
        .observe(document.querySelector("main"), { childList: true, subtree: true, characterData: true });
}"""


def start(port: int, data_dir: Path, *options: str) -> NodeProcess:
    node = NodeProcess.start(
        ("dev", "--port", str(port), "--data-dir", str(data_dir), "--block-time", "0", "--workers", "1", *options)
    )
    node.wait_ready()
    return node


def make_blocks(process: NodeProcess, count: int) -> int:
    """The height of the newest."""
    public = PublicNode(process.url)
    for _ in range(count):
        public.await_confirmed(public.post({"from": RICH, "to": RICH, "value": 1, "gas": 21_000}).json()["txHash"])
    height = int(public.read("/chain")["head"]["blockHeight"])
    public.close()
    return height


def test_no_block_is_missing_after_a_restart(tmp_path: Path, browser: Browser) -> None:
    [port] = free_ports(1)
    with start(port, tmp_path / "chain") as node:
        head = make_blocks(node, BLOCKS)
        visitor = Visitor(browser, node.url)
        page = visitor.open()
        expect(page.locator("h1")).to_contain_text(str(head))
        assert node.stop() == 0
    expect(page.locator("#connection")).to_have_text("Offline")
    page.get_by_role("link", name="Blocks", exact=True).click()
    expect(page.locator("main")).to_contain_text("The node does not answer")
    page.go_back()
    with start(port, tmp_path / "chain") as node:
        # These come before the page is back, or after, or meanwhile.
        head = make_blocks(node, BLOCKS)
        expect(page.locator("#connection")).to_have_text("Live")
        expect(page.locator("h1")).to_contain_text(str(head))
        assert visitor.shown_heights() == list(range(head, 0, -1))
        head = make_blocks(node, 1)
        expect(page.locator("h1")).to_contain_text(str(head))
        assert visitor.shown_heights() == list(range(head, 0, -1))
        visitor.close()
    assert visitor.complaints == []


def test_a_new_chain_at_the_same_url_replaces_the_shown_blocks(tmp_path: Path, browser: Browser) -> None:
    [port] = free_ports(1)
    with start(port, tmp_path / "first") as node:
        visitor = Visitor(browser, node.url)
        head = make_blocks(node, BLOCKS)
        page = visitor.open()
        expect(page.locator("h1")).to_contain_text(str(head))
    with start(port, tmp_path / "second") as node:
        expect(page.locator("#connection")).to_have_text("Live")
        expect(page.locator("h1")).to_have_text("Latest block 0")
        assert make_blocks(node, 1) == 1
        expect(page.locator("h1")).to_have_text("Latest block 1")
        assert visitor.shown_heights() == [1]
        visitor.close()
    assert visitor.complaints == []


def test_blocks_that_another_node_of_the_network_does_not_have_yet_stay(tmp_path: Path, browser: Browser) -> None:
    """As behind a proxy, which sends the page to another node when its own is gone."""
    with start(free_ports(1)[0], tmp_path / "chain") as node:
        behind = make_blocks(node, BLOCKS)
        public = PublicNode(node.url)
        chain, blocks = (public.http.get(path).text for path in ("/chain", "/blocks"))
        public.close()
        head = make_blocks(node, 2)
        visitor = Visitor(browser, node.url)
        page = visitor.open()
        expect(page.locator("h1")).to_have_text(f"Latest block {head}")
        visitor.run(RECORD_HEADINGS)
        of_network = chain.replace('"engine":"embedded"', '"engine":"cometbft"')
        page.route("**/chain", lambda route: route.fulfill(body=of_network, content_type="application/json"))
        page.route("**/blocks?*", lambda route: route.fulfill(body=blocks, content_type="application/json"))
        with page.expect_response("**/blocks?*"):
            # A new connection, as after a lost one.
            visitor.run("() => window.dispatchEvent(new Event('online'))")
        page.unroute_all(behavior="wait")
        newest = make_blocks(node, 1)
        expect(page.locator("h1")).to_have_text(f"Latest block {newest}")
        assert visitor.shown_heights() == list(range(newest, 0, -1))
        assert f"Latest block {behind}" not in visitor.run("() => globalThis.headings")
        visitor.close()
    assert visitor.complaints == []


def test_other_dev_accounts_after_a_restart_are_learnt(tmp_path: Path, browser: Browser) -> None:
    [port] = free_ports(1)
    with start(port, tmp_path / "first") as node:
        visitor = Visitor(browser, node.url)
        page = visitor.open("/accounts")
        accounts = page.get_by_role("table", name="Accounts, largest balance first").get_by_role("row")
        expect(accounts).to_have_count(11)
    with start(port, tmp_path / "second", "--accounts", "2"):
        expect(accounts).to_have_count(3)
        visitor.close()
    assert visitor.complaints == []


def test_a_reverted_dev_chain_is_shown_as_it_is(tmp_path: Path, browser: Browser) -> None:
    """evm_revert takes blocks back: the page must not go on showing them, nor say that the node is away."""
    with start(free_ports(1)[0], tmp_path / "chain") as node:
        kept = make_blocks(node, 2)
        snapshots = [rpc(node.url, "evm_snapshot")]
        head = make_blocks(node, BLOCKS)
        visitor = Visitor(browser, node.url)
        page = visitor.open()
        expect(page.locator("h1")).to_contain_text(str(head))
        visitor.record_connection()
        assert rpc(node.url, "evm_revert", snapshots.pop()) is True
        expect(page.locator("h1")).to_have_text(f"Latest block {kept}")
        expect(page.locator("#connection")).to_have_text("Live")
        assert visitor.recorded_connection()[0] == "Connecting"
        snapshots.append(rpc(node.url, "evm_snapshot"))
        head = make_blocks(node, 1)
        expect(page.locator("h1")).to_have_text(f"Latest block {head}")
        assert visitor.shown_heights() == list(range(head, 0, -1))
        void = rpc(node.url, "eth_getBlockByNumber", "latest", False)["hash"]
        visitor.go(f"/block/{head}")
        expect(page.locator("main")).to_contain_text(void)
        assert rpc(node.url, "evm_revert", snapshots.pop()) is True
        # None of the newest blocks is at a height that the page has seen.
        rpc(node.url, "hardhat_mine", hex(100))
        expect(page.locator("main")).not_to_contain_text(void)
        expect(page.locator("h1")).to_have_text(f"Block {head}")
        visitor.close()
    assert visitor.complaints == []


def test_a_view_that_a_revert_interrupts_has_the_focus_when_it_is_there(tmp_path: Path, browser: Browser) -> None:
    with start(free_ports(1)[0], tmp_path / "chain") as node:
        make_blocks(node, 1)
        snapshot = rpc(node.url, "evm_snapshot")
        head = make_blocks(node, 1)
        visitor = Visitor(browser, node.url)
        page = visitor.open()
        expect(page.locator("h1")).to_contain_text(str(head))
        held: list[Route] = []
        page.route("**/block/1", lambda route: held.append(route), times=1)
        with page.expect_request("**/block/1"):
            page.evaluate("location.hash = '#/block/1'")
        assert rpc(node.url, "evm_revert", snapshot) is True
        expect(page.locator("h1")).to_have_text("Block 1")
        expect(page.locator("h1")).to_be_focused()
        visitor.close()
    assert visitor.complaints == []


def test_a_block_that_is_not_made_yet_is_shown_once_it_is(tmp_path: Path, browser: Browser) -> None:
    """Also where it was there before a revert of the dev chain, and is made anew only after the page has looked."""
    with start(free_ports(1)[0], tmp_path / "chain") as node:
        snapshot = rpc(node.url, "evm_snapshot")
        head = make_blocks(node, 1)
        visitor = Visitor(browser, node.url)
        page = visitor.open(f"/block/{head + 1}")
        expect(page.locator("main")).to_contain_text("This page shows the block as soon as it is made.")
        head = make_blocks(node, 1)
        expect(page.locator("h1")).to_have_text(f"Block {head}")
        assert rpc(node.url, "evm_revert", snapshot) is True
        expect(page.locator("h1")).to_have_text("Not found")
        rpc(node.url, "hardhat_mine", hex(100))
        expect(page.locator("h1")).to_have_text(f"Block {head}")
        visitor.close()
    assert visitor.complaints == []
