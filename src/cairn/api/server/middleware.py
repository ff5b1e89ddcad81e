"""Around every request: access rules, headers of every answer, and errors as problems."""

import asyncio

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cairn.api.bodies import encode_problem
from cairn.api.chain_view import ChainView
from cairn.api.failures import error_of
from cairn.api.server.access import (
    GUEST,
    PROBE_PATHS,
    HostList,
    OriginList,
    PageKind,
    RateLimiter,
    client_of,
    find_origin,
)
from cairn.api.server.http_heads import Header, absence_in
from cairn.api.server.websocket_session import EXTENSION
from cairn.domain.errors import NodeError, PathNotFound, RateLimited
from cairn.time_shares import QueueName, TimeShares

EVENTS_PATH = "/events"
RPC_PATH = "/rpc"
PREFLIGHT_LIFETIME_S = b"600"
SUBMISSION_PATHS = frozenset({"/tx", "/txs", "/faucet"})
"""A POST to one of them never waits for reads."""


class Edge:
    """The outermost ASGI application."""

    def __init__(
        self, app: ASGIApp, view: ChainView, hosts: HostList, origins: OriginList, limiter: RateLimiter,
        shares: TimeShares, server_adds_chain_id: bool,
    ) -> None:  # fmt: skip
        """`server_adds_chain_id`: our own server puts the header on every answer, even on one that never comes here."""
        self._app = app
        self._view = view
        self.hosts = hosts
        self.origins = origins
        self.limiter = limiter
        self.shares = shares
        self._adds_chain_id = not server_adds_chain_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._serve_http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._serve_websocket(scope, receive, send)

    async def _serve_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = self.shares.clock()
        answer = _Answer(send, self._chain_id_header() if self._adds_chain_id else [])
        try:
            try:
                preflight = self._admit(scope, answer)
            except NodeError:
                self.shares.charge(client_in(scope), "reads", self.shares.clock() - began)
                raise
            if preflight is not None:
                await answer.send_whole(204, preflight, b"")
            elif scope["path"] in PROBE_PATHS:
                await self._app(scope, receive, answer)
            else:
                await self._take_turns(scope, receive, answer, self.shares.clock() - began)
        except ClientDisconnect:
            pass
        except Exception as failure:
            # Kept in a variable, the error and this frame would keep each other.
            await answer.send_problem(error_of(failure, self._view.fail, method=scope["method"], path=scope["path"]))

    def _admit(self, scope: Scope, answer: "_Answer") -> list[Header] | None:
        """Raise the refusal of a client or a web page. Return the headers for a page that only asks what it may."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        origin = None
        try:
            has_doubles = len(headers) != len(scope["headers"])
            if has_doubles or b"host" not in headers or not self.hosts.allows(headers[b"host"]):
                self.hosts.check(scope["headers"], scope["http_version"])
            if b"origin" in headers:
                origin = find_origin(scope["headers"])
            # Before the rate limit, so that its refusal has these headers, too.
            host, for_wallets = headers.get(b"host", b"").decode("latin-1"), scope["path"] == RPC_PATH
            page: PageKind = "own" if origin is None else self.origins.check(origin, host, for_wallets)
            answer.extra += self.origins.headers_for(origin, page, for_wallets)
            if page == "guest":
                scope[GUEST] = origin
        finally:
            self._count(scope)
        is_preflight = scope["method"] == "OPTIONS" and b"access-control-request-method" in headers
        return _preflight_headers(headers) if is_preflight and origin is not None else None

    async def _take_turns(self, scope: Scope, receive: Receive, answer: "_Answer", used_s: float) -> None:
        is_gone, serving = absence_in(receive), self._serve(scope, receive, answer)
        try:
            await self.shares.run(client_in(scope), serving, queue_of(scope), is_gone, used_s)
        except asyncio.CancelledError:
            if not is_gone():
                raise

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def _count(self, scope: Scope) -> None:
        """Count the request against the rate limit, even if it is refused for another reason."""
        client = scope["client"]
        if client is None or scope["path"] in PROBE_PATHS or not self.limiter.limits(client[0]):
            return
        if not self.limiter.take(client[0]):
            raise RateLimited("too many requests from this address; slow down")

    async def _serve_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            try:
                self.hosts.check(scope["headers"], "1.1")
            finally:
                self._count(scope)
            if scope["path"] not in (EVENTS_PATH, RPC_PATH):
                raise PathNotFound(f"events are at {EVENTS_PATH}, and JSON-RPC is at {RPC_PATH}")
        except NodeError as error:
            scope["extensions"][EXTENSION]["connection"].refuse(error)
            return
        await self.shares.run(client_in(scope), self._serve(scope, receive, send))

    def _chain_id_header(self) -> list[Header]:
        chain_id = self._view.chain_id
        if chain_id is None:
            return []
        return [(b"x-chain-id", str(chain_id).encode())]


class _Answer:
    """The `send` of one request: adds the common headers, and knows whether the answer has begun."""

    def __init__(self, send: Send, extra: list[Header]) -> None:
        self._send = send
        self._has_begun = False
        self.extra = extra

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._has_begun = True
            headers = [*message["headers"], *self.extra]
            if b"cache-control" not in dict(headers):
                headers.append((b"cache-control", b"no-store"))
            message["headers"] = headers
        await self._send(message)

    async def send_whole(self, status: int, headers: list[Header], body: bytes) -> None:
        if status not in (204, 304):
            headers = [*headers, (b"content-length", str(len(body)).encode())]
        await self({"type": "http.response.start", "status": status, "headers": headers})
        await self({"type": "http.response.body", "body": body})

    async def send_problem(self, error: NodeError) -> None:
        # Once the answer has begun, an error can only break the connection, which the server does.
        if not self._has_begun:
            await self.send_whole(*encode_problem(error))


def client_in(scope: Scope) -> str:
    return client_of(scope["client"][0]) if scope["client"] else ""


def queue_of(scope: Scope) -> QueueName:
    return "submissions" if scope["method"] == "POST" and scope["path"] in SUBMISSION_PATHS else "reads"


def _preflight_headers(headers: dict[bytes, bytes]) -> list[Header]:
    asked = headers.get(b"access-control-request-headers")
    return [
        (b"access-control-allow-methods", b"GET, HEAD, POST, OPTIONS"),
        (b"access-control-allow-headers", asked or b"content-type"),
        (b"access-control-max-age", PREFLIGHT_LIFETIME_S),
    ]
