"""The docs site as its readers see it: no page scrolls sideways, on a desktop or a phone; search knows their words."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.support.browser import TIMEOUT_MS, open_browser
from tests.support.docs_site import build_site

WIDTHS = {"desktop": 1280, "phone": 390}
SEARCHED = ("smart contract", "backup", "reorg", "nonce", "faucet", "proxy")
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


@pytest.mark.parametrize("words", SEARCHED)
def test_search_finds_what_people_type(site: Path, words: str) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    found = [section for section in index["docs"] if words in f"{section['title']} {section['text']}".lower()]
    assert found != []
