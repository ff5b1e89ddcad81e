"""The descriptions and the page that shows them: whole, offline, revalidated."""

import asyncio
import importlib.util
import re
from pathlib import Path

import httpx
import msgspec
import pytest

from cairn.api.app import make_app
from cairn.api.chain_view import ChainView
from cairn.api.description import pages
from cairn.api.description.openapi import encode_openapi
from cairn.api.description.pages import ASSETS, asset_path
from cairn.api.events.hub import EventHub
from cairn.config import Settings
from cairn.domain.genesis import DEV_KEYS
from tests.support.scripted_gateway import INFO, ScriptedGateway

DEV_ACCOUNTS = [address for address, _ in DEV_KEYS]


def get(path: str, view: ChainView | None = None, **headers: str) -> httpx.Response:
    async def main() -> httpx.Response:
        shown = view or ChainView(Path("unused"), chain_id=1337)
        app = make_app(ScriptedGateway(), shown, EventHub(shown, Settings()), Settings())
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
            return await http.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    return asyncio.run(main())


def test_the_page_loads_only_what_the_node_serves() -> None:
    page = get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    linked = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert linked == ["data:,", "/docs/swagger-ui.css", "/docs/swagger-ui.js", "/docs/start.js"]
    for path in linked[1:]:
        assert get(path).status_code == 200
    assert "/openapi.json" in get("/docs/start.js").text


def test_the_assets_are_of_a_version_that_shows_openapi_3_1() -> None:
    script = asset_path(ASSETS["swagger-ui.js"][0]).read_text()
    version = re.search(r'PACKAGE_VERSION:"(\d+)\.', script)
    assert version is not None
    assert int(version[1]) >= 5
    assert get("/docs/swagger-ui.css").headers["content-type"] == "text/css; charset=utf-8"
    assert get("/docs/swagger-ui.js").headers["content-type"] == "text/javascript; charset=utf-8"


def test_the_package_of_the_assets_is_never_imported() -> None:
    spec = importlib.util.find_spec("offapi")
    assert spec is not None
    assert asset_path("swagger_bundle.js").parent == Path(spec.origin or "").parent


def test_a_client_that_has_it_gets_no_second_copy() -> None:
    for path in ("/docs", "/docs/swagger-ui.js", "/openapi.json", "/asyncapi.json"):
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


def test_without_the_package_the_failure_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "ASSET_PACKAGE", "no_such_package")
    with pytest.raises(FileNotFoundError, match="no_such_package"):
        asset_path("x")
    assert get("/docs/swagger-ui.js").status_code == 500
