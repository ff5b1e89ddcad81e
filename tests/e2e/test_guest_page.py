"""A developer's page on another port of this machine, in a real browser, against a dev chain."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.support.browser import TIMEOUT_MS, open_browser
from tests.support.node_process import NodeProcess
from tests.support.public import PublicNode
from tests.support.wallet import dev_account, new_account, sign_transfer

PAGE = b"<!doctype html><title>a shop</title>"
FOREIGN = "http://shop.example/"

FETCH = """async ([url, body, headers]) => {
    const options = body && { method: "POST", body: JSON.stringify(body), headers };
    try {
        const answer = await fetch(url, options ?? {});
        return [answer.status, await answer.json(), answer.headers.get("x-chain-id")];
    } catch (failure) {
        return [0, String(failure), null];
    }
}"""
FOLLOW = """url => new Promise(resolve => {
    const socket = new WebSocket(url);
    socket.onerror = () => resolve(null);
    socket.onmessage = message => {
        const content = JSON.parse(message.data);
        if (content.event === "newBlock") resolve(content);
    };
})"""
CALL = """([url, method]) => new Promise(resolve => {
    const socket = new WebSocket(url);
    socket.onerror = () => resolve(null);
    socket.onopen = () => socket.send(JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: [] }));
    socket.onmessage = message => resolve(JSON.parse(message.data));
})"""


class Shop(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def shop_server() -> Iterator[int]:
    """The port of a page of its own."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shop) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture(scope="module")
def process() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev("--workers", "2", "--block-time", "0.01") as node:
        yield node


@pytest.fixture
def node(process: NodeProcess) -> Iterator[PublicNode]:
    public = PublicNode(process.url)
    yield public
    public.close()


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with open_browser() as browser, shop_server() as port:
        tab = browser.new_context().new_page()
        tab.set_default_timeout(TIMEOUT_MS)
        tab.route(FOREIGN, lambda route: route.fulfill(body=PAGE.decode(), content_type="text/html"))
        tab.goto(f"http://localhost:{port}/")
        yield tab


def fetch(page: Page, url: str, body: object = None, headers: object = None) -> Any:
    return page.evaluate(FETCH, [url, body, headers or {"content-type": "application/json"}])


def test_the_page_reads_follows_and_submits_what_it_has_signed(page: Page, node: PublicNode) -> None:
    status, chain, chain_id = fetch(page, node.url + "/chain")
    assert (status, chain["chainId"], chain_id) == (200, 1337, "1337"), "headers can be read, too"
    rich, to = dev_account(0), new_account().address
    transfer = sign_transfer(rich, to, 5, node.next_nonce(rich.address))
    status, answer, _ = fetch(page, node.url + "/tx", transfer.body)
    assert (status, answer["txHash"]) == (200, transfer.tx_hash)
    block = page.evaluate(FOLLOW, "ws" + node.url.removeprefix("http") + "/events?newBlock&fromHeight=1")
    assert block["blockHeight"] == 1
    node.await_confirmed(transfer.tx_hash)
    assert fetch(page, f"{node.url}/account/{to}")[1]["balance"] == 5


def test_the_page_reads_why_the_node_does_not_sign_for_it(page: Page, node: PublicNode) -> None:
    to = new_account().address
    unsigned = {"from": dev_account(0).address, "to": to, "value": 1, "gas": 21_000}
    keyed = {"content-type": "application/json", "idempotency-key": '"a"'}
    for path, body in (("/tx", unsigned), ("/faucet", {"address": to})):
        for headers in (None, keyed):
            status, problem, _ = fetch(page, node.url + path, body, headers)
            assert (status, problem["code"]) == (403, "FORBIDDEN_ORIGIN")
            assert "cairn dev --cors-origins http://localhost:" in problem["detail"]
    node.await_idle()
    assert node.balance(to) == 0


def test_json_rpc_reads_and_takes_no_commands_over_http_and_websocket(page: Page, node: PublicNode) -> None:
    def over_http(method: str) -> Any:
        return fetch(page, node.url + "/rpc", {"jsonrpc": "2.0", "id": 1, "method": method, "params": []})[1]

    def over_socket(method: str) -> Any:
        return page.evaluate(CALL, ["ws" + node.url.removeprefix("http") + "/rpc", method])

    for call in (over_http, over_socket):
        assert call("eth_chainId")["result"] == "0x539"
        for method in ("evm_mine", "evm_snapshot", "eth_sendTransaction", "personal_sign"):
            assert call(method)["error"]["data"] == {"code": "FORBIDDEN_ORIGIN"}, method


def test_a_page_of_elsewhere_gets_nothing(page: Page, node: PublicNode) -> None:
    here = page.url
    page.goto(FOREIGN)
    try:
        rich = dev_account(0)
        transfer = sign_transfer(rich, new_account().address, 1, node.next_nonce(rich.address))
        assert fetch(page, node.url + "/chain")[0] == 0
        assert fetch(page, node.url + "/tx", transfer.body)[0] == 0
        for path in ("/events?newBlock&fromHeight=1", "/rpc"):
            assert page.evaluate(FOLLOW, "ws" + node.url.removeprefix("http") + path) is None
        assert node.get(f"/tx/{transfer.tx_hash}").status_code == 404
    finally:
        page.goto(here)


def test_the_nodes_own_page_does_all(page: Page, node: PublicNode) -> None:
    here = page.url
    page.goto(node.url + "/")
    try:
        to = new_account().address
        assert fetch(page, node.url + "/faucet", {"address": to})[0] == 200
        mined = {"jsonrpc": "2.0", "id": 1, "method": "evm_mine", "params": []}
        assert fetch(page, node.url + "/rpc", mined)[1]["result"] == "0x0"
    finally:
        page.goto(here)
