"""The first minute on a dev chain: what an empty one shows, and code that works as it is copied."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.e2e.explorer.conftest import Axe
from tests.e2e.explorer.screens import misfits
from tests.support.browser import Visitor
from tests.support.node_process import NodeProcess
from tests.support.pace import PATIENCE_S
from tests.support.programs import need_program
from tests.support.public import PublicNode
from tests.support.wallet import COIN, dev_account

PAYEE = dev_account(1).address
WORDS = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about"


@pytest.fixture(scope="module")
def process() -> Iterator[NodeProcess]:
    """An empty chain, for as long as the first test has not paid."""
    with NodeProcess.start_dev("--block-time", "0.2", "--workers", "1") as started:
        yield started


@pytest.fixture
def visitor(browser: Browser, process: NodeProcess) -> Iterator[Visitor]:
    visitor = Visitor(browser, process.url)
    yield visitor
    visitor.close()
    assert visitor.complaints == []


def test_an_empty_chain_says_how_to_begin(visitor: Visitor, axe: Axe) -> None:
    page = visitor.open()
    expect(page.locator("h1")).to_have_text("Latest block 0")
    expect(page.locator("main")).not_to_contain_text(" ago")
    expect(page.locator(".chart").first).to_be_hidden()
    accounts = page.get_by_role("table", name="Dev accounts").get_by_role("row")
    expect(accounts).to_have_count(11)
    expect(accounts.nth(2)).to_contain_text(f"dev1{PAYEE}")
    assert axe(visitor) == []
    assert misfits(visitor, "first-visit") == []
    page.get_by_role("button", name="Send 1 coin from dev0 to dev1").click()
    expect(page.locator(".progress")).to_contain_text("Confirmed in block 1")
    expect(accounts.nth(2)).to_contain_text("10,001")
    expect(page.locator(".chart").first).to_be_visible()
    expect(page.get_by_role("table", name="The latest transactions").get_by_role("row").nth(1)).to_contain_text(
        "dev0dev1"
    )


def test_a_chain_of_one_account_pays_itself(browser: Browser) -> None:
    with NodeProcess.start_dev("--accounts", "1", "--block-time", "0.2", "--workers", "1") as started:
        visitor = Visitor(browser, started.url)
        page = visitor.open()
        expect(page.get_by_role("table", name="Dev accounts").get_by_role("row")).to_have_count(2)
        page.get_by_role("button", name="Send 1 coin from dev0 to dev0").click()
        expect(page.locator(".progress")).to_contain_text("Confirmed in block 1")
        visitor.close()
        assert visitor.complaints == []


def test_a_balance_that_cannot_be_read_is_not_zero(visitor: Visitor) -> None:
    def refuse(route: Route) -> None:
        error = {"code": -32005, "message": "too many requests"}
        calls = json.loads(route.request.post_data or "[]")
        route.fulfill(json=[{"jsonrpc": "2.0", "id": call["id"], "error": error} for call in calls])

    visitor.page.route("**/rpc", refuse)
    page = visitor.open("/accounts")
    row = page.get_by_role("table", name="Accounts, largest balance first").get_by_role("row").nth(1)
    expect(row.locator("[data-balance]")).to_have_text("not known")


def command_of(language: str, code: str) -> list[str]:
    return {
        # A refusal must fail.
        "curl": ["sh", "-euc", code.replace("curl ", "curl -fsS ")],
        "Python": [sys.executable, "-c", code],
        "ethers": ["node", "--input-type=module", "-e", code],
    }[language]


def test_the_python_code_pays_from_other_accounts_too(browser: Browser) -> None:
    with NodeProcess.start_dev("--mnemonic", WORDS, "--block-time", "0.2", "--workers", "1") as started:
        visitor = Visitor(browser, started.url)
        page = visitor.open("/accounts")
        page.get_by_role("button", name="Python", exact=True).click()
        code = page.get_by_role("region", name="Code for Python").inner_text()
        subprocess.run(command_of("Python", code), check=True, timeout=PATIENCE_S)
        visitor.close()
        assert visitor.complaints == []


@pytest.mark.parametrize("language", ["curl", "Python", "ethers"])
def test_the_code_pays_as_it_is_copied(
    visitor: Visitor, process: NodeProcess, js_packages: Path, language: str
) -> None:
    need_program("curl")
    page = visitor.open("/accounts")
    page.get_by_role("button", name=language, exact=True).click()
    code = page.get_by_role("region", name=f"Code for {language}").inner_text()
    node = PublicNode(process.url)
    before = node.balance(PAYEE)
    # The idempotency key of the curl command keeps it from paying twice.
    for _ in range(2 if language == "curl" else 1):
        subprocess.run(command_of(language, code), cwd=js_packages.parent, check=True, timeout=PATIENCE_S)
    node.await_idle()
    assert node.balance(PAYEE) == before + COIN
    node.close()
