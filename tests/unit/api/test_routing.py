"""Operations: what is declared at a handler, which path and method it is found by, and what others are answered."""

import asyncio
from collections.abc import Mapping

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from cairn.api.parameters import LIMIT, TX_HASH
from cairn.api.routing import Answer, Operation, PathRouter, operations_of
from cairn.domain.errors import InvalidQuery, MethodNotAllowed, PathNotFound


class Things:
    def __init__(self, owner: str) -> None:
        self._owner = owner

    @Operation("GET /things/{hash}", "things", TX_HASH, LIMIT, Answer("It.", str), 404)
    async def get_thing(self, request: Request, query: Mapping[str, str]) -> Response:
        """Is it there? Looks for it,
        everywhere.
        """
        return PlainTextResponse(f"{self._owner} {request.path_params['hash']} {query.get('limit')}")

    @Operation("POST /things/{hash}", "things", Answer("Done.", str), body=str)
    async def make_thing(self, request: Request) -> Response:
        """Make it. At once."""
        return PlainTextResponse("made")


def declared(route: str) -> object:
    """An object with one handler, of this route."""

    async def show(part: object, request: Request) -> Response:
        """Show the path. And its parameters."""
        return PlainTextResponse(f"{request.scope['path']} {sorted(request.path_params.items())}")

    return type("Part", (), {"show": Operation(route, "things")(show)})()


PARTS = [
    Things("ours"),
    *map(
        declared,
        ["GET /", "GET /chain", "POST /tx", "GET /tx/{hash}", "GET /tx/{hash}/proof", "GET /explorer/{asset}",
         "GET /explorer/views/{asset}"],
    ),
]  # fmt: skip


def ask(method: str, path: str, query: str = "") -> str:
    async def main() -> str:
        router = PathRouter(PARTS, {})

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            # As the server gives it, whatever a client library makes of it.
            await router({**scope, "path": path}, receive, send)

        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
            return (await http.request(method, f"/?{query}")).text

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
def test_a_path_with_anything_more_or_less_is_not_found(path: str) -> None:
    with pytest.raises(PathNotFound):
        ask("GET", path)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/tx", "POST"),
        ("POST", "/chain", "GET, HEAD"),
        ("OPTIONS", "/tx/0x12", "GET, HEAD"),
        ("PUT", "/things/a", "GET, HEAD, POST"),
    ],
)
def test_another_method_is_refused_with_those_that_are_served(method: str, path: str, allowed: str) -> None:
    with pytest.raises(MethodNotAllowed) as refused:
        ask(method, path)
    assert refused.value.allowed == allowed


def test_each_method_of_a_path_has_its_handler() -> None:
    assert ask("GET", "/things/a", "limit=3") == "ours a 3"
    assert ask("GET", "/things/b") == "ours b None"
    assert ask("POST", "/things/c", "any=query") == "made"
    assert ask("HEAD", "/things/a") == ""


@pytest.mark.parametrize("query", ["other=1", "hash=a", "limit=1&limit=2"])
def test_a_query_parameter_that_is_not_declared_or_given_twice_is_refused(query: str) -> None:
    with pytest.raises(InvalidQuery):
        ask("GET", "/things/a", query)


def test_an_operation_has_what_its_handler_declares() -> None:
    get, post = operations_of(Things)
    assert (get.method, get.path, get.tag, get.name) == ("GET", "/things/{hash}", "things", "get_thing")
    assert (get.summary, get.description.split()) == ("Is it there?", ["Looks", "for", "it,", "everywhere."])
    assert (get.parameters, get.problems, get.body) == ([TX_HASH, LIMIT], [404], None)
    assert (post.method, post.answers, post.body) == ("POST", [Answer("Done.", str)], str)
