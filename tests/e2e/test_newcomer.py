"""docs/first-transaction.md as a newcomer follows it: each way as it is written, on one chain, in the page's order."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page as BrowserPage
from playwright.sync_api import expect

from tests.support.browser import TIMEOUT_MS, find_chromium, open_browser
from tests.support.node_process import NodeProcess
from tests.support.pages import Page, Terminal, steady

PAGE = Page("docs/first-transaction.md")
WAYS = ("curl", "Command line", "Python", "web3.py", "Browser")
MOST_STEPS = 5


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with NodeProcess.start_dev() as node:
        yield Terminal(tmp_path_factory.mktemp("clone"), node.url)


@pytest.fixture(scope="module")
def browser_page() -> Iterator[BrowserPage]:
    executable = find_chromium()
    if executable is None:
        pytest.skip("no browser here: run `make browser`")
    with open_browser(executable) as browser:
        page = browser.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        yield page


def clicks() -> list[str]:
    return re.findall(r"^\d\. (.*)$", PAGE.section("Browser").text, re.MULTILINE)


def test_no_way_is_longer_than_five_steps() -> None:
    counts = {way: len(PAGE.section(way).steps()) or len(clicks()) for way in WAYS}
    assert PAGE.headings() == [*WAYS, "Timed"]
    assert {way: count for way, count in counts.items() if not 0 < count <= MOST_STEPS} == {}
    assert [step.line for step in PAGE.steps()] == [
        "make dev", *(step.line for way in WAYS for step in PAGE.section(way).steps())
    ]  # fmt: skip


@pytest.mark.parametrize("way", WAYS[:-1])
def test_at_the_terminal(terminal: Terminal, way: str) -> None:
    for line, shown in PAGE.section(way).steps():
        assert steady(terminal.run(line)).strip() == steady(shown).strip()


def test_in_the_browser(terminal: Terminal, browser_page: BrowserPage) -> None:
    for instruction in clicks():
        follow(terminal.own(instruction), browser_page)
    [promised] = re.findall(r"says \*(.*?)\*", PAGE.section("Browser").text)
    expect(browser_page.locator("main")).to_contain_text(promised)


def follow(instruction: str, page: BrowserPage) -> None:
    """Do what one line of the page says. Raises `LookupError` for a line that says something else."""
    if opened := re.fullmatch(r"Open <(.*)>\.", instruction):
        page.goto(opened[1])
    elif clicked := re.fullmatch(r"Click \*\*(.*)\*\*\.", instruction):
        page.get_by_role("link", name=clicked[1], exact=True).click()
    elif filled := re.fullmatch(r"Put the recipient into \*\*(.*)\*\*: `(.*)`\.", instruction):
        page.get_by_label(filled[1], exact=True).fill(filled[2])
    elif pressed := re.fullmatch(r"Click the button \*\*(.*)\*\*\.", instruction):
        page.get_by_role("button", name=pressed[1], exact=True).click()
    else:
        raise LookupError(instruction)
