"""Finds the route of a path: by the whole path, or else by the patterns that begin like it."""

from collections.abc import Iterable

from starlette.requests import Request
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from cairn.domain.errors import MethodNotAllowed, PathNotFound


class PathRouter:
    """The ASGI application that calls the handlers of Starlette's routes, without trying one pattern after the other.

    A path with a slash too many names nothing: it is not redirected to a guess.
    """

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._exact: dict[str, Route] = {}
        self._patterns: dict[str, list[Route]] = {}
        """By the first part of the path."""
        self._sockets: dict[str, ASGIApp] = {}
        for route in routes:
            if isinstance(route, WebSocketRoute):
                self._sockets[route.path] = route.app
            elif isinstance(route, Route) and route.param_convertors:
                self._patterns.setdefault(_first_part(route.path), []).append(route)
            elif isinstance(route, Route):
                self._exact[route.path] = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._sockets[scope["path"]](scope, receive, send)
            return
        route = self._find(scope)
        allowed = route.methods or set()
        if scope["method"] not in allowed:
            raise MethodNotAllowed(scope["method"], ", ".join(sorted(allowed)))
        response = await route.endpoint(Request(scope, receive))
        await response(scope, receive, send)

    def _find(self, scope: Scope) -> Route:
        """Raises `PathNotFound`."""
        path = scope["path"]
        route = self._exact.get(path)
        if route is not None:
            return route
        for route in self._patterns.get(_first_part(path), ()):
            match = route.path_regex.fullmatch(path)
            # A line break is a part of no name, whatever the pattern says.
            if match is not None and not path.endswith("\n"):
                scope["path_params"] = match.groupdict()
                return route
        raise PathNotFound("there is no such path; see /docs")


def _first_part(path: str) -> str:
    return path[1:].partition("/")[0]
