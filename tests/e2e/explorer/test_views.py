"""Every view shows what the node says, each at an address of its own that survives a reload."""

import json
import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.explorer.conftest import DEV_SIGNED, RICH, Held, Visit, fact, make_block
from tests.support.browser import TIMEOUT_MS, Visitor
from tests.support.public import PublicNode
from tests.support.wallet import COIN, dev_account, new_account, sign_transfer

AMOUNT = COIN // 8 + 1
NOT_READY = '{"status":"unavailable","checks":{"store":"the disk is full","mempool":"ok"}}'


def full_block(node: PublicNode) -> int:
    """The height of the block with the most transactions."""
    blocks = node.read("/blocks")
    return int(max(blocks, key=lambda block: block["transactionCount"])["blockHeight"])


def some_transaction(node: PublicNode) -> str:
    return str(node.read(f"/block/{full_block(node)}")["transactions"][3])


def change(visitor: Visitor, path: str, old: str, new: str) -> None:
    """Stand between the page and the node, and change its answers there; a point in `old` is any character."""
    pattern = re.escape(old).replace(r"\.", ".")

    def answer(route: Route) -> None:
        changed = re.sub(pattern, new, route.fetch(timeout=TIMEOUT_MS).text(), count=1)
        route.fulfill(body=changed, content_type="application/json")

    visitor.page.route(path, answer)


def test_overview_follows_the_chain(visit: Visit, node: PublicNode) -> None:
    page = visit().open()
    head = node.read("/chain")["head"]["blockHeight"]
    expect(page.locator("h1")).to_contain_text(f"{head}")
    expect(page.locator("#connection")).to_have_text("Live")
    expect(page.locator(".stats div", has_text="Supply").locator(".amount")).to_have_attribute(
        "data-wei", str(node.read("/chain")["supply"])
    )
    for _ in range(2):
        # Nothing on the page is touched: the block comes over the socket.
        make_block(node)
        head = node.read("/chain")["head"]["blockHeight"]
        expect(page.locator("h1")).to_contain_text(f"{head}")
        expect(page.get_by_role("table", name="The latest blocks").get_by_role("row").nth(1)).to_contain_text(f"{head}")
        expect(page.locator(".cairn a").last).to_contain_text(f"{head}")
        expect(page.locator(f".chart g[data-height='{head}']")).to_have_count(2)


def test_overview_says_in_words_what_the_charts_draw(visit: Visit, node: PublicNode) -> None:
    page = visit().open()
    most = max(block["transactionCount"] for block in node.read("/blocks", limit=60))
    expect(page.get_by_role("img", name=re.compile("Transactions per block"))).to_have_accessible_name(
        re.compile(f"{most} transactions at most")
    )
    page.locator(f".chart g[data-height='{full_block(node)}']").first.hover()
    expect(page.locator("figcaption").first).to_contain_text(
        re.compile(f"Block {full_block(node)} at .*: {most} transactions")
    )


def test_a_chain_that_rests_does_not_look_busy(visit: Visit, node: PublicNode) -> None:
    """Its figures are of the time up to now, though no block comes to say so."""
    visitor = visit()
    visitor.page.clock.install()
    page = visitor.open()
    figures = page.locator(".stats")
    expect(page.locator("#connection")).to_have_text("Live")
    block_time = figures.locator("div", has_text="Block time").inner_text()
    set_s = node.read("/chain")["blockTime"]
    said = f"{set_s:g} s" if set_s else "at once"
    assert said in block_time.split("\n"), "what it is set to, not how often somebody paid"
    page.clock.fast_forward("10:00:00")
    expect(figures).to_contain_text("Transactions / s0.0")
    assert figures.locator("div", has_text="Block time").inner_text() == block_time, "no block is awaited"


def test_blocks_page_by_page(visit: Visit, node: PublicNode) -> None:
    visitor = visit()
    page = visitor.open("/blocks")
    rows = page.get_by_role("row")
    expect(rows).to_have_count(26)
    head = int(rows.nth(1).get_by_role("cell").first.inner_text())
    page.get_by_role("link", name="Older").click()
    expect(rows.nth(1).get_by_role("cell").first).to_have_text(str(head - 25))
    page.reload()
    expect(rows.nth(1).get_by_role("cell").first).to_have_text(str(head - 25))
    page.get_by_role("link", name="Newer").click()
    expect(rows.nth(1).get_by_role("cell").first).to_have_text(str(head))
    page.get_by_label("Go to").fill("7")
    page.get_by_role("button", name="Show").click()
    expect(rows.nth(1).get_by_role("cell").first).to_have_text("7")
    page.go_back()
    expect(rows.nth(1).get_by_role("cell").first).to_have_text(str(head))


def test_new_blocks_are_offered_and_do_not_push(visit: Visit, node: PublicNode) -> None:
    page = visit().open("/blocks")
    first = page.get_by_role("row").nth(1).inner_text()
    make_block(node)
    offer = page.get_by_role("button", name=re.compile("Show .* new block"))
    expect(offer).to_be_visible()
    assert page.get_by_role("row").nth(1).inner_text().split()[0] == first.split()[0]
    offer.click()
    expect(page.get_by_role("row").nth(1).get_by_role("cell").first).to_have_text(
        str(node.read("/chain")["head"]["blockHeight"])
    )


def test_block_is_shown_verified_and_paged(visit: Visit, node: PublicNode) -> None:
    height = full_block(node)
    block = node.read(f"/block/{height}")
    visitor = visit()
    page = visitor.open(f"/block/{block['hash']}")
    expect(page.locator("h1")).to_have_text(f"Block {height}")
    expect(page.get_by_text(DEV_SIGNED)).to_be_visible()
    for name in ("stateRoot", "transactionsRoot", "receiptsRoot", "mixHash"):
        expect(page.locator(".facts")).to_contain_text(block[name])
    expect(page.locator("tbody a[href*='#/tx/']")).to_have_count(min(25, len(block["transactions"])))
    expect(page.locator("tbody td").first).to_have_text("1")
    last = page.locator("tbody tr").last.locator("td").first
    page.get_by_role("link", name="Last", exact=True).click()
    expect(last).to_have_text(str(len(block["transactions"])))
    visitor.go(f"/block/{height}?page=999")
    expect(last).to_have_text(str(len(block["transactions"])))
    page.get_by_role("link", name="Previous block").click()
    expect(page.locator("h1")).to_have_text(f"Block {height - 1}")


def test_altered_block_is_found_out(visit: Visit, node: PublicNode) -> None:
    height = full_block(node)
    visitor = visit()

    change(visitor, f"**/block/{height}", '"gasUsed":', '"gasUsed":1')
    page = visitor.open(f"/block/{height}")
    expect(page.get_by_text("The node shows the gas used")).to_be_visible()


def test_genesis_block_has_none_before_it(visit: Visit, node: PublicNode) -> None:
    page = visit().open("/block/0")
    expect(page.get_by_text("this is the genesis block")).to_be_visible()
    expect(page.get_by_text(DEV_SIGNED)).to_be_visible()
    expect(page.get_by_text("Previous block")).to_have_attribute("aria-disabled", "true")
    expect(page.get_by_text("This block has no transactions.")).to_be_visible()


def test_transaction_and_its_proof(visit: Visit, node: PublicNode) -> None:
    tx_hash = some_transaction(node)
    block = node.read(f"/block/{full_block(node)}")
    page = visit().open(f"/tx/{tx_hash}")
    expect(page.locator(".facts")).to_contain_text("0.125000000000000001 coins")
    expect(page.locator(".facts")).to_contain_text("Fee0.000021 coins")
    # Whoever selects an amount copies all of it.
    amount = fact(page, "Amount").locator(".amount")
    copied = amount.evaluate("(all) => { getSelection().selectAllChildren(all); return getSelection().toString() }")
    assert copied == "0.125000000000000001 coins"
    expect(amount).to_have_attribute("title", copied)
    # Every digit is seen, and read out once.
    expect(fact(page, "Amount").locator(".digits")).to_have_text(copied)
    assert fact(page, "Amount").aria_snapshot().count("0.125") == 1
    assert "…" not in fact(page, "Amount").aria_snapshot()
    expect(fact(page, "Type")).to_have_text("Type0 (legacy)")
    expect(fact(page, "Position")).to_have_text("Position#4 in the block (index 3)")
    expect(fact(page, "Reference")).to_have_text("ReferenceNone")
    page.get_by_text("JSON", exact=True).click()
    assert json.loads(page.get_by_role("region", name="JSON").inner_text()) == node.read(f"/tx/{tx_hash}")
    expect(page.get_by_text(DEV_SIGNED)).to_be_visible()
    expect(page.locator(".facts time")).to_have_attribute("data-at", str(block["timestamp"]))
    page.get_by_role("button", name="Flip one bit").click()
    expect(page.get_by_text("The proof does not hold")).to_be_visible()
    page.get_by_role("button", name="Flip one bit").click()
    expect(page.get_by_text(DEV_SIGNED)).to_be_visible()


@pytest.mark.parametrize("part", [('"path":["0x..', '"path":["0x00'), ('"seconds":', '"seconds":1')])
def test_tampered_receipt_is_refused(visit: Visit, node: PublicNode, part: tuple[str, str]) -> None:
    """Whatever the node, or someone in between, changes: the path, or the vote that it leads to."""
    tx_hash = some_transaction(node)
    visitor = visit()
    change(visitor, "**/receipt", *part)
    page = visitor.open(f"/tx/{tx_hash}")
    expect(page.get_by_text("The proof does not hold")).to_be_visible()


def test_blocks_say_how_full_they_are_and_what_they_move(visit: Visit, node: PublicNode) -> None:
    height = full_block(node)
    block = node.read(f"/block/{height}")
    value = sum(node.read(f"/tx/{tx_hash}")["value"] for tx_hash in block["transactions"])
    fees = block["gasUsed"] * block["baseFeePerGas"]
    visitor = visit()
    page = visitor.open(f"/blocks?after={height + 1}")
    row = page.get_by_role("row").nth(1)
    expect(row.locator("[data-label^=Value] .amount")).to_have_attribute("data-wei", str(value))
    expect(row.locator("[data-label^=Fees] .amount")).to_have_attribute("data-wei", str(fees))
    expect(row.locator(".fullness")).to_have_attribute("title", f"{block['gasUsed']:,} of {block['gasLimit']:,} gas")
    visitor.go(f"/block/{height}")
    expect(page.locator(".facts .amount").first).to_have_attribute("data-wei", str(value))


def test_charts_are_read_with_the_arrow_keys(visit: Visit, node: PublicNode) -> None:
    page = visit().open()
    chart = page.get_by_role("slider", name="Transactions per block")
    chart.focus()
    latest = node.read("/blocks", limit=2)
    for key, block in (("End", latest[0]), ("ArrowLeft", latest[1])):
        chart.press(key)
        expect(page.locator("figcaption").first).to_contain_text(f"Block {block['blockHeight']} at ")
        expect(chart).to_have_attribute("aria-valuetext", re.compile(f"{block['transactionCount']} transaction"))
    chart.press("Enter")
    expect(page.locator("h1")).to_have_text(f"Block {latest[1]['blockHeight']}")


def test_status_of_the_node(visit: Visit, node: PublicNode) -> None:
    page = visit().open("/status")
    chain = node.read("/chain")
    for said in ("200 alive", "200 started", "200 ready", chain["version"], f"{node.url}/rpc"):
        expect(page.locator("main")).to_contain_text(said)
    page.route("**/ready", lambda route: route.fulfill(status=503, body=NOT_READY, content_type="application/json"))
    # It is asked again and again.
    expect(page.locator("main")).to_contain_text("store: the disk is full")


def test_status_of_peers_disk_and_lag(visit: Visit, node: PublicNode) -> None:
    visitor = visit()
    page = visitor.open("/status")
    size = fact(page, "Data on disk").locator("[title]")
    expect(size).to_have_text(re.compile(r"^\d[\d.]* [kM]B$"))
    bytes_on_disk = int(str(size.get_attribute("title")).removesuffix(" bytes").replace(",", ""))
    assert bytes_on_disk > 1_000
    lag = fact(page, "Lag")
    expect(lag).to_contain_text("This node makes the blocks, so it cannot be behind.")
    expect(lag.locator("time")).to_have_attribute("data-at", re.compile(r"^\d+$"))
    expect(page.get_by_text("Peers", exact=True)).to_have_count(0)


def test_status_on_a_network(visit: Visit, node: PublicNode) -> None:
    """Played by this node, which has no peers."""
    visitor = visit()
    change(visitor, "**/chain", '"engine":"embedded"', '"engine":"cometbft"')
    change(visitor, "**/rpc", '"result":"0x0"', '"result":"0x3"')
    page = visitor.open("/status")
    expect(fact(page, "Peers")).to_have_text("Peers3")
    lag = fact(page, "Lag")
    expect(lag).to_contain_text("It has caught up with its peers.")
    behind = NOT_READY.replace("the disk is full", "ok").replace(
        '"mempool":"ok"', '"mempool":"ok","engine":"catching up, height 7"'
    )
    page.route("**/ready", lambda route: route.fulfill(status=503, body=behind, content_type="application/json"))
    expect(lag).to_contain_text("catching up, height 7")
    page.route("**/ready", lambda route: route.abort())
    expect(lag).to_contain_text("–/ready does not say whether it is catching up.")


def test_status_without_json_rpc(visit: Visit, node: PublicNode) -> None:
    visitor = visit()
    visitor.page.route("**/rpc", lambda route: route.fulfill(status=403, body=""))
    page = visitor.open("/status")
    expect(fact(page, "Data on disk")).to_contain_text("–JSON-RPC: The node answered 403.")
    expect(page.locator("main")).to_contain_text("200 ready")


def shown_hashes(page: Page) -> list[str]:
    links = page.locator("tbody a[href*='#/tx/']")
    return [str(title) for title in links.evaluate_all("(all) => all.map((link) => link.title)")]


def test_all_transactions_back_and_forth(visit: Visit, node: PublicNode) -> None:
    blocks = node.read("/blocks", limit=100)
    hashes = [tx for block in blocks for tx in reversed(node.read(f"/block/{block['blockHeight']}")["transactions"])]
    page = visit().open()
    page.get_by_role("link", name="Transactions", exact=True).click()
    shown = page.locator(".page-number")
    expect(shown).to_have_text("Transactions 1 to 25")
    assert shown_hashes(page) == hashes[:25]
    page.get_by_role("link", name="Older").click()
    expect(shown).to_have_text("Transactions 26 to 50")
    assert shown_hashes(page) == hashes[25:50]
    page.get_by_role("link", name="Newer").click()
    expect(shown).to_have_text("Transactions 1 to 25")
    assert shown_hashes(page) == hashes[:25]
    page.get_by_role("link", name="Oldest").click()
    expect(page.get_by_text("Older", exact=True)).to_have_attribute("aria-disabled", "true")
    assert shown_hashes(page) == hashes[-25:]
    expect(shown).to_have_text("The oldest 25 transactions")
    make_block(node)
    page.get_by_role("link", name="Newest").click()
    expect(shown).to_have_text("Transactions 1 to 25")
    make_block(node)
    page.get_by_role("button", name="Show 1 new transaction").click()
    expect(page.get_by_role("button", name="Show 1 new transaction")).to_have_count(0)
    assert shown_hashes(page)[0] == node.read("/block/latest")["transactions"][0]


def test_new_transactions_are_those_that_are_not_listed(visit: Visit, node: PublicNode) -> None:
    """Also when the list is ahead of the rest of the page, which is told of blocks a moment later."""
    visitor = visit()
    page = visitor.open("/start")
    expect(page.locator("#connection")).to_have_text("Live")
    held = Held(page, "**/chain")
    make_block(node)
    visitor.go("/txs")
    assert shown_hashes(page)[0] == node.read("/block/latest")["transactions"][0]
    make_block(node)
    held.let_go()
    page.get_by_role("button", name="Show 1 new transaction").click()
    expect(page.get_by_role("button", name="Show 1 new transaction")).to_have_count(0)
    assert shown_hashes(page)[0] == node.read("/block/latest")["transactions"][0]


def test_transactions_are_filtered(visit: Visit, node: PublicNode) -> None:
    payer, payee = node.fund(3), new_account().address
    for nonce in range(2):
        node.await_confirmed(node.submit(sign_transfer(payer, payee, COIN, nonce)))
    visitor = visit()
    page = visitor.open("/txs")
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Direction").select_option("Sent")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#account-remark")).to_have_text("Direction, other account and reference need an account.")
    page.get_by_label("Account", exact=True).fill(payer.address)
    page.get_by_role("button", name="Filter").click()
    expect(page.locator(".page-number")).to_have_text("Transactions 1 to 2 of 2")
    sent = [tx["txHash"] for tx in node.read(f"/account/{payer.address}/txs", direction="out")]
    assert shown_hashes(page) == sent
    page.get_by_label("Direction").select_option("Sent or received")
    page.get_by_label("Other account").fill("dev0")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator(".page-number")).to_have_text("Transactions 1 to 1 of 1")
    page.get_by_label("Reference").fill("nothing")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("main")).to_contain_text("No transaction fits the filters.")
    page.get_by_role("link", name="Clear").click()
    expect(page.get_by_label("Account", exact=True)).to_be_hidden()
    height = full_block(node)
    visitor.go(f"/txs?from={height}&to={height}")
    assert shown_hashes(page) == node.read(f"/block/{height}")["transactions"][::-1][:25]


def test_validators_and_who_proposed(visit: Visit, node: PublicNode) -> None:
    """A node of a network, played by this one: only its answers about validators are others."""
    recipients = [new_account().address.lower() for _ in range(2)]
    visitor = visit()
    change(visitor, "**/chain", '"engine":"embedded"', '"engine":"cometbft"')
    change(visitor, "**/blocks?*", f"0x{'0' * 40}", recipients[0])
    validators = [
        {
            "address": f"{index:040X}",
            "publicKey": "",
            "power": 3 - index,
            "feeRecipient": recipient,
            "name": f"node{index}",
            "missedBlocks": 7,
            "evidence": 0,
        }
        for index, recipient in enumerate(recipients)
    ]
    admins: dict[str, object] = {"sequence": 4, "threshold": 1, "admins": [RICH.lower()]}
    admins |= {"votedBlocks": 100, "evidenceCount": 0, "evidence": []}
    visitor.page.route("**/validators", lambda route: route.fulfill(json=admins | {"validators": validators}))
    page = visitor.open("/blocks")
    expect(page.get_by_role("row").nth(1).locator("[data-label=Proposer]")).to_have_text("node0")
    page.get_by_role("link", name="Validators", exact=True).click()
    rows = page.get_by_role("table", name="Validators").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("node0360")
    expect(rows.nth(2)).to_contain_text("node1240")
    expect(page.get_by_role("columnheader", name="Missed of the last 100")).to_be_visible()
    expect(rows.nth(1).locator("[data-label='Missed of the last 100']")).to_have_text("7")
    expect(page.locator("main")).to_contain_text("No validator has signed what it must not sign.")
    expect(page.locator("main")).to_contain_text(f"dev0 {RICH}")
    piece = {"address": f"{1:040X}", "name": "node1", "kind": "duplicateVote", "blockHeight": 1, "timestamp": 1_000}
    admins |= {"evidenceCount": 21, "evidence": [piece, piece | {"name": "", "kind": "unknown"}]}
    visitor.open("/validators")
    expect(page.locator("main")).to_contain_text("There have been 21 pieces of evidence")
    pieces = page.get_by_role("table", name="Evidence").get_by_role("row")
    expect(pieces.nth(1)).to_contain_text("node1two votes in one round1")
    expect(pieces.nth(2)).to_contain_text("000000…0001unknown1")
    visitor.go("/accounts")
    expect(page.locator("main")).to_contain_text("the fee recipients of the validators")
    expect(page.get_by_role("row", name=re.compile(recipients[0], re.IGNORECASE))).to_contain_text("validator node0")
    # Names need not differ, nor be given.
    validators[1]["name"] = "node0"
    visitor.open("/validators")
    expect(rows.nth(2)).to_contain_text("node02400")
    validators[1]["name"] = ""
    visitor.open("/validators")
    expect(rows.nth(2)).to_contain_text("000000…0001240")
    plain = visit().open("/validators")
    expect(plain.locator("main")).to_contain_text("This chain has no validators")


def test_mempool_is_empty_once_all_is_mined(visit: Visit, node: PublicNode) -> None:
    node.await_idle()
    page = visit().open("/mempool")
    expect(page.get_by_text("The mempool is empty")).to_be_visible()


def test_a_view_can_be_left_before_the_names_of_accounts_are_there(visit: Visit) -> None:
    """They are asked for twice, at the start and with the connection, and either answer may be the first."""
    visitor = visit()
    held: list[Route] = []
    visitor.page.route("**/openapi.json", lambda route: held.append(route), times=1)
    page = visitor.open("/start")
    visitor.go("/mempool")
    expect(page.locator("h1")).to_contain_text("Mempool")
    expect(page.locator("h1")).to_be_focused()
    visitor.run("() => document.querySelector('main h1').setAttribute('data-old', '')")
    held[0].continue_()
    # It is shown again with the names, and the focus stays where it was.
    expect(page.locator("main h1:not([data-old])")).to_be_focused()


def test_dev_accounts_have_the_names_of_the_command_line(visit: Visit) -> None:
    page = visit().open("/search?q=Dev1")
    expect(page.locator(".facts")).to_contain_text(f"Namedev1Address{dev_account(1).address}")


def test_an_unknown_page_block_or_transaction_has_advice(visit: Visit) -> None:
    visitor = visit()
    visitor.open()
    for route, said in (
        (f"/tx/0x{'ab' * 32}", "may be on another chain"),
        (f"/block/0x{'ab' * 32}", "Look a block up by its hash"),
        ("/block/99999999", "the latest is"),
        ("/tx/0x12", "hash is 0x and 64 hexadecimal digits"),
        (f"/account/{RICH[:-1]}0", "If only the case of a letter is wrong"),
        ("/nothing/here", "There is nothing at this address"),
    ):
        expect(visitor.go(route).locator("main")).to_contain_text(said)
    page = visitor.go(f"/account/{RICH.swapcase().replace('X', 'x', 1)}")
    page.get_by_role("link", name=RICH).click()
    expect(page.locator("h1")).to_have_text("Account dev0")
    page.get_by_role("link", name="Send from this account").click()
    expect(page.get_by_label("From")).to_have_value(RICH)


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("replaced", "Another transaction with the same nonce took its place."),
        ("nonce used", "The sender can sign a new one with the next nonce."),
        ("evicted", "The sender can submit it again."),
        ("expired", "The sender can submit it again, after those."),
    ],
)
def test_a_dropped_transaction_says_what_can_be_done_about_it(visit: Visit, reason: str, said: str) -> None:
    visitor = visit()
    problem = {"status": 404, "detail": f"dropped: {reason}", "code": "TX_DROPPED", "reason": reason}
    visitor.page.route("**/tx/0x*", lambda route: route.fulfill(status=404, json=problem))
    main = visitor.open(f"/tx/0x{'ab' * 32}").locator("main")
    expect(main).to_contain_text("it transferred nothing.")
    expect(main).to_contain_text(f"Reason: {reason}.")
    expect(main).to_contain_text(said)
    if "submit it again" not in said:
        expect(main).not_to_contain_text("submit it again")


def test_a_pending_transaction_that_is_not_held_names_its_replacement_as_text(visit: Visit) -> None:
    """Whatever a node may say there is text, and nothing else."""
    visitor = visit()
    pending = {"txHash": f"0x{'ab' * 32}", "status": "pending", "from": RICH, "to": RICH, "value": 1, "nonce": 0}
    shown = pending | {"gas": 21_000, "gasPrice": 1, "notHeld": "<b>replaced</b>", "replacedBy": f"0x{'cd' * 32}"}
    visitor.page.route("**/tx/0x*", lambda route: route.fulfill(json=shown))
    main = visitor.open(f"/tx/0x{'ab' * 32}").locator("main")
    expect(main).to_contain_text("this node no longer holds it (<b>replaced</b>, by 0xcdcd")
    expect(main).to_contain_text("Another node may still confirm it")
    expect(main.locator("b")).to_have_count(0)
    expect(main.locator(f'a[title="0x{"cd" * 32}"]')).to_have_attribute("href", re.compile(f"/tx/0x{'cd' * 32}$"))


def test_trying_again_is_offered_only_where_it_may_help(visit: Visit) -> None:
    visitor = visit()
    page = visitor.open("/account/0x12")
    expect(page.get_by_text("hexadecimal digits")).to_have_count(1)
    expect(page.get_by_role("button", name="Try again")).to_have_count(0)
    visitor.page.route("**/account/*", lambda route: route.fulfill(status=500, body="{}"))
    visitor.go(f"/account/{RICH}")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()


def test_theme_follows_the_system_until_the_person_chooses(visit: Visit) -> None:
    visitor = visit(theme="dark")
    page = visitor.open()
    background = "() => getComputedStyle(document.documentElement).backgroundColor"
    dark = visitor.run(background)
    page.get_by_role("button", name="Use the light theme").click()
    light = visitor.run(background)
    assert light != dark
    page.reload()
    expect(page.locator("main h1")).to_be_visible()
    assert visitor.run(background) == light
    page.get_by_role("button", name="Use the dark theme").click()
    assert visitor.run(background) == dark


def test_the_links_of_a_network_fit_a_phone(visit: Visit) -> None:
    """The bar is fixed, so what it cuts off makes no page wider."""
    visitor = visit(is_phone=True)
    change(visitor, "**/chain", '"engine":"embedded"', '"engine":"cometbft"')
    page = visitor.open("/status")
    expect(page.get_by_role("link", name="Validators", exact=True)).to_be_visible()
    # A network has no faucet.
    visitor.run("() => { document.querySelector('#faucet-link').hidden = true }")
    right = "Math.max(...[...document.querySelectorAll('#navigation a')].map((a) => a.getBoundingClientRect().right))"
    assert visitor.run(f"() => {right}") <= visitor.run("() => screen.width")


def test_keyboard_alone_is_enough(visit: Visit, node: PublicNode) -> None:
    page = visit().open()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    page.keyboard.press("Tab")
    # The first thing in the overview is the newest block.
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_be_focused()
    expect(page.locator("h1")).to_contain_text("Block")
    for name in ("Cairn, overview", "Blocks", "Overview", "Mempool"):
        page.locator("body").evaluate("() => document.activeElement.blur()")
        link = page.get_by_role("link", name=name, exact=True)
        link.focus()
        outline = link.evaluate("(element) => getComputedStyle(element).outlineStyle")
        assert outline == "solid", name
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_be_focused()
    expect(page.get_by_role("link", name="Mempool")).to_have_attribute("aria-current", "page")


def test_the_overview_does_not_shift_while_it_loads_and_updates(visit: Visit, node: PublicNode) -> None:
    visitor = visit()
    visitor.page.add_init_script(
        "window.shifts = 0; new PerformanceObserver((list) => {"
        "  for (const shift of list.getEntries()) if (!shift.hadRecentInput) window.shifts += shift.value;"
        "}).observe({ type: 'layout-shift', buffered: true });"
    )
    page = visitor.open()
    make_block(node)
    expect(page.locator("h1")).to_contain_text(str(node.read("/chain")["head"]["blockHeight"]))
    # What Web Vitals call good.
    assert visitor.run("() => window.shifts") < 0.1


def test_explorer_files_have_security_headers_and_an_etag(node: PublicNode) -> None:
    for path in ("/", "/explorer/main.js", "/explorer/views/block.js", "/explorer/cairn.svg"):
        answer = node.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        again = node.http.get(path, headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
