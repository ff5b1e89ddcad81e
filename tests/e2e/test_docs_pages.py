"""The docs site as its readers see it: no page scrolls sideways, on a desktop or a phone; search finds their words."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser import TIMEOUT_MS, open_browser
from tests.support.docs_site import build_site, serve_site

WIDTHS = {"desktop": 1280, "phone": 390}
SEARCHED = {
    "smart contract": "",
    "backup": "production/#back-up-and-restore",
    "reorg": "glossary/#blocks",
    "nonce": "client/#many-payments-at-once",
    "faucet": "rest/#schema-faucetrequest",
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


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_no_page_scrolls_sideways(site: Path, browser: Browser, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, is_mobile=width < 500)
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    pages = sorted(site.rglob("index.html"))
    assert len(pages) > 20
    too_wide = {}
    for path in pages:
        page.goto(path.as_uri())
        too_wide[str(path.relative_to(site))] = page.evaluate(TOO_WIDE)
    context.close()
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
            box.fill("")
            box.press("End")
            expect(page.locator(FOUND)).to_have_count(0)
        page.close()
