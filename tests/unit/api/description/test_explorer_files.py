"""The explorer's files: whole, from this node alone, and gone when it is switched off."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from cairn.api.app import make_api
from cairn.api.chain_view import ChainView
from cairn.api.events.hub import EventHub
from cairn.config import Settings
from cairn.explorer import STATIC_DIRECTORY
from tests.support.rest_node import assert_problem
from tests.support.scripted_gateway import ScriptedGateway

FILES = sorted(path.relative_to(STATIC_DIRECTORY).as_posix() for path in STATIC_DIRECTORY.rglob("*.*"))
MODULES = {file for file in FILES if file.endswith(".js")}
PAGE = (STATIC_DIRECTORY / "index.html").read_text()
MAX_PAGE_BYTES = 240_000


def get(path: str, settings: Settings | None = None, **headers: str) -> httpx.Response:
    chosen = settings or Settings()

    async def main() -> httpx.Response:
        view = ChainView(Path("unused"), chain_id=1337)
        app = make_api(ScriptedGateway(), view, EventHub(view, chosen), chosen).app
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
            return await http.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    return asyncio.run(main())


def test_the_page_is_served_and_revalidated() -> None:
    page = get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.text == PAGE
    again = get("/", if_none_match=page.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")
    assert "content-security-policy" in again.headers


@pytest.mark.parametrize("file", FILES)
def test_every_file_is_served_with_its_type(file: str) -> None:
    answer = get(f"/explorer/{file}")
    assert answer.status_code == 200
    assert answer.content == (STATIC_DIRECTORY / file).read_bytes()
    expected = {"js": "text/javascript", "css": "text/css", "html": "text/html", "svg": "image/svg+xml"}
    assert answer.headers["content-type"].startswith(expected[file.rpartition(".")[2]])
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "name",
    [
        "other.js",
        "..%2f__init__.py",
        "views%2f..%2fapi.js",
        "views",
        "views/other.js",
        "views/..",
        "API.JS",
        "api.js%00",
    ],
)
def test_a_name_that_is_no_file_of_the_explorer_is_not_found(name: str) -> None:
    assert_problem(get(f"/explorer/{name}"), 404, "NOT_FOUND")


def test_the_policy_lets_nothing_in_from_elsewhere() -> None:
    policy = get("/").headers["content-security-policy"]
    rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert {rules[name] for name in ("script-src", "style-src", "img-src", "connect-src")} == {"'self'"}
    assert {rules[name] for name in ("base-uri", "form-action", "frame-ancestors")} == {"'none'"}
    assert not re.search(r"<script(?![^>]* src=)|<style| style=| on\w+=", PAGE)


def test_the_page_names_only_files_that_are_there() -> None:
    linked = re.findall(r'(?:src|href)="/explorer/([^"]+)"', PAGE)
    assert set(linked) <= set(FILES)
    assert not re.search(r'(?:src|href)="(?:https?:)?//', PAGE)


def test_every_module_is_fetched_at_once() -> None:
    """Otherwise the browser learns of each only from the one that imports it, round trip by round trip."""
    preloaded = set(re.findall(r'rel="modulepreload" href="/explorer/([^"]+)"', PAGE))
    assert preloaded == MODULES - {"main.js", "theme.js"}


def test_no_module_imports_from_elsewhere() -> None:
    for module in MODULES:
        text = (STATIC_DIRECTORY / module).read_text()
        imports = re.findall(r'^import .*?"([^"]+)";|^} from "([^"]+)";', text, re.MULTILINE)
        for target in (first or second for first, second in imports):
            assert (STATIC_DIRECTORY / module).parent.joinpath(target).resolve().is_relative_to(STATIC_DIRECTORY)


def test_the_whole_page_is_small() -> None:
    assert sum((STATIC_DIRECTORY / file).stat().st_size for file in FILES) < MAX_PAGE_BYTES


def test_an_explorer_that_is_switched_off_is_not_found() -> None:
    off = replace(Settings(), explorer=False)
    for path in ("/", "/explorer/main.js", "/explorer/views/block.js"):
        assert_problem(get(path, off), 404, "NOT_FOUND")
    assert get("/docs", off).status_code == 200
