"""The docs site: builds without a warning, asks nobody else for anything, and has a place for every error code."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cairn.domain.errors import ANSWERED
from tests.support.docs_site import build_site
from tests.support.pages import ROOT

LOADS = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}
"""Elements that a browser fetches on its own, and by which attribute; what a person clicks on may lead anywhere."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    done = build_site("--site-dir", str(target))
    assert done.returncode == 0, done.stderr
    return target


@pytest.mark.parametrize("link", ["missing.md", "index.md#missing"])
def test_a_broken_link_stops_the_build(tmp_path: Path, link: str) -> None:
    settings = (ROOT / "mkdocs.yml").read_text().partition("validation:\n")[2].partition("\n\n")[0]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: x\nvalidation:\n{settings}\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"[there is none]({link})\n")
    done = build_site("--config-file", str(tmp_path / "mkdocs.yml"), "--site-dir", str(tmp_path / "site"))
    assert done.returncode != 0
    assert "missing" in done.stderr


class Seen(HTMLParser):
    """What a page loads by itself, and the names that a link can lead to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors.add(given.get("id") or "")
        self.loaded.append(given.get(LOADS.get(tag, "")) or "")


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    foreign = re.compile(r"^(https?:)?//")
    assert [url for page in pages for url in Seen(page).loaded if foreign.match(url)] == []
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )['\"]?(https?:)?//", style.read_text()), style
    # The theme would fetch what draws these.
    assert [page for page in pages if "mermaid" in page.read_text()] == []


def test_every_dialog_has_a_name_that_is_read_out(site: Path) -> None:
    for page in site.rglob("*.html"):
        dialogs = re.findall(r"<[^>]*role=\"dialog\"[^>]*>", page.read_text())
        assert dialogs, page
        assert [each for each in dialogs if 'aria-label="' not in each] == [], page


def test_lists_are_lists(site: Path) -> None:
    """Here a list needs an empty line before it; without one, its items run together in the paragraph."""
    broken = re.compile(r"<p>[^<]*\n(- |\d+\. |\| )")
    assert [page for page in site.rglob("*.html") if broken.search(page.read_text())] == []


def test_a_link_to_an_error_code_leads_to_its_line(site: Path) -> None:
    anchors = Seen(site / "errors" / "index.html").anchors
    assert {error.code.lower() for error in ANSWERED} - anchors == set()
