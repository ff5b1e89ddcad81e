"""The explorer believes nothing that it can check: a toy chain in front of a real browser, honest and lying."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Download, Locator, Page, expect

from tests.support.browser import Visitor
from tests.support.proof_chain import COIN, Json, ProofChain, hexed
from tests.support.staged_node import NOT_KEPT, ORIGIN, StagedNode, tx_hash_of
from tests.vectors.proofs.chains import ALICE, BOB, CAROL, FUNDS, NOBODY, TEN, dev, fill, forked, lone, network

SIGNED = "Signed by 3 of 4 validators, checked in this browser"
ALONE = "Signed by the chain's one signer, checked in this browser"
Show = Callable[..., Visitor]


class ThreeOfFour(ProofChain):
    """A network of which one validator never signs."""

    def certificate(self, height: int, *, signers: Iterable[int] | None = None) -> Json:
        return super().certificate(height, signers=[0, 1, 3])


def three_of_four() -> ProofChain:
    return fill(ThreeOfFour("few", TEN, chain_id=4711, balances=FUNDS))


@pytest.fixture
def show(browser: Browser) -> Iterator[Show]:
    """Makes a visitor of a toy node. What it remembers stays when the node is exchanged for another."""
    visitors: list[Visitor] = []

    def make(node: StagedNode, **more: Any) -> Visitor:
        visitors.append(Visitor(browser, ORIGIN, **more))
        node.show_to(visitors[-1].page)
        return visitors[-1]

    yield make
    for visitor in visitors:
        visitor.close()
    assert [complaint for visitor in visitors for complaint in visitor.complaints] == []


def verdict(page: Page) -> str:
    """What the page says, once it has made up its mind."""
    place = page.locator("main .proof")
    expect(place.get_by_text("Verifying")).to_have_count(0)
    return " ".join(place.first.inner_text().split())


def routes(chain: ProofChain) -> dict[str, str]:
    block = hexed(chain.blocks[1].hash)
    return {
        "transaction": f"/tx/{tx_hash_of(chain, 1, 0)}",
        "block": f"/block/{block}",
        "account": f"/account/{hexed(ALICE.address)}",
        "status": "/status",
    }


@pytest.mark.parametrize("view", ["transaction", "block", "account", "status"])
def test_honest_network_is_signed_by_three_of_four(show: Show, view: str) -> None:
    chain = three_of_four()
    page = show(StagedNode(chain)).open(routes(chain)[view])
    said = verdict(page)
    assert said.startswith(SIGNED)
    assert "30 of 40 of the voting power" in said
    expect(page.locator("#alarm")).to_be_hidden()


def test_honest_chain_of_one_node_after_changes_of_validators(show: Show) -> None:
    alone, joint = lone(), network()
    of_one = verdict(show(StagedNode(alone)).open(routes(alone)["transaction"]))
    assert of_one.startswith(ALONE)
    assert "from the genesis that this browser remembers. This is the word of one signer" in of_one
    account = f"/account/{hexed(ALICE.address)}"
    assert "after 3 changes of keys since genesis" in verdict(show(StagedNode(joint)).open(account))


def test_dev_chain_says_that_everybody_has_the_key(show: Show) -> None:
    chain = dev()
    page = show(StagedNode(chain)).open(f"/tx/{tx_hash_of(chain, 2, 0)}")
    assert "everybody has it, so it proves nothing" in verdict(page)
    assert "checked in this browser" not in verdict(page)


def test_address_without_an_account_is_proven_to_hold_nothing(show: Show) -> None:
    page = show(StagedNode(lone())).open(f"/account/{hexed(NOBODY.address)}")
    assert verdict(page).startswith(ALONE)
    expect(page.locator(".balance")).to_have_text("0 coins")


def test_block_without_a_signature_yet_is_proven_with_the_next(show: Show) -> None:
    chain = lone()
    node = StagedNode(chain, 7)
    node.unsigned = 1
    page = show(node).open(f"/block/{hexed(chain.blocks[7].hash)}")
    assert verdict(page).startswith("Signed together with the next payment The node has confirmed it")
    expect(page.locator("main .badge.doubt, main .badge.failed")).to_have_count(0)
    node.head = 8
    expect(page.locator("main .proof")).to_contain_text(ALONE)


def test_balance_of_a_block_that_is_not_signed_yet_is_told_apart(show: Show) -> None:
    chain = lone()
    node = StagedNode(chain)
    node.unsigned = 1
    page = show(node).open(f"/account/{hexed(ALICE.address)}")
    assert verdict(page).startswith(ALONE)
    expect(page.locator(".facts")).to_contain_text(
        "After the latest block, which is signed together with the next payment:"
    )


def test_flipped_bit_is_found_and_flipped_back(show: Show) -> None:
    chain = three_of_four()
    page = show(StagedNode(chain)).open(routes(chain)["transaction"])
    page.get_by_role("button", name="Flip one bit").click()
    expect(page.locator(".proof")).to_contain_text("The proof does not hold: payment: the path does not lead to")
    page.get_by_role("button", name="Flip one bit").click()
    expect(page.locator(".proof")).to_contain_text(SIGNED)


def test_receipt_is_saved_as_the_node_gave_it(show: Show) -> None:
    chain = three_of_four()
    page = show(StagedNode(chain)).open(routes(chain)["transaction"])
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the receipt").click()
    assert download.value.path().read_text().startswith('{"format": "cairn-receipt-1"')


def statement_of(page: Page) -> Locator:
    return page.locator("form.statement")


def test_list_of_an_account_is_said_not_to_be_proven(show: Show) -> None:
    chain = three_of_four()
    page = show(StagedNode(chain)).open(routes(chain)["account"])
    expect(statement_of(page)).to_contain_text("they are not proven, and a payment may be missing")


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ({}, "Saved: all of blocks 0 to 8, with 7 payments. Balance before: 0 coins"),
        ({"From block": "2", "to block": "5"}, "Saved: all of blocks 2 to 5, with 3 payments."),
    ],
)
def test_statement_is_checked_and_saved(show: Show, blocks: dict[str, str], said: str) -> None:
    chain = three_of_four()
    page = show(StagedNode(chain)).open(routes(chain)["account"])
    for label, height in blocks.items():
        statement_of(page).get_by_label(label, exact=True).fill(height)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the statement").click()
    assert download.value.path().read_text().startswith('{"format": "cairn-statement-1"')
    expect(statement_of(page)).to_contain_text(SIGNED)
    expect(statement_of(page)).to_contain_text(said)


def without_a_payment(file: Json) -> Json:
    return file | {"changes": [file["changes"][0], *file["changes"][2:]]}


def too_long(file: Json) -> Json:
    return {"code": "STATEMENT_TOO_LONG", "status": 422, "detail": "end this statement at block 7"}


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (without_a_payment, "The proof does not hold: a change is left out"),
        (lambda file: three_of_four().statement(BOB.address, 0, 8, 8), "The node shows the address"),
        (lambda file: three_of_four().statement(ALICE.address, 0, 6, 8), "The node shows the last block 8."),
        (lambda file: three_of_four().account(ALICE.address, 8, 8), "What is signed says that there is none"),
        (too_long, "end this statement at block 7"),
    ],
    ids=["payment left out", "another account", "earlier end", "another kind of file", "too long"],
)
def test_statement_that_is_not_proven_is_not_saved(show: Show, lie: Callable[[Json], Json], words: str) -> None:
    chain = three_of_four()
    node = StagedNode(chain)
    route = routes(chain)["account"]
    node.lies[f"{route}/statement"] = lie
    page = show(node).open(route)
    saved: list[Download] = []
    page.on("download", lambda download: saved.append(download))
    page.get_by_role("button", name="Save the statement").click()
    expect(statement_of(page)).to_contain_text(words)
    expect(statement_of(page)).not_to_contain_text("Saved")
    assert saved == []


# Lies, each shown by its name.


def put(**fields: Any) -> Callable[[Json], Json]:
    return lambda answer: answer | fields


def other_validators(file: Json) -> Json:
    """Signed by as many who are not the chain's."""
    forger = fill(ProofChain("forger", TEN, chain_id=4711, balances=FUNDS))
    forger.engine_id = three_of_four().engine_id
    return file | {"certificate": forger.certificate(1)}


def other_chain(file: Json) -> Json:
    return file | {"certificate": network().certificate(1)}


def few(file: Json) -> Json:
    signed = file["certificate"]["signed"]
    return file | {"certificate": file["certificate"] | {"signed": signed | {"signatures": signed["signatures"][:2]}}}


def twice(file: Json) -> Json:
    signed = file["certificate"]["signed"]
    doubled = [*signed["signatures"][:2], signed["signatures"][1]]
    return file | {"certificate": file["certificate"] | {"signed": signed | {"signatures": doubled}}}


LIES: dict[str, tuple[str, str, Callable[[Json], Any], str]] = {
    "other amount": (
        "transaction",
        "",
        put(value=6 * COIN),
        "the amount in wei 6,000,000,000,000,000,000.",
    ),
    "other recipient": ("transaction", "", put(to=hexed(NOBODY.address)), "The node shows the recipient"),
    "other sender": ("transaction", "", put(**{"from": hexed(NOBODY.address)}), "The node shows the sender"),
    "other data": ("transaction", "", put(data="0x1234"), "The node shows the data"),
    "other block of a payment": ("transaction", "", put(blockHeight=2), "The node shows the block 2."),
    "other time of a block": ("block", "", put(timestamp=5), "The node shows the time 5."),
    "payments left out of a block": ("block", "", put(transactions=[], transactionCount=0), "number of transactions 0"),
    "other balance": ("account", "", put(balance=7), "The node shows the balance in wei 7."),
    "other nonce": ("account", "", put(nonce=7, pendingNonce=7), "The node shows the number of transactions sent 7."),
    "forged validators": (
        "transaction",
        "/receipt",
        other_validators,
        "The proof does not hold: signed by other validators",
    ),
    "another chain's headers": (
        "transaction",
        "/receipt",
        other_chain,
        "signed for another chain, or another genesis.json than this one",
    ),
    "two thirds minus one": ("transaction", "/receipt", few, "only 20 of 40 of the voting power signed"),
    "one signature twice": ("transaction", "/receipt", twice, "the signatures are not in order, or one is there twice"),
    "another account's proof": (
        "account",
        "/proof",
        put(address=hexed(BOB.address)),
        "the leaf says nothing of this account",
    ),
    "an older height's proof": ("account", "/proof", put(height=1), "The proof does not hold"),
    "a proof that is no file": ("block", "/finality", lambda file: [], "The proof does not hold"),
}


@pytest.mark.parametrize("name", LIES)
def test_lie_is_shown_red_by_its_name(show: Show, name: str) -> None:
    view, part, lie, words = LIES[name]
    chain = three_of_four()
    node = StagedNode(chain)
    route = routes(chain)[view]
    node.lies[route + part] = lie
    page = show(node).open(route)
    said = verdict(page)
    assert said.startswith("Not proven")
    assert words in said
    assert "checked in this browser" not in said
    expect(page.locator("main .badge.failed")).to_have_text("Not proven")


def test_another_payment_instead_of_the_one_asked_for_is_red(show: Show) -> None:
    chain = three_of_four()
    node = StagedNode(chain)
    route = routes(chain)["transaction"]
    node.lies[f"{route}/receipt"] = lambda file: chain.receipt(2, 0, 2)
    assert "Not proven The node shows the hash" in verdict(show(node).open(route))


def test_node_that_refuses_a_proof_is_not_taken_for_proven(show: Show) -> None:
    chain = three_of_four()
    node = StagedNode(chain)
    route = routes(chain)["transaction"]
    node.lies[f"{route}/receipt"] = lambda file: {"code": "NOT_FOUND", "status": 404, "detail": "no"}
    assert verdict(show(node).open(route)).startswith("No proof")


def remembering(show: Show, before: StagedNode, after: StagedNode, route: str) -> Page:
    """A visitor who has seen the first node's latest block, and comes back to find the second one."""
    visitor = show(before)
    assert ALONE in verdict(visitor.open("/status"))
    visitor.page.unroute_all(behavior="wait")
    after.show_to(visitor.page)
    return visitor.open(route)


def test_rewritten_history_is_red_above_every_view(show: Show) -> None:
    other = forked()
    page = remembering(show, StagedNode(lone()), StagedNode(other), f"/account/{hexed(ALICE.address)}")
    assert "History was rewritten: block 8, which this browser has seen signed, is not in the history" in verdict(page)
    expect(page.locator("#alarm")).to_contain_text("History was rewritten")


def test_rewritten_history_that_is_shorter_is_red(show: Show) -> None:
    other = forked()
    page = remembering(show, StagedNode(lone()), StagedNode(other, 4), f"/block/{hexed(other.blocks[4].hash)}")
    assert "cannot show that its chain still holds block 8" in verdict(page)
    expect(page.locator("#alarm")).to_be_visible()


def split() -> tuple[ProofChain, ProofChain]:
    """Two chains of nine blocks that are one up to block 5."""
    chains = ProofChain("lone", balances=FUNDS), ProofChain("lone", balances=FUNDS)
    for height in range(1, 10):
        for chain in chains:
            chain.add([chain.pay(ALICE, CAROL.address, COIN, 0)] if height == 6 and chain is chains[1] else [])
    return chains


class TwoFaced(StagedNode):
    """All that it shows up to block 7 is of another chain."""

    def __init__(self, chain: ProofChain, other: ProofChain) -> None:
        super().__init__(chain, 5)
        self.other = other

    def answer(self, path: str, query: dict[str, str]) -> Any:
        if path == "/block/7/finality":
            return self.other.finality(7, 7)
        if path == "/history/proof" and query["to"] == "7":
            return self._history(self.other, int(query["from"]), 7, "known" in query)
        return super().answer(path, query)


CHECK_AT_ONCE = """async () => {
    const { trust } = await import("/explorer/trust.js");
    const isSeen = new Promise((resolve) => trust.addEventListener("change", resolve, { once: true }));
    const ask = globalThis.fetch;
    globalThis.fetch = async (path, ...more) => {
        if (String(path).includes("from=5&to=7")) await isSeen;
        return ask(path, ...more);
    };
    const check = (height) => trust.check(`/block/${height}/finality`, new AbortController().signal);
    const checked = await Promise.allSettled([check(9), check(7)]);
    return [checked.map(({ reason }) => reason?.message ?? "proven"), trust.memory.head.height];
}"""
"""Two checks, of which the second asks for the history before the first has remembered block 9, and gets it after."""


def check_at_once(show: Show, node: StagedNode) -> tuple[list[str], str]:
    page = show(node).open("/status")
    assert ALONE in verdict(page)
    node.head = 9
    said, head = page.evaluate(CHECK_AT_ONCE)
    return said, head


def test_older_head_of_a_check_that_ends_later_is_not_remembered(show: Show) -> None:
    chain, _ = split()
    assert check_at_once(show, TwoFaced(chain, chain)) == (["proven", "proven"], "9")


def test_two_histories_in_two_checks_at_once_are_told(show: Show) -> None:
    (first, second), head = check_at_once(show, TwoFaced(*split()))
    assert (first, head) == ("proven", "9")
    assert "History was rewritten: block 9, which this browser has seen signed, is not in the history" in second


def test_later_head_that_only_appends_is_followed_and_remembered(show: Show) -> None:
    chain = lone()
    node = StagedNode(chain)
    page = remembering(show, StagedNode(chain, 5), node, f"/account/{hexed(ALICE.address)}")
    assert verdict(page).startswith(ALONE)
    assert "/history/proof" in node.asked
    assert page.evaluate("() => JSON.parse(localStorage.getItem('cairn-trust')).head.height") == "8"


def test_head_that_the_node_has_pruned_since_is_followed_by_its_remembered_header(show: Show) -> None:
    chain = lone()
    node = StagedNode(chain)
    node.base = 7
    page = remembering(show, StagedNode(chain, 5), node, f"/account/{hexed(ALICE.address)}")
    assert verdict(page).startswith(ALONE)
    expect(page.locator("#alarm")).to_be_hidden()
    assert page.evaluate("() => JSON.parse(localStorage.getItem('cairn-trust')).head.height") == "8"


def test_node_that_pruned_the_seen_head_of_another_history_is_red(show: Show) -> None:
    node = StagedNode(forked())
    node.base = 7
    page = remembering(show, StagedNode(lone(), 5), node, f"/account/{hexed(ALICE.address)}")
    assert "History was rewritten: block 5" in verdict(page)
    expect(page.locator("#alarm")).to_be_visible()


def test_history_that_a_node_never_had_is_not_taken_for_a_rewritten_one(show: Show) -> None:
    chain = lone()
    node = StagedNode(chain)
    node.lies["/history/proof"] = lambda file: NOT_KEPT
    said = verdict(remembering(show, StagedNode(chain, 5), node, f"/account/{hexed(ALICE.address)}"))
    assert said.startswith("Not checked This node cannot show that its chain still holds block 5")
    assert "checked in this browser" not in said


def test_older_payment_is_proven_under_the_head_that_was_seen(show: Show) -> None:
    chain = lone()
    page = remembering(show, StagedNode(chain), StagedNode(chain), f"/tx/{tx_hash_of(chain, 1, 0)}")
    assert verdict(page).startswith(ALONE)


def test_older_balance_than_was_seen_is_red(show: Show) -> None:
    chain = lone()
    node = StagedNode(chain)
    account = f"/account/{hexed(ALICE.address)}"
    node.lies[f"{account}/proof"] = lambda file: chain.account(ALICE.address, 5, 5)
    said = verdict(remembering(show, StagedNode(chain), node, account))
    assert "The proof is of block 5, and this browser has seen block 8" in said


def test_another_genesis_is_red_above_every_view_until_it_is_forgotten(show: Show) -> None:
    page = remembering(show, StagedNode(lone()), StagedNode(lone("other")), "/blocks")
    expect(page.locator("#alarm")).to_contain_text(
        "This node has another genesis than the one that this browser remembers"
    )
    page.goto(f"{ORIGIN}/#/status")
    assert verdict(page).startswith("Not proven This node has another genesis")
    page.get_by_role("button", name="Forget it").click()
    expect(page.locator("main .proof")).to_contain_text(ALONE)
    expect(page.locator("#alarm")).to_be_hidden()


def test_genesis_is_shown_with_its_digest(show: Show) -> None:
    chain = lone()
    page = show(StagedNode(chain)).open("/status")
    expect(page.locator(".facts", has_text="Genesis digest")).to_contain_text(hexed(chain.digest))


def test_page_without_web_crypto_says_why_nothing_is_checked(show: Show) -> None:
    chain = lone()
    visitor = show(StagedNode(chain))
    visitor.page.add_init_script("Object.defineProperty(crypto, 'subtle', { value: undefined })")
    said = verdict(visitor.open(routes(chain)["transaction"]))
    assert said.startswith("Not checked Browsers check signatures only on pages that come over https or from localhost")
