"""The API reference, its documents, and the explorer: whole, from this node alone, revalidated."""

import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import urljoin

import httpx
import msgspec
import pytest

from cairn.api.chain_view import ChainView
from cairn.api.description.openapi import encode_openapi
from cairn.api.description.pages import SHARED_FILES
from cairn.config import Settings
from cairn.domain.genesis import DEV_KEYS
from cairn.explorer import REFERENCE_DIRECTORY, STATIC_DIRECTORY
from tests.support.public import assert_problem
from tests.support.scripted_gateway import INFO, request

DEV_ACCOUNTS = [address for address, _ in DEV_KEYS]
FILES = sorted(path.relative_to(STATIC_DIRECTORY).as_posix() for path in STATIC_DIRECTORY.rglob("*.*"))
MODULES = {file for file in FILES if file.endswith((".js", ".mjs"))}
PAGE = (STATIC_DIRECTORY / "index.html").read_text()
MAX_PAGE_BYTES = 350_000
"""Of which 47,000 are verify.mjs, which is written to be read and copied."""


def get(path: str, view: ChainView | None = None, settings: Settings | None = None, **headers: str) -> httpx.Response:
    return request("GET", path, view=view, settings=settings, headers=headers)


def test_the_page_loads_only_what_the_node_serves() -> None:
    page = get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    loaded = re.findall(r'<(?:script|link|img)\b[^>]*\b(?:src|href)="([^"]+)"', page.text)
    assert set(loaded) == {f"/docs/static/{file}" for file in SHARED_FILES} | {
        f"/docs/reference/{file.name}" for file in REFERENCE_DIRECTORY.iterdir() if file.name != "index.html"
    }
    for path in loaded:
        assert get(path).status_code == 200
    assert not re.search(r"<script(?![^>]* src=)|<style| style=| on\w+=", page.text)


def test_the_page_lets_in_no_code_but_its_own() -> None:
    for path in ("/docs", "/docs/reference/main.js", "/docs/static/dom.js"):
        answer = get(path)
        assert answer.headers["content-security-policy"] == get("/").headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_no_module_of_the_page_imports_what_it_does_not_load() -> None:
    page = get("/docs").text
    for module in REFERENCE_DIRECTORY.glob("*.js"):
        for target in re.findall(r'^import .* from "([^"]+)";', module.read_text(), re.MULTILINE):
            assert f'"{urljoin(f"/docs/reference/{module.name}", target)}"' in page, (module.name, target)


@pytest.mark.parametrize(
    "path", ["start.js", "reference/other.js", "static/main.js", "other/main.js", "reference/..%2fstatic%2fdom.js"]
)
def test_a_path_that_is_no_file_of_the_page_is_not_found(path: str) -> None:
    assert_problem(get(f"/docs/{path}"), 404, "NOT_FOUND")


def test_without_an_explorer_the_page_is_whole() -> None:
    off = replace(Settings(), explorer=False)
    for path in ("/docs", "/docs/static/style.css", "/docs/reference/main.js"):
        assert get(path, settings=off).status_code == 200


def test_a_client_that_has_the_document_gets_304() -> None:
    for path in ("/docs", "/docs/reference/main.js", "/openapi.json", "/asyncapi.json"):
        first = get(path)
        again = get(path, if_none_match=first.headers["etag"])
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["x-chain-id"] == "1337"
        assert get(path, if_none_match='"another"').status_code == 200


def test_the_document_follows_what_the_node_signs_for() -> None:
    view = ChainView(Path("unused"), chain_id=1337)
    assert get("/openapi.json", view).content == encode_openapi([])
    view.info = msgspec.structs.replace(INFO, signs_for=DEV_ACCOUNTS)
    assert get("/openapi.json", view).content == encode_openapi(DEV_ACCOUNTS)


def test_the_explorer_is_served_and_revalidated() -> None:
    page = get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.text == PAGE
    again = get("/", if_none_match=page.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")
    assert "content-security-policy" in again.headers


@pytest.mark.parametrize("file", FILES)
def test_every_file_of_the_explorer_is_served_with_its_type(file: str) -> None:
    answer = get(f"/explorer/{file}")
    assert answer.status_code == 200
    assert answer.content == (STATIC_DIRECTORY / file).read_bytes()
    script = "text/javascript"
    expected = {"js": script, "mjs": script, "css": "text/css", "html": "text/html", "svg": "image/svg+xml"}
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


def test_the_explorer_names_only_files_that_are_there() -> None:
    linked = re.findall(r'(?:src|href)="/explorer/([^"]+)"', PAGE)
    assert set(linked) <= set(FILES)
    assert not re.search(r'(?:src|href)="(?:https?:)?//', PAGE)


def test_every_module_of_the_explorer_is_fetched_at_once() -> None:
    """Otherwise the browser learns of each only from the one that imports it, round trip by round trip."""
    preloaded = set(re.findall(r'rel="modulepreload" href="/explorer/([^"]+)"', PAGE))
    assert preloaded == MODULES - {"main.js", "theme.js"}


def test_no_module_of_the_explorer_imports_from_elsewhere() -> None:
    for module in MODULES:
        text = (STATIC_DIRECTORY / module).read_text()
        imports = re.findall(r'^import .*?"([^"]+)";|^} from "([^"]+)";', text, re.MULTILINE)
        for target in (first or second for first, second in imports):
            assert (STATIC_DIRECTORY / module).parent.joinpath(target).resolve().is_relative_to(STATIC_DIRECTORY)


def test_the_whole_explorer_is_small() -> None:
    assert sum((STATIC_DIRECTORY / file).stat().st_size for file in FILES) < MAX_PAGE_BYTES


def test_the_verifier_of_the_explorer_is_the_one_that_others_copy() -> None:
    original = Path(__file__).parents[4] / "verify" / "verify.mjs"
    same = original.read_bytes() == (STATIC_DIRECTORY / original.name).read_bytes()
    assert same, "run `cp verify/verify.mjs src/cairn/explorer/static`"


def test_an_explorer_that_is_switched_off_is_not_found() -> None:
    off = replace(Settings(), explorer=False)
    for path in ("/", "/explorer/main.js", "/explorer/views/block.js"):
        assert_problem(get(path, settings=off), 404, "NOT_FOUND")
    assert get("/docs", settings=off).status_code == 200
