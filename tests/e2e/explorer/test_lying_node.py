"""The explorer in front of a node that lies: no page says that something is verified which was changed."""

import re
from collections.abc import Iterable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e.explorer.conftest import Visit
from tests.support.browser import Visitor
from tests.support.lies import Lie, lies_about
from tests.support.public import PublicNode

VERDICT = re.compile("erified|does not hold|wrong|This did not work|Not found")


class Liar:
    """Changes the answers to one path, between the node and the page."""

    def __init__(self, visitor: Visitor, path: str) -> None:
        self.answer: Any = None
        visitor.page.route(f"**{path}", self._tell)

    def _tell(self, route: Route) -> None:
        route.fulfill(json=self.answer) if self.answer is not None else route.continue_()


def verdicts(page: Page) -> Locator:
    return page.locator("main .badge, main h1").filter(has_text=VERDICT)


def unnoticed(visitor: Visitor, route: str, path: str, lies: Iterable[Lie], claim: str) -> list[str]:
    """The parts of the answer to `path` about which the node can lie, and the page still claims to have verified it."""
    liar = Liar(visitor, path)
    assert claim in verdict_of(visitor, route), "the truth is taken for a lie"
    parts = []
    for part, lie in lies:
        liar.answer = lie
        if claim in verdict_of(visitor, route):
            parts.append(part)
    return parts


def verdict_of(visitor: Visitor, route: str) -> str:
    page = visitor.open(route)
    expect(page.get_by_text("Verifying")).to_have_count(0)
    expect(verdicts(page).first).to_be_visible()
    text = " ".join(verdicts(page).all_inner_texts())
    # A page that fails says so in the console too; that is what is wanted here.
    visitor.complaints.clear()
    return text


def some_block(node: PublicNode) -> Any:
    """With several transactions, and not too many for one page."""
    block = next(block for block in node.read("/blocks", limit=100) if block["transactionCount"] > 1)
    return node.read(f"/block/{block['hash']}")


@pytest.mark.parametrize("part", ["", "/proof"])
def test_a_transaction_is_verified_as_it_is_or_not_at_all(visit: Visit, node: PublicNode, part: str) -> None:
    tx_hash = some_block(node)["transactions"][1]
    path = f"/tx/{tx_hash}{part}"
    assert unnoticed(visit(), f"/tx/{tx_hash}", path, lies_about(node.read(path)), "Verified in this page") == []


@pytest.mark.parametrize("name", ["hash", "blockHeight"])
def test_a_block_is_verified_as_it_is_or_not_at_all(visit: Visit, node: PublicNode, name: str) -> None:
    block = some_block(node)
    path = f"/block/{block[name]}"
    # Of its transactions one is enough; that there are more, fewer, or in another order is among the lies.
    lies = [(part, lie) for part, lie in lies_about(block) if not re.match(r"transactions\.[1-9]", part)]
    assert unnoticed(visit(), path, path, lies, "Hash verified Transaction hashes verified") == []
