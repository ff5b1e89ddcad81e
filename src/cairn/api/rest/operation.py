"""An operation of the REST API, declared once at its handler. Routes and OpenAPI document are made from it."""

import re
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cairn.api.rest.bodies import JSON_MEDIA_TYPE
from cairn.api.rest.parameters import Parameter, parse_query

Handler = Callable[..., Coroutine[Any, Any, Response]]


class Answer(NamedTuple):
    """A successful answer, with the type of its body. If it has an ETag, If-None-Match can be answered with 304."""

    description: str
    body: Any = None
    headers: tuple[str, ...] = ()
    media_types: tuple[str, ...] = (JSON_MEDIA_TYPE,)
    status: int = 200


def page_answer(listed: Any, *headers: str) -> Answer:
    return Answer("One page of the list.", listed, ("Link", "X-Total-Count", *headers))


def file_answer(description: str, *media_types: str) -> Answer:
    return Answer(description, str, ("ETag",), media_types)


class Operation:
    """A decorator that makes a method the handler of a route, such as "GET /chain".

    The method's name becomes the operation's id. The first sentence of its docstring becomes the summary, the rest the
    description. A number is the status of an error that is particular to this operation. If the operation has query
    parameters, they are parsed first and passed as the handler's third argument; undeclared parameters are refused.
    """

    name, summary, description = "", "", ""

    def __init__(self, route: str, tag: str, *said: Answer | Parameter | int, body: Any = None) -> None:
        self.method, self.path = route.split()
        self.tag = tag
        self.answers = [each for each in said if isinstance(each, Answer)]
        self.parameters = [each for each in said if isinstance(each, Parameter)]
        self.problems = [each for each in said if isinstance(each, int)]
        self.body = body

    def has_in_path(self, parameter: Parameter) -> bool:
        return f"{{{parameter.name}}}" in self.path

    def __call__(self, handler: Handler) -> Handler:
        self.name = handler.__name__
        self.summary, self.description = re.split(r"(?<=[.?])\s+", handler.__doc__ or "", maxsplit=1)
        query_names = [parameter.name for parameter in self.parameters if not self.has_in_path(parameter)]

        @wraps(handler)
        async def with_query(part: object, request: Request) -> Response:
            return await handler(part, request, parse_query(request.scope["query_string"], *query_names))

        declared = with_query if query_names else handler
        vars(declared)["operation"] = self
        return declared


def operations_of(cls: type) -> Iterator[Operation]:
    return (member.operation for member in vars(cls).values() if hasattr(member, "operation"))


def make_routes(*parts: object) -> list[Route]:
    by_path: dict[str, dict[str, Handler]] = {}
    for part in parts:
        for operation in operations_of(type(part)):
            by_path.setdefault(operation.path, {})[operation.method] = getattr(part, operation.name)
    return [Route(path, _by_method(handlers), methods=list(handlers)) for path, handlers in by_path.items()]


def _by_method(handlers: dict[str, Handler]) -> Handler:
    """One route for all methods of a path, so that the error for another method can name them all."""
    if len(handlers) == 1:
        return next(iter(handlers.values()))

    async def serve(request: Request) -> Response:
        return await handlers["GET" if request.method == "HEAD" else request.method](request)

    return serve
