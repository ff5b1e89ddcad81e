"""The explorer in front of a node that lies: no page says that something is signed which was changed."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.support.browser import TIMEOUT_MS, Visitor
from tests.support.lies import lies_about
from tests.support.proof_chain import hexed
from tests.support.staged_node import ORIGIN, StagedNode, tx_hash_of
from tests.vectors.proofs.chains import ALICE, lone

SIGNED = "checked in this browser"
STAND_BETWEEN = """
    const ask = window.fetch;
    window.answers = {};
    window.fetch = async (path, options) =>
        path in answers
            ? new Response(answers[path], { headers: { "Content-Type": "application/json" } })
            : ask(path, options);
"""
"""The node's answers reach the page through `fetch` alone."""
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

    def __init__(self, browser: Browser) -> None:
        self.node = StagedNode(lone())
        self._visitor = Visitor(browser, ORIGIN)
        self.node.show_to(self._visitor.page)
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
def deceived(browser: Browser) -> Iterator[Deceived]:
    visitor = Deceived(browser)
    yield visitor
    visitor.close()


def unnoticed(deceived: Deceived, route: str, part: str = "") -> list[str]:
    """The parts of the answer about which the node can lie, and the page still says that it is signed."""
    path = route + part
    truth = deceived.node.answer(path, {})
    parts, lies = zip(*lies_about(truth), strict=True)
    first, *seen = deceived.sees(route, [{path: answer} for answer in (truth, *lies)])
    assert SIGNED in first, "the truth is taken for a lie"
    return [part for part, said in zip(parts, seen, strict=True) if SIGNED in said]


@pytest.mark.parametrize("part", ["", "/receipt"])
@pytest.mark.parametrize("place", [(1, 1), (2, 0), (5, 0)], ids=["type 1", "type 2", "legacy"])
def test_a_transaction_is_signed_as_it_is_or_not_at_all(deceived: Deceived, place: tuple[int, int], part: str) -> None:
    assert unnoticed(deceived, f"/tx/{tx_hash_of(deceived.node.chain, *place)}", part) == []


@pytest.mark.parametrize("part", ["", "/finality"])
def test_a_block_is_signed_as_it_is_or_not_at_all(deceived: Deceived, part: str) -> None:
    assert unnoticed(deceived, f"/block/{hexed(deceived.node.chain.blocks[4].hash)}", part) == []


def test_an_account_is_proven_as_it_is_or_not_at_all(deceived: Deceived) -> None:
    route = f"/account/{hexed(ALICE.address)}"
    # The same path fits trees of several sizes, and nothing is said of the size.
    assert unnoticed(deceived, route, "/proof") == ["state.size more", "state.size less"]
    # No block holds what is pending, so nobody can prove that.
    assert [part for part in unnoticed(deceived, route) if not part.startswith("pendingNonce")] == []
