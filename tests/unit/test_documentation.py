"""What the documentation says of the tests, the settings and the program is true."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from cairn.config import Settings, load_settings
from tests.support.pages import ROOT, Page
from tools.reference.places import filled, pages

INVARIANTS = Page("docs/invariants.md").text
PROMISES = {name: Page(f"docs/{name}.md").text for name in ("reliability", "security")}
INSTALLS = re.compile(r"(?:pip|pipx|tool) install '?cairn-|uvx --from cairn-")
NAMED = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", "\n".join([INVARIANTS, *PROMISES.values()]))


@pytest.mark.parametrize(("file", "test"), sorted(set(NAMED)))
def test_every_test_that_a_promise_names_exists(file: str, test: str) -> None:
    text = (ROOT / "tests" / file).read_text()
    assert not test or re.search(rf"^(async )?def {test}\(", text, re.MULTILINE)


def test_who_installs_from_an_index_is_told_from_when_on() -> None:
    places = ("*.md", "docs/*.md", "packaging/*/*.md", "src/cairn/explorer/static/*.js")
    before = {
        f"{path.relative_to(ROOT)}:{found.start()}": text[max(0, found.start() - 300) : found.start()]
        for place in places
        for path in ROOT.glob(place)
        for text in [path.read_text()]
        for found in INSTALLS.finditer(text)
    }
    assert len(before) > 5
    assert [where for where, said in before.items() if "from the first release on" not in said.lower()] == []


@pytest.mark.parametrize("name", PROMISES)
def test_every_promise_names_a_test(name: str) -> None:
    tables = re.findall(r"\| shown by \|\n\|[-|]+\|\n((?:\|.*\n)+)", PROMISES[name])
    rows = [row for table in tables for row in table.splitlines()]
    assert len(rows) > 15
    assert [row for row in rows if ".py`" not in row.split(" | ")[-1]] == []


def test_every_command_that_gives_figures_exists_and_writes_them() -> None:
    said = "\n".join(PROMISES.values())
    makefile = (ROOT / "Makefile").read_text()
    made = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", said)) - made == set()
    assert [name for name in re.findall(r"\breports/\w+\.md", said) if not (ROOT / name).is_file()] == []


def test_every_setting_that_stops_an_attack_exists() -> None:
    settings = {field.name for field in fields(Settings)}
    named = set(
        re.findall(r"`((?:max|mempool|ws|rate|first|header|allowed|cors|tls|drain)_\w+)`", PROMISES["security"])
    )
    assert len(named) > 8
    assert named - settings == set()


def test_every_invariant_names_a_test() -> None:
    paragraphs = re.findall(r"^\*\*(I\d+)\.(.*?)(?=\n\n|\Z)", INVARIANTS, re.MULTILINE | re.DOTALL)
    assert [number for number, _ in paragraphs] == [f"I{number}" for number in range(1, len(paragraphs) + 1)]
    assert [number for number, said in paragraphs if ".py" not in said] == []


def test_the_settings_for_production_are_taken() -> None:
    [shown] = Page("docs/production.md").code("toml")
    settings = load_settings(shown)
    assert (settings.allowed_hosts, settings.drain_delay_s) == (("node.example.org",), 5)


@pytest.mark.parametrize("page", list(pages()), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_what_the_program_says_now(page: Path) -> None:
    assert page.read_text() == filled(page), "out of date: run `make generate`"
