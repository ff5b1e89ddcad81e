"""axe on every view, in both themes and on a phone: nothing that keeps a person out."""

import pytest

from tests.e2e.explorer.conftest import Axe, Visit
from tests.support.browser import Theme
from tests.support.public import PublicNode
from tests.support.wallet import dev_account

RICH = dev_account(0).address


@pytest.mark.parametrize(("theme", "is_phone"), [("light", False), ("dark", False), ("light", True)])
def test_a_view_has_no_accessibility_violation(
    visit: Visit, node: PublicNode, axe: Axe, theme: Theme, is_phone: bool
) -> None:
    newest = node.read("/blocks")[0]["blockHeight"]
    tx_hash = node.read(f"/block/{newest}")["transactions"][0]
    routes = ["/", "/blocks", f"/block/{newest}", f"/tx/{tx_hash}", f"/account/{RICH}", "/accounts", "/mempool"]
    routes += [
        "/txs",
        f"/txs?account={RICH}",
        f"/account/{RICH.lower().replace('f3', 'F3', 1)}",
        "/status",
        "/validators",
        "/send",
        "/faucet",
    ]
    routes += ["/search?q=nothing", f"/tx/0x{'ab' * 32}", "/no/such/view"]
    visitor = visit(theme, is_phone)
    visitor.open("/start")
    for route in routes:
        visitor.go(route)
        assert axe(visitor) == [], route


def test_the_page_has_landmarks_and_one_heading(visit: Visit) -> None:
    page = visit().open()
    for role in ("banner", "main", "contentinfo", "search"):
        assert page.get_by_role(role).count() == 1, role
    assert page.get_by_role("heading", level=1).count() == 1


def test_blocks_are_not_read_out(visit: Visit, node: PublicNode) -> None:
    """A screen reader would otherwise talk without an end."""
    visitor = visit()
    page = visitor.open()
    said = "() => { window.said = []; new MutationObserver(() => window.said.push(1)).observe(ANNOUNCER, ALL) }"
    said = said.replace("ANNOUNCER", "document.querySelector('#announcer')").replace("ALL", "{childList: true}")
    visitor.run(said)
    node.await_confirmed(node.post({"from": RICH, "to": RICH, "value": 1, "gas": 21_000}).json()["txHash"])
    head = node.read("/chain")["head"]["blockHeight"]
    page.locator("h1", has_text=str(head)).wait_for()
    assert visitor.run("() => window.said") == []
