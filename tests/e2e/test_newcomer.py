"""docs/first-transaction.md as a newcomer follows it: each way as it is written, on one chain, in the page's order.

`NEWCOMER=1 pytest -s` begins as a newcomer does: with a clone and `make dev`, and prints how long everything took.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page as BrowserPage
from playwright.sync_api import expect

from tests.support.browser import TIMEOUT_MS, open_browser
from tests.support.node_process import LISTENING, NodeProcess, wait_until
from tests.support.pages import ROOT, Hashes, Page, Terminal, steady
from tests.support.programs import need_program
from tests.support.stopwatch import timed

PAGE = Page("docs/first-transaction.md")
WAYS = ("curl", "Command line", "Python", "web3.py", "Browser")
MOST_STEPS = 5
FROM_CLONE = "NEWCOMER" in os.environ
SETUP_TIMEOUT_S = 900


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    # Each way tells in which block its payment is: without the first, those of the others are not as the page has them.
    need_program("curl")
    directory = tmp_path_factory.mktemp("newcomer")
    if FROM_CLONE:
        with from_clone(directory / "cairn") as second_terminal:
            yield second_terminal
    else:
        with NodeProcess.start_dev() as node:
            # Whatever is installed on the way is in this environment already.
            yield with_examples(Terminal(directory, node.url, {"PIP_NO_INDEX": "1"}))


@contextmanager
def from_clone(clone: Path) -> Iterator[Terminal]:
    """A second terminal beside the one in which `make dev` runs, on any free port."""
    with timed("git clone"):
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    with NodeProcess(["ARGS=--port 0"], program=["make", "-C", str(clone), "dev"]) as node:
        with timed("make dev, until it listens"):
            wait_until(lambda: LISTENING in node.stdout or not node.is_running, SETUP_TIMEOUT_S, LISTENING)
        yield with_examples(Terminal(clone, node.url, programs=clone / ".venv" / "bin", timeout_s=SETUP_TIMEOUT_S))


def with_examples(terminal: Terminal) -> Terminal:
    """The programs that the page runs, for a node whose address is not the usual one."""
    for name in re.findall(r"python (examples/\S+)", PAGE.text):
        terminal.save(name, (ROOT / name).read_text())
    return terminal


@pytest.fixture(scope="module")
def browser_page() -> Iterator[BrowserPage]:
    with open_browser() as browser:
        page = browser.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        yield page


def clicks() -> list[str]:
    return re.findall(r"^\d\. (.*)$", PAGE.section("Browser").text, re.MULTILINE)


def test_no_way_is_longer_than_five_steps() -> None:
    counts = {way: len(PAGE.section(way).steps()) or len(clicks()) for way in WAYS}
    assert PAGE.headings() == [*WAYS, "How long each way takes"]
    assert {way: count for way, count in counts.items() if not 0 < count <= MOST_STEPS} == {}
    assert [step.line for step in PAGE.steps()] == [
        "make dev", *(step.line for way in WAYS for step in PAGE.section(way).steps())
    ]  # fmt: skip


@pytest.mark.parametrize("way", WAYS[:-1])
def test_at_the_terminal(terminal: Terminal, way: str) -> None:
    hashes = Hashes()
    for line, shown in PAGE.section(way).steps():
        with timed(f"{way}: {line.splitlines()[0][:60]}"):
            printed = terminal.run(hashes.translate(line))
        assert steady(printed).strip() == steady(hashes.learn(shown, printed)).strip()


def test_in_the_browser(terminal: Terminal, browser_page: BrowserPage) -> None:
    [promised] = re.findall(r"says \*(.*?)\*", PAGE.section("Browser").text)
    with timed("Browser"):
        for instruction in clicks():
            follow(terminal.own(instruction), browser_page)
        expect(browser_page.locator("main")).to_contain_text(promised)


def test_the_page_shows_the_program_as_it_is() -> None:
    [shown] = PAGE.code("python", "examples/ethereum/pay_web3.py")
    assert shown == (ROOT / "examples/ethereum/pay_web3.py").read_text()


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
