"""The docs site as its readers see it: no page scrolls sideways at any width; search finds their words."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser import TIMEOUT_MS, open_browser
from tests.support.docs_site import build_site, serve_site

WIDTHS = (320, 768, 1440)
SEARCHED = {
    "smart contract": "",
    "backup": "backup/#make-a-backup",
    "reorg": "glossary/#blocks",
    "nonce": "client/#many-payments-at-once",
    "faucet": "rest/dev/#faucet",
    "proxy": "production/#put-a-proxy-in-front",
}
"""What people type, and the page or section that must be among the first three pages found."""
FOUND = ".md-search-result__list > li"
TOO_WIDE = """() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    const inside = [...document.querySelectorAll("main *")];
    const wide = inside.filter(each => each.getBoundingClientRect().right > width + 1).slice(0, 5);
    return [document.documentElement.scrollWidth + " px", ...wide.map(each => each.outerHTML.slice(0, 120))];
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    done = build_site("--site-dir", str(target))
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


def test_no_page_scrolls_sideways(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    pages = sorted(site.rglob("index.html"))
    assert len(pages) > 20
    too_wide = {}
    for path in pages:
        page.goto(path.as_uri())
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            too_wide[f"{path.relative_to(site)} at {width}"] = page.evaluate(TOO_WIDE)
    page.close()
    assert {name: found for name, found in too_wide.items() if found} == {}


def test_search_finds_what_people_type(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    box = page.get_by_role("textbox", name="Search")
    with serve_site(site) as address:
        page.goto(address)
        for words, wanted in SEARCHED.items():
            box.fill(words)
            # The page looks at its box when a key is released.
            box.press("End")
            path, _, section = wanted.partition("#")
            link = f'a[href^="{address}{path}?h="]' + (f'[href$="#{section}"]' if section else "")
            expect(page.locator(f"{FOUND}:nth-child(-n+3) {link}").first).to_be_attached()
            shown = page.eval_on_selector_all(f"{FOUND} > a", "links => links.map(each => each.href)")
            is_decision = ["/adr/" in each for each in shown]
            assert is_decision == sorted(is_decision), f"{words}: decisions come after guides"
            box.fill("")
            box.press("End")
            expect(page.locator(FOUND)).to_have_count(0)
        page.close()
