"""Serves /metrics, on a socket of its own: any worker does, from the page of memory that all processes share.

So the answer needs neither the core nor a free connection of the API. Nothing else is answered there.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus

from cairn.api.server.access import HostList
from cairn.api.server.http_heads import Header
from cairn.api.server.small_server import Reply, SmallRequest, SmallServer
from cairn.config import Settings
from cairn.domain.errors import ForbiddenHost, MalformedRequest
from cairn.loopback import is_loopback
from cairn.metrics import PAGE
from cairn.time_shares import TimeShares, in_slices

MAX_CONNECTIONS = 16
"""Of a worker. Whoever watches a node has one or two."""
CONTENT_TYPE: Header = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")


class MetricsServer(SmallServer):
    def __init__(self, settings: Settings, refresh: Callable[[], Awaitable[None]], shares: TimeShares) -> None:
        """`refresh` is awaited before each answer: it looks up what nobody else has set."""
        super().__init__(self._answer, MAX_CONNECTIONS)
        self._refresh = refresh
        self._shares = shares
        host = settings.metrics_host
        # On any other address everybody who can connect may read them, under whatever name.
        self._hosts = HostList(replace(settings, host=host)) if is_loopback(host) else None

    async def _answer(self, request: SmallRequest) -> Reply:
        try:
            if self._hosts is not None:
                self._hosts.check(request.headers, request.version)
        except ForbiddenHost as refusal:
            return _reply(HTTPStatus.FORBIDDEN, f"{refusal.detail}\n")
        except MalformedRequest as refusal:
            return _reply(HTTPStatus.BAD_REQUEST, f"{refusal.detail}\n")
        if request.path != b"/metrics":
            return _reply(HTTPStatus.NOT_FOUND, "the metrics are at /metrics\n")
        if request.method not in (b"GET", b"HEAD"):
            return _reply(HTTPStatus.METHOD_NOT_ALLOWED, "ask with GET\n")
        return _reply(HTTPStatus.OK, await self._shares.run(request.client, self._rendered()))

    async def _rendered(self) -> str:
        await self._refresh()
        # With many workers there are many numbers to add up.
        return "".join([family.rendered(PAGE) async for family in in_slices(PAGE.families)])


def _reply(status: HTTPStatus, text: str) -> Reply:
    return Reply(status, text.encode(), (CONTENT_TYPE,))
