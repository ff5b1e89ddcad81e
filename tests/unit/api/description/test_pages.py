"""The descriptions and the page that shows them: whole, offline, revalidated."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import urljoin

import httpx
import msgspec
import pytest

from cairn.api.app import make_api
from cairn.api.chain_view import ChainView
from cairn.api.description.openapi import encode_openapi
from cairn.api.description.pages import SHARED_FILES
from cairn.api.events.hub import EventHub
from cairn.config import Settings
from cairn.domain.genesis import DEV_KEYS
from cairn.explorer import REFERENCE_DIRECTORY
from tests.support.rest_node import assert_problem
from tests.support.scripted_gateway import INFO, ScriptedGateway

DEV_ACCOUNTS = [address for address, _ in DEV_KEYS]


def get(path: str, view: ChainView | None = None, settings: Settings | None = None, **headers: str) -> httpx.Response:
    chosen = settings or Settings()

    async def main() -> httpx.Response:
        shown = view or ChainView(Path("unused"), chain_id=1337)
        app = make_api(ScriptedGateway(), shown, EventHub(shown, chosen), chosen).app
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
            return await http.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    return asyncio.run(main())


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
