"""Coins on their way: from dev accounts, from a wallet in the browser, from the faucet."""

import re
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.e2e.explorer.conftest import DEV_SIGNED, Axe, Visit
from tests.e2e.explorer.screens import misfits
from tests.support.browser import TIMEOUT_MS, Visitor
from tests.support.node_process import NodeProcess, clean_environment, command
from tests.support.public import PublicNode
from tests.support.wallet import COIN, dev_account, new_account, sign_transfer

PAYMENTS = re.compile(r"/(tx|faucet)$")
RICH, OTHER = dev_account(0).address, dev_account(1).address

# What an extension puts into a page: it has the accounts of this node, knows no chain at first, and asks nobody.
WALLET = """
const ask = async (method, params = []) => {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  const response = await fetch("/rpc", { method: "POST", headers: { "content-type": "application/json" }, body });
  const answer = await response.json();
  if (answer.error) throw Object.assign(new Error(answer.error.message), { code: answer.error.code });
  return answer.result;
};
window.asked = [];
let [chain, added] = ["0x1", null];
window.ethereum = {
  async request({ method, params }) {
    window.asked.push(method);
    if (window.declines === method) throw Object.assign(new Error("User rejected the request."), { code: 4001 });
    if (method === "eth_requestAccounts") return ask("eth_accounts");
    if (method === "eth_chainId") return chain;
    if (method === "wallet_addEthereumChain") {
      added = params[0];
      return null;
    }
    if (method === "wallet_switchEthereumChain") {
      if (!added) throw Object.assign(new Error("Unrecognized chain ID."), { code: 4902 });
      if (added.rpcUrls[0] !== location.origin + "/rpc") throw new Error("another node");
      chain = params[0].chainId;
      return null;
    }
    return ask(method, params);
  },
};
"""


def confirmed_hash(page: Page) -> str:
    """Wait until the page says that the transaction is confirmed; its hash."""
    expect(page.locator(".progress")).to_contain_text(re.compile(r"Confirmed in block \d+"))
    return str(page.locator(".progress a[href*='#/tx/']").get_attribute("title"))


def test_a_payment_from_a_dev_account_is_confirmed(visit: Visit, node: PublicNode) -> None:
    recipient = new_account().address
    page = visit().open(f"/send?to={recipient}")
    page.get_by_label("From").select_option(OTHER)
    expect(page.locator("#from-remark")).to_contain_text("The node holds its key")
    page.get_by_label("Amount").fill("1.000000000000000001")
    expect(page.locator("#amount-remark")).to_contain_text("Exactly 1.000000000000000001 coins")
    page.get_by_role("button", name="Send").click()
    tx = node.read(f"/tx/{confirmed_hash(page)}")
    assert (tx["from"], tx["to"], tx["value"]) == (OTHER.lower(), recipient.lower(), COIN + 1)
    said = f"1.000000000000000001 coins to {recipient}"
    expect(page.locator("#announcer")).to_have_text(f"{said}: confirmed in block {tx['blockHeight']}")
    receipt = page.get_by_role("region", name=f"Payment of {said}")
    expect(receipt.locator(".amount")).to_have_attribute("title", "1.000000000000000001 coins")
    # What was paid before is not about what is refused now.
    page.get_by_label("Amount").fill("999999")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("alert")).to_contain_text("The balance does not cover")
    expect(receipt).to_have_count(0)
    page.goto(f"{node.url}/#/tx/{tx['txHash']}")
    expect(page.get_by_text(DEV_SIGNED)).to_be_visible()


def test_mistakes_are_named_where_they_are(visit: Visit) -> None:
    page = visit().open("/send")
    send = page.get_by_role("button", name="Send")
    for address, complaint in (("0x12", "40 hexadecimal digits"), (RICH.replace("f3", "F3", 1), "mistyped")):
        page.get_by_label("To", exact=True).fill(address)
        send.click()
        expect(page.locator("#to-remark")).to_contain_text(complaint)
        expect(page.get_by_label("To", exact=True)).to_be_focused()
    page.get_by_label("To", exact=True).fill(RICH)
    page.get_by_label("Amount").fill("1,5")
    send.click()
    expect(page.locator("#amount-remark")).to_contain_text("Write the amount in digits")
    expect(page.get_by_label("Amount")).to_be_focused()
    page.get_by_label("Amount").fill("999999")
    send.click()
    # What only the node knows, it says itself.
    expect(page.get_by_role("alert")).to_contain_text("The balance does not cover")
    expect(page.get_by_role("alert")).to_contain_text("999,999.000021 coins")
    # It is not about the next attempt.
    page.get_by_label("Amount").fill("0.0000000000000000001")
    send.click()
    expect(page.locator("#amount-remark")).to_have_text("A coin has 18 decimals at most.")
    expect(page.get_by_role("alert")).to_be_empty()


@pytest.mark.parametrize(("route", "button"), [("/send", "Send"), ("/faucet", "Send coins")])
def test_a_remark_that_moves_the_button_takes_no_click(visit: Visit, route: str, button: str) -> None:
    """How many lines it has depends on fonts, and it changes when its field is left: as the button is pressed."""
    visitor = visit()
    page = visitor.open(route)
    page.locator("#to").fill("0x12")
    visitor.run("() => { document.querySelector('#to-remark').textContent = 'Many lines. '.repeat(100) }")
    page.get_by_role("button", name=button).click()
    expect(page.locator("#to-remark")).to_contain_text("40 hexadecimal digits")
    expect(page.locator("#to")).to_be_focused()


def test_a_payment_is_signed_by_the_wallet_of_the_browser(visit: Visit, node: PublicNode) -> None:
    recipient = new_account().address
    visitor = visit()
    visitor.page.add_init_script(WALLET)
    page = visitor.open(f"/send?to={recipient}")
    page.get_by_label("Browser wallet").check()
    page.get_by_role("button", name="Connect the wallet").click()
    expect(page.locator("#from-remark")).to_contain_text("The wallet asks you")
    expect(page.get_by_label("From")).to_be_enabled()
    page.get_by_label("From").select_option(OTHER)
    page.get_by_label("Unit").select_option("wei")
    page.get_by_label("Amount").fill("9007199254740993")
    page.get_by_role("button", name="Send").click()
    tx = node.read(f"/tx/{confirmed_hash(page)}")
    assert (tx["from"], tx["to"], tx["value"]) == (OTHER.lower(), recipient.lower(), 2**53 + 1)
    asked = visitor.run("() => window.asked")
    assert asked[0] == "eth_requestAccounts"
    assert {"wallet_addEthereumChain", "wallet_switchEthereumChain", "eth_sendTransaction"} <= set(asked)


def test_a_payment_declined_in_the_wallet_is_not_sent(visit: Visit) -> None:
    visitor = visit()
    visitor.page.add_init_script(WALLET)
    page = visitor.open(f"/send?to={RICH}")
    page.get_by_label("Browser wallet").check()
    visitor.run("() => { window.declines = 'eth_requestAccounts' }")
    page.get_by_role("button", name="Connect the wallet").click()
    expect(page.get_by_text("You declined it in the wallet.")).to_be_visible()
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Connect the wallet first.")).to_be_visible()


def test_the_faucet_form_pays_an_address(visit: Visit, node: PublicNode) -> None:
    recipient = new_account().address
    page = visit().open()
    page.get_by_role("link", name="Faucet").click()
    page.get_by_label("Account").fill(recipient)
    page.get_by_label("Amount").fill("1000.1")
    page.get_by_role("button", name="Send coins").click()
    expect(page.locator("#amount-remark")).to_have_text("1,000 coins at most.")
    page.get_by_label("Amount").fill("2.5")
    page.get_by_role("button", name="Send coins").click()
    confirmed_hash(page)
    assert node.balance(recipient) == 5 * COIN // 2


@pytest.mark.parametrize(("form", "button"), [("/send", "Send"), ("/faucet", "Send coins")])
def test_a_payment_whose_answer_was_lost_is_made_once_and_the_next_one_is_another(
    visit: Visit, node: PublicNode, form: str, button: str
) -> None:
    recipient = new_account().address
    page = visit().open(f"{form}?to={recipient}")
    page.get_by_label("Amount").fill("1")

    def lose_answer(request: Route) -> None:
        request.fetch(timeout=TIMEOUT_MS)
        request.abort()

    page.route(PAYMENTS, lose_answer, times=1)
    page.get_by_role("button", name=button).click()
    expect(page.get_by_role("alert")).to_contain_text("may have been submitted or not")
    page.get_by_role("button", name=button).click()
    confirmed_hash(page)
    assert node.balance(recipient) == COIN
    page.get_by_role("button", name=button).click()
    paid = page.locator(".progress a[href*='#/tx/']")
    expect(paid).to_have_count(2)
    for each in paid.all():
        node.await_confirmed(str(each.get_attribute("title")))
    assert node.balance(recipient) == 2 * COIN


def test_dev_accounts_are_paid_by_name(visit: Visit, node: PublicNode) -> None:
    page = visit().open("/send")
    expect(page.get_by_label("From").locator("option").first).to_contain_text("dev0: 0xf39F")
    page.get_by_label("To", exact=True).fill("dev1")
    page.get_by_role("button", name="Send").click()
    assert node.read(f"/tx/{confirmed_hash(page)}")["to"] == OTHER.lower()
    expect(page.locator("#to-remark")).to_have_text(f"dev1 is {OTHER}.")


def test_pending_transaction_turns_confirmed_by_itself(visit: Visit, node: PublicNode) -> None:
    """A gap in the nonces keeps it waiting until the page has shown it."""
    sender = node.fund()
    nonce = node.next_nonce(sender.address)
    later = sign_transfer(sender, RICH, 1, nonce + 1)
    # This list follows the node.
    mempool = visit().open("/mempool").locator("tbody")
    node.submit(later)
    visitor = visit()
    page = visitor.open(f"/tx/{later.tx_hash}")
    expect(page.locator(".page-head")).to_contain_text("Pending")
    expect(page.locator(".facts")).to_contain_text(f"Queued: it waits for nonce {nonce}")
    account = visit()
    expect(account.open(f"/account/{sender.address}").locator("main")).to_contain_text("1 pending")
    expect(account.page.locator("main")).to_contain_text(f"waits for nonce {nonce}")
    expect(mempool).to_contain_text(later.tx_hash[:6])
    expect(mempool).to_contain_text(f"{nonce + 1} waits for nonce {nonce}")
    expect(visit().open().locator(".stats")).to_contain_text("1 queued")
    node.submit(sign_transfer(sender, RICH, 1, nonce))
    expect(page.locator(".page-head")).to_contain_text("Confirmed")
    expect(page.get_by_text(DEV_SIGNED)).to_be_visible()


def test_a_chain_that_holds_no_keys_shows_its_accounts_and_a_next_step(
    tmp_path: Path, browser: Browser, axe: Axe
) -> None:
    home = tmp_path / "home"
    subprocess.run(
        command(["init", str(home), "--chain-id", "1785296706", "--alloc", f"{RICH}=10coins"]),
        check=True,
        env=clean_environment(),
    )
    with NodeProcess.start(("run", "--home", str(home), "--port", "0")) as other:
        other.wait_ready()
        visitor = Visitor(browser, other.url)
        page = visitor.open("/")
        expect(page.get_by_role("table", name="Genesis accounts").locator("tbody tr")).to_have_count(1)
        expect(page.get_by_role("table", name="Genesis accounts")).to_contain_text(f"{RICH}10")
        expect(page.locator("main")).to_contain_text(f"cairn send KEY ADDRESS 1coin --node {other.url}")
        expect(page.locator(".welcome")).to_contain_text("The supply is 10 coins.")
        assert axe(visitor) == []
        assert misfits(visitor, "own-chain") == []
        page.get_by_role("link", name="Accounts", exact=True).click()
        expect(page.get_by_role("table", name="Accounts, largest balance first")).to_contain_text("genesis account")
        page = visitor.open("/send")
        expect(page.locator("main")).to_contain_text("There is no key to sign with")
        expect(page.locator("main")).to_contain_text(f"cairn send KEY ADDRESS 1coin --node {other.url}")
        expect(page.get_by_role("link", name="Faucet")).to_have_count(0)
        expect(visitor.open("/faucet").locator("main")).to_contain_text("This chain has no faucet")
        visitor.close()
        assert visitor.complaints == []
