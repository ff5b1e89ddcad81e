"""The explorer in front of a node that lies: no page says that something is verified which was changed."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Route

from tests.support.browser import Visitor
from tests.support.lies import lies_about
from tests.support.public import PublicNode
from tests.support.wallet import GWEI, dev_account

PROVEN = "Verified in this page"
HASHED = "Hash verified Transaction hashes verified"
SHOW = """(route) => {
    document.querySelector("main > *").setAttribute("data-old", "");
    location.hash = route;
}"""
READ = """() => {
    const view = document.querySelector("main:not([aria-busy]) > :not([data-old])");
    if (view === null || view.textContent.includes("Verifying")) return null;
    return [...view.querySelectorAll("h1, .badge")].map((place) => place.textContent).join(" ");
}"""
"""The headings and the verdicts of the new view, once the page has made up its mind."""


class Deceived:
    """A visitor whose answers are changed on the way. One page for all the lies: only the view is made anew."""

    def __init__(self, browser: Browser, node: PublicNode) -> None:
        self._visitor = Visitor(browser, node.url)
        self._visitor.open("/nothing")
        self._visitor.page.route("**/*", self._tell)
        self._answers: dict[str, Any] = {}
        self._views = 0

    def _tell(self, route: Route) -> None:
        answer = self._answers.get(route.request.url.removeprefix(self._visitor.url))
        route.continue_() if answer is None else route.fulfill(json=answer)

    def sees(self, route: str, answers: dict[str, Any]) -> str:
        """What the page says of itself at that route, when these are the answers at these paths."""
        self._answers = answers
        # Another address each time, or the page would stay as it is.
        self._views += 1
        self._visitor.run(SHOW, f"{route}?view={self._views}")
        seen = self._visitor.page.wait_for_function(READ).json_value()
        assert isinstance(seen, str)
        return seen

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
    typed = legacy | {"maxFeePerGas": 3 * GWEI, "maxPriorityFeePerGas": GWEI}
    answers = node.post([legacy, typed] * 3, "/txs").json()
    confirmed = [node.await_confirmed(answer["txHash"]) for answer in answers]
    hashes = [tx["blockHash"] for tx in confirmed]
    made = node.read(f"/block/{max(hashes, key=hashes.count)}")
    assert len(made["transactions"]) > 2
    return made


def unnoticed(deceived: Deceived, route: str, path: str, truth: Any, claim: str) -> list[str]:
    """The parts of the answer to `path` about which the node can lie, and the page still makes its claim."""
    assert claim in deceived.sees(route, {path: truth}), "the truth is taken for a lie"
    return [part for part, lie in lies_about(truth) if claim in deceived.sees(route, {path: lie})]


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
    assert unnoticed(deceived, route, path, node.read(path), PROVEN) == []


def test_prices_that_are_not_signed_are_not_believed(deceived: Deceived, node: PublicNode, block: Any) -> None:
    path = path_of(node, block, 0)
    tx, proof = node.read(path), node.read(f"{path}/proof")
    caps = {"maxFeePerGas": 999 * GWEI, "maxPriorityFeePerGas": 900 * GWEI}
    forged = proof | {"transaction": proof["transaction"] | caps}
    paid = {"gasPrice": 901 * GWEI, "fee": 21_000 * 901 * GWEI}
    for shown, proven in (
        (tx | caps | paid, forged),
        (tx | paid, forged),
        (tx | caps, proof),
        (tx | {"type": 2}, proof),
    ):
        assert PROVEN not in deceived.sees(path, {path: shown, f"{path}/proof": proven})


def test_no_lie_is_believed_because_it_is_told_twice(deceived: Deceived, node: PublicNode, block: Any) -> None:
    path = path_of(node, block, 0)
    tx, proof = node.read(path), node.read(f"{path}/proof")
    believed = []
    for part, lie in lies_about({name: tx[name] for name in tx.keys() & proof["transaction"].keys()}):
        proof["transaction"] = lie | {"signature": proof["transaction"]["signature"]}
        told = {name: value for name, value in tx.items() if name not in lie} | lie
        if PROVEN in deceived.sees(path, {path: told, f"{path}/proof": proof}):
            believed.append(part)
    assert believed == []


@pytest.mark.parametrize("name", ["hash", "blockHeight"])
def test_a_block_is_verified_as_it_is_or_not_at_all(deceived: Deceived, block: Any, name: str) -> None:
    path = f"/block/{block[name]}"
    assert unnoticed(deceived, path, path, block, HASHED) == []
