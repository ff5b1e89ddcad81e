"""Which route a path has, and what a path without one is answered."""

import asyncio

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from cairn.api.routing import PathRouter
from cairn.domain.errors import MethodNotAllowed, PathNotFound


async def shown(request: Request) -> Response:
    return PlainTextResponse(f"{request.scope['path']} {sorted(request.path_params.items())}")


ROUTES = [
    Route("/", shown),
    Route("/chain", shown),
    Route("/tx", shown, methods=["POST"]),
    Route("/tx/{hash}", shown),
    Route("/tx/{hash}/proof", shown),
    Route("/explorer/{asset}", shown),
    Route("/explorer/views/{asset}", shown),
]


def ask(method: str, path: str) -> str:
    async def main() -> str:
        router = PathRouter(ROUTES)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            # As the server gives it, whatever a client library makes of it.
            await router({**scope, "path": path}, receive, send)

        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
            return (await http.request(method, "/")).text

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/", []),
        ("/chain", []),
        ("/tx/0x12", [("hash", "0x12")]),
        ("/tx/0x12/proof", [("hash", "0x12")]),
        ("/tx/proof", [("hash", "proof")]),
        ("/explorer/views", [("asset", "views")]),
        ("/explorer/views/a.js", [("asset", "a.js")]),
    ],
)
def test_a_path_is_served_by_its_route(path: str, parameters: list[tuple[str, str]]) -> None:
    assert ask("GET", path) == f"{path} {parameters}"
    assert ask("HEAD", path) == ""


@pytest.mark.parametrize(
    "path",
    ["", "//", "/chain/", "//chain", "/chain\n", "/Chain", "/tx/", "/tx/a/", "/tx/a\n", "/tx/a/b", "/tx//proof",
     "/tx/a/proof/", "/explorer", "/explorer/a/b.js", "/nothing", "/nothing/a", "chain"],
)  # fmt: skip
def test_a_path_with_anything_more_or_less_has_none(path: str) -> None:
    with pytest.raises(PathNotFound):
        ask("GET", path)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("GET", "/tx", "POST"), ("POST", "/chain", "GET, HEAD"), ("OPTIONS", "/tx/0x12", "GET, HEAD")],
)
def test_another_method_is_refused_with_those_that_are_served(method: str, path: str, allowed: str) -> None:
    with pytest.raises(MethodNotAllowed) as refused:
        ask(method, path)
    assert refused.value.allowed == allowed
