"""Accounts: balances, histories, labels, and the list by balance."""

import csv
import time
from datetime import UTC, datetime
from decimal import Decimal

from playwright.sync_api import Page, expect

from tests.e2e.explorer.conftest import RICH, Visit, make_block, search
from tests.support.browser import Visitor
from tests.support.public import PublicNode
from tests.support.wallet import COIN, new_account

RANKING = "Accounts, largest balance first"


def test_account_with_its_history_in_pages(visit: Visit, node: PublicNode) -> None:
    visitor = visit()
    # Lower case is taken too, and shown with the checksum.
    page = visitor.open(f"/account/{RICH.lower()}")
    expect(page.locator(".facts")).to_contain_text(RICH)
    balance = node.balance(RICH)
    assert page.locator(".balance .amount").get_attribute("data-wei") == str(balance)
    expect(page.locator(".balance")).to_contain_text(f"{balance // COIN:,}.{balance % COIN:018}".rstrip("0"))
    expect(page.locator("tbody tr")).to_have_count(25)
    newest = node.read(f"/account/{RICH}/txs", limit=1)[0]["blockHeight"]
    made_at = node.read(f"/block/{newest}")["timestamp"]
    expect(page.locator("tbody tr").first.locator("time")).to_have_attribute("data-at", str(made_at))
    first = page.locator("tbody a").first.get_attribute("href")
    page.get_by_role("link", name="Older").click()
    expect(page.locator("tbody a").first).not_to_have_attribute("href", str(first))
    page.get_by_role("link", name="Newest").click()
    expect(page.locator("tbody a").first).to_have_attribute("href", str(first))


def test_a_history_goes_back_and_forth_and_says_where(visit: Visit, node: PublicNode) -> None:
    visitor = visit()
    page = visitor.open(f"/account/{RICH}")
    total = len(node.read(f"/account/{RICH}/txs", limit=1_000))
    range_shown, first = page.locator(".page-number"), page.locator("tbody a").first
    newest = str(first.get_attribute("href"))
    expect(range_shown).to_have_text(f"Transactions 1 to 25 of {total}")
    page.get_by_role("link", name="Older").click()
    expect(range_shown).to_have_text(f"Transactions 26 to 50 of {total}")
    page.get_by_role("link", name="Newer").click()
    expect(first).to_have_attribute("href", newest)
    page.get_by_role("link", name="Oldest").click()
    expect(page.locator("tbody tr").last.locator("a").first).to_have_attribute(
        "title", node.read(f"/account/{RICH}/txs", order="asc", limit=1)[0]["txHash"]
    )
    expect(page.get_by_text("Older", exact=True)).to_have_attribute("aria-disabled", "true")
    expect(range_shown).to_have_text("The oldest 25 transactions")
    page.get_by_role("link", name="Newer").click()
    expect(page.get_by_role("link", name="Older")).to_be_visible()
    # The node counts what an account has sent, so its pages are counted from the end, too.
    visitor.go(f"/txs?account={RICH}&direction=out")
    sent = len(node.read(f"/account/{RICH}/txs", direction="out", limit=1_000))
    page.get_by_role("link", name="Oldest").click()
    expect(range_shown).to_have_text(f"Transactions {sent - 24} to {sent} of {sent}")
    page.get_by_role("link", name="Newer").click()
    expect(range_shown).to_have_text(f"Transactions {sent - 49} to {sent - 25} of {sent}")


def test_account_that_changes_says_so(visit: Visit, node: PublicNode) -> None:
    page = visit().open(f"/account/{RICH}")
    before = node.read(f"/account/{RICH}")["nonce"]
    make_block(node)
    page.get_by_role("button", name="This account has changed").click()
    expect(page.locator(".facts")).to_contain_text(f"Transactions sent{before + 1:,}")
    expect(page.get_by_role("button", name="This account has changed")).to_have_count(0)


def test_unused_account_is_empty(visit: Visit, node: PublicNode) -> None:
    page = visit().open(f"/account/{new_account().address}")
    expect(page.get_by_text("has sent and received nothing yet")).to_be_visible()
    expect(page.locator(".balance")).to_have_text("0 coins")


def test_a_wrong_checksum_is_named_with_the_account_that_may_be_meant(visit: Visit, node: PublicNode) -> None:
    page = visit().open(f"/account/{RICH.replace('f3', 'F3', 1)}")
    expect(page.locator("h1")).to_have_text("Wrong checksum")
    expect(page.get_by_text(RICH)).to_have_count(1)
    page.get_by_role("link", name=RICH).click()
    expect(page.locator(".facts")).to_contain_text(RICH)


def test_accounts_have_labels_that_only_this_browser_knows(visit: Visit, node: PublicNode) -> None:
    address, other = (new_account().address for _ in range(2))
    paid = node.post({"from": RICH, "to": address, "value": 1, "gas": 21_000}).json()["txHash"]
    node.await_confirmed(paid)
    visitor = visit()
    page = visitor.open(f"/account/{address}")
    page.get_by_label("Label").fill(" Shop ")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("h1")).to_have_text("Account Shop")
    # Payments go by labels, so none may mean two accounts, or look as if it did.
    for taken in ("shop", "dev1", "Dev77", "12", RICH, RICH[2:]):
        visitor.go(f"/account/{other}?of={taken}")
        page.get_by_label("Label").fill(taken)
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.locator("#label-remark")).to_have_class("remark wrong")
    visitor.open(f"/tx/{paid}")
    expect(page.locator(".facts")).to_contain_text(f"ToShop {address}")
    search(page, "shop")
    expect(page.locator("h1")).to_have_text("Account Shop")
    visitor.go("/accounts")
    expect(page.get_by_role("table", name=RANKING)).to_contain_text(f"Shop {address}your label")
    visitor.go(f"/account/{address}")
    page.get_by_label("Label").fill("")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("h1")).to_have_text("Account")


def shown_ranking(page: Page) -> list[tuple[str, str]]:
    """Address and balance of each row."""
    rows = page.get_by_role("table", name=RANKING).locator("tbody tr")
    cells = "[row.querySelector('.whole').textContent, row.querySelector('.amount').dataset.wei]"
    return [(address, wei) for address, wei in rows.evaluate_all(f"(rows) => rows.map((row) => {cells})")]


def watch_calls(visitor: Visitor) -> list[str]:
    """The requests of JSON-RPC that the page makes from now on."""
    asked: list[str] = []
    visitor.page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/rpc") else None)
    return asked


def test_accounts_are_listed_by_balance(visit: Visit, node: PublicNode) -> None:
    middle, poor = node.fund(7).address, node.fund(1).address
    page = visit().open("/accounts")
    expect(page.locator("main")).to_contain_text(
        "Not every account of the chain, but up to 200: the dev accounts, those that you labelled, "
        "those of genesis, the proposers of the latest 60 blocks, and the senders and recipients of their latest 100 "
        "transactions."
    )
    shown = shown_ranking(page)
    assert {address for address, _ in shown} >= {RICH, middle, poor}
    wei = [int(balance) for _, balance in shown]
    assert wei == sorted(wei, reverse=True)
    assert wei == [node.balance(address) for address, _ in shown]
    row = page.get_by_role("row", name=middle)
    expect(row).to_contain_text(f"{middle}recipient7")
    expect(row.get_by_role("button", name="Copy address")).to_be_visible()
    expect(page.get_by_role("row", name="dev0")).to_contain_text(f"dev0 {RICH}dev account")


def test_accounts_follow_the_chain_with_few_requests(visit: Visit, node: PublicNode) -> None:
    other, last = node.fund(5).address, node.fund(1).address
    visitor, began = visit(), time.monotonic()
    asked = watch_calls(visitor)
    page = visitor.open("/accounts")
    # The transactions, and the balances of all accounts; and once more if the dev accounts were learnt meanwhile.
    # A reading is of three requests at most, and five seconds pass before the next.
    assert len(asked) <= 4 + 3 * (time.monotonic() - began) / 5
    before = [address for address, _ in shown_ranking(page)]
    assert before.index(other) < before.index(last)
    for _ in range(8):
        make_block(node, to=last, value=COIN)
    balance = page.get_by_role("row", name=last).locator(".amount")
    expect(balance).to_have_attribute("data-wei", str(node.balance(last)))
    assert len(asked) <= 4 + 3 * (2 + (time.monotonic() - began) / 5)
    # Rows do not move before they are asked to.
    assert [address for address, _ in shown_ranking(page)] == before
    page.get_by_role("button", name="The list has changed").click()
    expect(page.get_by_role("button", name="The list has changed")).to_have_count(0)
    after = [address for address, _ in shown_ranking(page)]
    assert after.index(last) < after.index(other)


def test_no_list_of_accounts_is_too_long(visit: Visit, node: PublicNode) -> None:
    labels = {f"0x{index:040x}": f"Label {index}" for index in range(1, 301)}
    visitor = visit()
    visitor.open("/start")
    visitor.run("(labels) => localStorage.setItem('cairn-labels', JSON.stringify(labels))", labels)
    asked, began = watch_calls(visitor), time.monotonic()
    page = visitor.open("/accounts")
    # The transactions, and twice a hundred balances; and once more if the dev accounts were learnt meanwhile.
    assert len(asked) <= 2 * 3 + 3 * (time.monotonic() - began) / 5
    expect(page.get_by_role("heading", name="200 accounts")).to_be_visible()
    expect(page.get_by_role("row")).to_have_count(51)
    expect(page.get_by_role("row").nth(1)).to_contain_text("dev")
    page.get_by_role("link", name="Last", exact=True).click()
    expect(page.locator("main")).to_contain_text("Page 4 of 4")
    expect(page.get_by_role("row")).to_have_count(51)


def test_a_history_is_saved_as_a_file(visit: Visit, node: PublicNode) -> None:
    page = visit().open(f"/account/{RICH}")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as CSV").click()
    assert download.value.suggested_filename == f"{RICH}.csv"
    with open(download.value.path(), newline="") as file:
        rows = list(csv.DictReader(file))
    history = node.read(f"/account/{RICH}/txs", limit=1_000)
    assert [row["transaction"] for row in rows] == [tx["txHash"] for tx in history]
    first, expected = rows[0], history[0]
    made_at = datetime.fromtimestamp(node.read(f"/block/{expected['blockHeight']}")["timestamp"], UTC)
    assert datetime.fromisoformat(first["time"]) == made_at
    assert [int(first["wei"]), Decimal(first["coins"]) * COIN] == [expected["value"]] * 2
    assert [int(first[name]) for name in ("block", "fee_wei", "nonce")] == [
        expected[name] for name in ("blockHeight", "fee", "nonce")
    ]


HOLD_HISTORY = """() => {
    const real = window.fetch;
    const released = new Promise((resolve) => { window.release = resolve; });
    window.fetch = async (url, options) => {
        if (url.includes("limit=1000")) {
            window.isReading = true;
            await new Promise((_, reject) => {
                options.signal.addEventListener("abort", () => reject(options.signal.reason));
            });
        }
        if (window.isReading) {
            window.hasLeft = true;
            await released;
        }
        return real(url, options);
    };
}"""
"""A history that never comes, and a next view that waits to be released."""


def test_leaving_the_page_cancels_the_history_file(visit: Visit) -> None:
    visitor = visit()
    page = visitor.open(f"/account/{RICH}")
    page.evaluate(HOLD_HISTORY)
    page.get_by_role("button", name="Download as CSV").click()
    page.wait_for_function("window.isReading")
    page.evaluate("location.hash = '#/mempool'")
    page.wait_for_function("window.hasLeft")
    expect(page.locator("h1")).to_contain_text("Account")
    expect(page.locator(".refusal")).to_have_text("")
    page.evaluate("window.release()")
    expect(page.locator("h1")).to_contain_text("Mempool")
