"""The explorer in front of a node that lies: no page says that something is verified which was changed."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.support.browser import TIMEOUT_MS, Visitor
from tests.support.lies import lies_about
from tests.support.public import PublicNode
from tests.support.wallet import GWEI, dev_account

PROVEN = "Verified in this page"
HASHED = "Hash verified Transaction hashes verified"
STAND_BETWEEN = """
    const ask = window.fetch;
    window.answers = {};
    window.fetch = async (path, options) =>
        path in answers
            ? new Response(answers[path], { headers: { "Content-Type": "application/json" } })
            : ask(path, options);
"""
"""The node's answers reach the page through `fetch` alone. The sockets tell of heights, which are not verified."""
SEE = """async ([route, answers, number, patienceMs]) => {
    const read = () => {
        const view = document.querySelector("main:not([aria-busy]) > :not([data-old])");
        if (view === null || view.textContent.includes("Verifying")) return null;
        return [...view.querySelectorAll("h1, .badge")].map((place) => place.textContent).join(" ");
    };
    const see = async () => {
        document.querySelector("main > *").setAttribute("data-old", "");
        // Another address each time, or the page would stay as it is.
        location.hash = `${route}?view=${(number += 1)}`;
        for (const begun = performance.now(); performance.now() < begun + patienceMs; ) {
            const seen = read();
            if (seen !== null) return seen;
            await new Promise((resolve) => setTimeout(resolve, 5));
        }
        throw new Error(`the page does not make up its mind about ${JSON.stringify(window.answers)}`);
    };
    const seen = [];
    for (window.answers of answers) seen.push(await see());
    return seen;
}"""
"""The headings and the verdicts of each new view, once the page has made up its mind."""


class Deceived:
    """A visitor whose answers are changed on the way. One page for all the lies: only the view is made anew."""

    def __init__(self, browser: Browser, node: PublicNode) -> None:
        self._visitor = Visitor(browser, node.url)
        self._visitor.page.add_init_script(STAND_BETWEEN)
        self._visitor.open("/nothing")
        self._views = 0

    def sees(self, route: str, tellings: list[dict[str, Any]]) -> list[str]:
        """What the page says of itself at that route for each telling: the answers at some paths."""
        texts = [{path: json.dumps(answer) for path, answer in answers.items()} for answers in tellings]
        seen = self._visitor.run(SEE, [route, texts, self._views, TIMEOUT_MS])
        self._views += len(tellings)
        assert len(seen) == len(tellings)
        return list(seen)

    def close(self) -> None:
        self._visitor.close()


@pytest.fixture(scope="module")
def deceived(browser: Browser, node: PublicNode) -> Iterator[Deceived]:
    visitor = Deceived(browser, node)
    yield visitor
    visitor.close()


@pytest.fixture(scope="module")
def block(node: PublicNode) -> Any:
    """With a few transactions, so that a proof has a path and the page is soon made."""
    legacy = {"from": dev_account(0).address, "to": dev_account(1).address, "value": 12_345, "gas": 21_000}
    typed = legacy | {
        "maxFeePerGas": 3 * GWEI,
        "maxPriorityFeePerGas": GWEI,
        "reference": "invoice 4711",
        "gas": 30_000,
    }
    answers = node.post([legacy, typed] * 3, "/txs").json()
    confirmed = [node.await_confirmed(answer["txHash"]) for answer in answers]
    hashes = [tx["blockHash"] for tx in confirmed]
    made = node.read(f"/block/{max(hashes, key=hashes.count)}")
    assert len(made["transactions"]) > 2
    return made


def unnoticed(deceived: Deceived, route: str, path: str, truth: Any, claim: str) -> list[str]:
    """The parts of the answer to `path` about which the node can lie, and the page still makes its claim."""
    parts, lies = zip(*lies_about(truth), strict=True)
    first, *seen = deceived.sees(route, [{path: answer} for answer in (truth, *lies)])
    assert claim in first, "the truth is taken for a lie"
    return [part for part, said in zip(parts, seen, strict=True) if claim in said]


def path_of(node: PublicNode, block: Any, kind: int) -> str:
    """The route and the address of a transaction of that type."""
    paths = (f"/tx/{tx_hash}" for tx_hash in block["transactions"])
    return next(path for path in paths if node.read(path).get("type", 0) == kind)


@pytest.mark.parametrize("kind", [0, 2])
@pytest.mark.parametrize("part", ["", "/proof"])
def test_a_transaction_is_verified_as_it_is_or_not_at_all(
    deceived: Deceived, node: PublicNode, block: Any, part: str, kind: int
) -> None:
    route = path_of(node, block, kind)
    path = route + part
    # The page reads the reference from the data itself: a node that leaves it out hides nothing.
    harmless = ["reference missing"] if kind == 2 and not part else []
    assert unnoticed(deceived, route, path, node.read(path), PROVEN) == harmless


def test_prices_that_are_not_signed_are_not_believed(deceived: Deceived, node: PublicNode, block: Any) -> None:
    path = path_of(node, block, 0)
    tx, proof = node.read(path), node.read(f"{path}/proof")
    caps = {"maxFeePerGas": 999 * GWEI, "maxPriorityFeePerGas": 900 * GWEI}
    forged = proof | {"transaction": proof["transaction"] | caps}
    paid = {"gasPrice": 901 * GWEI, "fee": 21_000 * 901 * GWEI}
    told = ((tx | caps | paid, forged), (tx | paid, forged), (tx | caps, proof), (tx | {"type": 2}, proof))
    for said in deceived.sees(path, [{path: shown, f"{path}/proof": proven} for shown, proven in told]):
        assert PROVEN not in said


def test_a_lie_in_both_transaction_and_proof_is_not_verified(deceived: Deceived, node: PublicNode, block: Any) -> None:
    path = path_of(node, block, 0)
    tx, proof = node.read(path), node.read(f"{path}/proof")
    parts, tellings = [], []
    for part, lie in lies_about({name: tx[name] for name in tx.keys() & proof["transaction"].keys()}):
        forged = proof | {"transaction": lie | {"signature": proof["transaction"]["signature"]}}
        told = {name: value for name, value in tx.items() if name not in lie} | lie
        parts.append(part)
        tellings.append({path: told, f"{path}/proof": forged})
    seen = deceived.sees(path, tellings)
    assert [part for part, said in zip(parts, seen, strict=True) if PROVEN in said] == []


@pytest.mark.parametrize("name", ["hash", "blockHeight"])
def test_a_block_is_verified_as_it_is_or_not_at_all(deceived: Deceived, block: Any, name: str) -> None:
    path = f"/block/{block[name]}"
    assert unnoticed(deceived, path, path, block, HASHED) == []
