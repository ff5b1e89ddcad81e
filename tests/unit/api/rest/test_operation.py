"""A handler and what is declared of it: its route, its query, its place in the description."""

import asyncio
from collections.abc import Mapping

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router

from cairn.api.rest.operation import Answer, Operation, make_routes, operations_of
from cairn.api.rest.parameters import LIMIT, TX_HASH
from cairn.domain.errors import InvalidQuery


class Things:
    def __init__(self, owner: str) -> None:
        self._owner = owner

    @Operation("GET /things/{hash}", "things", TX_HASH, LIMIT, Answer("It.", str), 404)
    async def get_thing(self, request: Request, query: Mapping[str, str]) -> Response:
        """Is it there? Looks for it,
        everywhere.
        """
        return Response(f"{self._owner} {request.path_params['hash']} {query.get('limit')}")

    @Operation("POST /things/{hash}", "things", Answer("Done.", str), body=str)
    async def make_thing(self, request: Request) -> Response:
        """Make it. At once."""
        return Response("made")


def ask(method: str, path: str) -> httpx.Response:
    async def main() -> httpx.Response:
        transport = httpx.ASGITransport(Router(make_routes(Things("ours"))))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return await http.request(method, path)

    return asyncio.run(main())


def test_each_method_of_a_path_has_its_handler() -> None:
    assert ask("GET", "/things/a?limit=3").text == "ours a 3"
    assert ask("GET", "/things/b").text == "ours b None"
    assert ask("POST", "/things/c?any=query").text == "made"
    assert ask("HEAD", "/things/a").status_code == 200
    refused = ask("PUT", "/things/a")
    assert (refused.status_code, set(refused.headers["allow"].split(", "))) == (405, {"GET", "HEAD", "POST"})


@pytest.mark.parametrize("query", ["other=1", "hash=a", "limit=1&limit=2"])
def test_the_query_holds_what_is_declared_and_no_more(query: str) -> None:
    with pytest.raises(InvalidQuery):
        ask("GET", f"/things/a?{query}")


def test_what_is_declared() -> None:
    get, post = operations_of(Things)
    assert (get.method, get.path, get.tag, get.name) == ("GET", "/things/{hash}", "things", "get_thing")
    assert (get.summary, get.description.split()) == ("Is it there?", ["Looks", "for", "it,", "everywhere."])
    assert (get.parameters, get.problems, get.body) == ([TX_HASH, LIMIT], [404], None)
    assert (post.method, post.answers, post.body) == ("POST", [Answer("Done.", str)], str)
