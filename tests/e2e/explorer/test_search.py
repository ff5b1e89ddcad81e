"""The search field finds what there is, however it is spelled, and says what it did not find."""

from playwright.sync_api import expect

from tests.e2e.explorer.conftest import RICH, Held, Visit, search
from tests.e2e.explorer.test_views import full_block, some_transaction
from tests.support.public import PublicNode


def test_search_finds_a_block_however_it_is_spelled(visit: Visit, node: PublicNode) -> None:
    height = full_block(node)
    block = node.read(f"/block/{height}")["hash"]
    visitor = visit()
    page = visitor.open("/start")
    for spelled in (str(height), f" #{height} ", block, block[2:].upper()):
        visitor.go("/")
        page.keyboard.press("/")
        expect(page.get_by_role("searchbox")).to_be_focused()
        page.keyboard.type(spelled)
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text(f"Block {height}")
        expect(page.locator("h1")).to_be_focused()


def test_a_view_that_comes_late_does_not_take_the_focus_from_the_search_field(visit: Visit, node: PublicNode) -> None:
    """Else what a person types there while a slow node answers would go nowhere."""
    height = full_block(node)
    page = visit().open("/start")
    held = Held(page, f"**/block/{height}")
    with page.expect_request(f"**/block/{height}"):
        page.evaluate(f"location.hash = '#/block/{height}'")
    page.keyboard.press("/")
    page.keyboard.type("de")
    held.let_go()
    expect(page.locator("h1")).to_have_text(f"Block {height}")
    page.keyboard.type("v0")
    expect(page.get_by_role("searchbox")).to_have_value("dev0")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Account dev0")
    expect(page.locator("h1")).to_be_focused()


def test_search_finds_transactions_and_accounts(visit: Visit, node: PublicNode) -> None:
    tx_hash = some_transaction(node)
    page = visit().open()
    for text, heading in (
        (tx_hash, "Transaction"),
        (RICH, "Account dev0"),
        (tx_hash, "Transaction"),
        (RICH.lower(), "Account dev0"),
        (tx_hash, "Transaction"),
        ("dev0", "Account dev0"),
    ):
        search(page, text)
        expect(page.locator("h1")).to_have_text(heading)


def test_search_says_what_it_did_not_find(visit: Visit) -> None:
    page = visit().open()
    for text, advice in (
        ("0x" + "ab" * 32, "No transaction and no block"),
        ("99999999", "There is no block of that height yet"),
        ("hello", "Search by height"),
        ("0x1234", "Search by height"),
        ("dev10", "Search by height"),
    ):
        search(page, text)
        expect(page.locator("main")).to_contain_text(text)
        expect(page.locator("h1")).to_have_text("Nothing found")
        expect(page.locator("main")).to_contain_text(advice)
