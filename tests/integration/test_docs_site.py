"""The docs site: builds without a warning, asks nobody else for anything, and its reference is complete."""

import re
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest
from mkdocs.exceptions import PluginError

from cairn import client
from cairn.api.description.asyncapi import asyncapi_document
from cairn.domain.errors import ANSWERED
from tests.support.described import DOCUMENT
from tests.support.docs_site import build_site
from tests.support.pages import ROOT
from tools.reference.hook import on_page_markdown

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


def test_lists_are_lists(site: Path) -> None:
    """Here a list needs an empty line before it; without one, its items run together in the paragraph."""
    broken = re.compile(r"<p>[^<]*\n(- |\d+\. |\| )")
    assert [page for page in site.rglob("*.html") if broken.search(page.read_text())] == []


def test_the_rest_reference_is_complete(site: Path) -> None:
    anchors = Seen(site / "rest" / "index.html").anchors
    operations = {operation["operationId"] for item in DOCUMENT["paths"].values() for operation in item.values()}
    expected = {name.lower() for name in operations} | {
        f"schema-{name.lower()}" for name in DOCUMENT["components"]["schemas"]
    }
    assert expected - anchors == set()


def test_every_code_and_every_message_has_its_place(site: Path) -> None:
    assert {error.code.lower() for error in ANSWERED} - Seen(site / "errors" / "index.html").anchors == set()
    messages = {f"message-{name.lower()}" for name in asyncapi_document()["components"]["messages"]}
    assert messages - Seen(site / "events" / "index.html").anchors == set()


def test_every_class_of_the_client_has_its_place(site: Path) -> None:
    anchors = Seen(site / "client-reference" / "index.html").anchors
    classes = {f"cairn.client.{name}" for name in client.__all__ if isinstance(getattr(client, name), type)}
    # What the package gives out under its own name may stand under its module's instead.
    described = {anchor.rpartition(".")[2] for anchor in anchors}
    assert {name for name in classes if name.rpartition(".")[2] not in described} == set()


@pytest.mark.parametrize("module", [client.errors, client.models])
def test_every_class_that_the_client_shares_with_the_node_stands_under_the_client_s_name(
    site: Path, module: ModuleType
) -> None:
    classes = {f"{module.__name__}.{name}" for name in module.__all__ if isinstance(getattr(module, name), type)}
    assert len(classes) > 20
    assert classes - Seen(site / "client-reference" / "index.html").anchors == set()


def test_the_client_s_reference_says_what_a_field_means(site: Path) -> None:
    page = (site / "client-reference" / "index.html").read_text()
    described = DOCUMENT["components"]["schemas"]["Account"]["properties"]["balance"]["description"]
    assert described in page
    assert "Annotated" not in page


def test_a_place_without_a_reference_stops_the_build() -> None:
    with pytest.raises(PluginError, match="'no such thing'"):
        on_page_markdown("before\n<!-- reference: no such thing -->\n")


def test_docstrings_are_left_to_their_plugin() -> None:
    options = "    options:\n      inherited_members:"
    assert on_page_markdown("<!-- reference: cairn.client -->\n") == f"::: cairn.client\n{options} False\n"
    assert on_page_markdown("<!-- reference: cairn.Client -->\n") == f"::: cairn.Client\n{options} True\n"
