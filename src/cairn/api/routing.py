"""Operations of the API, declared once at their handlers: the routes and the OpenAPI document are made from that."""

import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from cairn.api.bodies import JSON_MEDIA_TYPE
from cairn.api.parameters import Parameter, parse_query
from cairn.api.server.exchange import ROUTE_NAME
from cairn.domain.errors import MethodNotAllowed, PathNotFound
from cairn.metrics import PAGES

RouteHandler = Callable[..., Coroutine[Any, Any, Response]]
ByMethod = dict[str, RouteHandler]


class Answer(NamedTuple):
    """A successful answer, with the type of its body. If it has an ETag, If-None-Match can be answered with 304."""

    description: str
    body: Any = None
    headers: tuple[str, ...] = ()
    media_types: tuple[str, ...] = (JSON_MEDIA_TYPE,)
    status: int = 200
    has_lines: bool = False
    """A client can have its transactions as lines (NDJSON) instead."""


def page_answer(listed: Any, *headers: str) -> Answer:
    return Answer("One page of the list.", listed, ("Link", "X-Total-Count", *headers))


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

    @property
    def route(self) -> str:
        return f"{self.method} {self.path}"

    def has_in_path(self, parameter: Parameter) -> bool:
        return f"{{{parameter.name}}}" in self.path

    def __call__(self, handler: RouteHandler) -> RouteHandler:
        self.name = handler.__name__
        said = re.split(r"(?<=[.?])\s+", handler.__doc__ or "", maxsplit=1)
        if len(said) != 2:
            raise TypeError(f"the docstring of {self.name} needs a sentence as summary, and a description after it")
        self.summary, self.description = said
        query_names = [each.name for each in self.parameters if not each.is_header and not self.has_in_path(each)]

        @wraps(handler)
        async def with_query(part: object, request: Request) -> Response:
            return await handler(part, request, parse_query(request.scope["query_string"], *query_names))

        declared = with_query if query_names else handler
        vars(declared)["operation"] = self
        return declared


class PageRoute(Operation):
    """As `Operation`, for a page for people or a file of one: no program calls it, so no document lists it."""

    def __init__(self, route: str) -> None:
        super().__init__(route, PAGES)


def operations_of(cls: type) -> Iterator[Operation]:
    return (member.operation for member in vars(cls).values() if hasattr(member, "operation"))


class PathRouter:
    """The ASGI application that calls the handlers: found by the whole path, or by the patterns that begin like it.

    A path with a slash too many names nothing: it is not redirected to a guess.
    """

    def __init__(self, parts: Iterable[object], sockets: Mapping[str, ASGIApp]) -> None:
        """`parts` have the handlers. `sockets` are the applications behind WebSockets, by path."""
        self._sockets = sockets
        self._exact: dict[str, ByMethod] = {}
        self._patterns: dict[str, list[tuple[re.Pattern[str], ByMethod]]] = {}
        """By the first part of the path."""
        self._names: dict[RouteHandler, str] = {}
        by_path: dict[str, ByMethod] = {}
        for part in parts:
            for operation in operations_of(type(part)):
                handlers = by_path.setdefault(operation.path, {})
                handlers[operation.method] = handler = getattr(part, operation.name)
                self._names[handler] = PAGES if operation.tag in (PAGES, "description") else operation.route
                if operation.method == "GET":
                    handlers["HEAD"] = handlers["GET"]
        for path, handlers in by_path.items():
            if "{" in path:
                pattern = re.compile(path.replace("{", "(?P<").replace("}", ">[^/]+)"))
                self._patterns.setdefault(_first_part(path), []).append((pattern, handlers))
            else:
                self._exact[path] = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._sockets[scope["path"]](scope, receive, send)
            return
        handlers = self._find(scope)
        handler = handlers.get(scope["method"])
        if handler is None:
            raise MethodNotAllowed(scope["method"], ", ".join(sorted(handlers)))
        scope[ROUTE_NAME] = self._names[handler]
        response = await handler(Request(scope, receive))
        await response(scope, receive, send)

    def _find(self, scope: Scope) -> ByMethod:
        """The handlers of the path. Raises `PathNotFound`."""
        path = scope["path"]
        handlers = self._exact.get(path)
        if handlers is not None:
            return handlers
        for pattern, handlers in self._patterns.get(_first_part(path), ()):
            match = pattern.fullmatch(path)
            # A line break is a part of no name, whatever the pattern says.
            if match is not None and not path.endswith("\n"):
                scope["path_params"] = match.groupdict()
                return handlers
        raise PathNotFound("there is no such path; see /docs")


def _first_part(path: str) -> str:
    return path[1:].partition("/")[0]
