"""One request and its answer.

The head is complete when an exchange is made; the body may still arrive. A hot route answers it with bytes that are
written whole. Otherwise the application does, by ASGI: `receive` gives it the body, `send` takes its answer.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Scope

from cairn.api.server.http_heads import Header, RequestHead, encode_head
from cairn.api.server.slow_requests import SLOW_S, tell_slow
from cairn.domain.errors import Internal
from cairn.metrics import RouteTraffic
from cairn.time_shares import QueueName

AnswerFuture = asyncio.Future[Any]
"""What a hot route's answer is made from, once it is there."""
Client = tuple[str, int]

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
ASGI_VERSION = {"version": "3.0", "spec_version": "2.3"}
DISCONNECT: Message = {"type": "http.disconnect"}
ROUTE_NAME = "cairn.route"
"""In the scope: how the request's route is called in the metrics."""


class HotRoute(Protocol):
    """Answers requests without the application and, unless it waits for something, at once."""

    @property
    def queue(self) -> QueueName | None:
        """In which queue its requests wait for their client's turn; None if the route does all that itself."""

    @property
    def is_alone(self) -> bool:
        """Nothing else of the connection is served meanwhile."""

    @property
    def is_limited(self) -> bool:
        """Its requests count against the rate limit."""

    @property
    def traffic(self) -> RouteTraffic:
        """Where the answer is counted that it has given last. To be asked at once: the next one may count elsewhere."""

    def begin(self, request: "Exchange", used_s: float) -> AnswerFuture | bytes | None:
        """The whole answer, or what it is made from once it is there; None when only the application can tell.

        What it raises, as `answer` may, is answered by `RouteTable.failed`. A route without a queue charges the client
        for `used_s` of its time, too, which was used before.
        """

    def answer(self, request: "Exchange", answering: AnswerFuture) -> Sequence[bytes]:
        """The whole answer, in parts that need no copy of a long body."""


class RouteTable(Protocol):
    def find(self, request: "Exchange") -> HotRoute | None:
        """The route of a request, by its head."""

    def find_read(self, target: bytes) -> HotRoute | None:
        """The route of a GET whose head needs no more work, by its target."""

    def failed(self, request: "Exchange", failure: BaseException) -> bytes:
        """The whole answer to a request whose route has raised that."""

    def refresh(self, common_lines: bytes) -> None:
        """These headers are on every answer from now on."""


class HttpConnection(Protocol):
    """What an exchange asks of its connection."""

    transport: asyncio.Transport
    scope: Scope
    """What is the same for all its requests."""
    write_paused: bool

    def clock(self) -> float: ...

    @property
    def common_lines(self) -> bytes: ...

    def write(self, *parts: bytes) -> None: ...

    async def drain(self) -> None:
        """Return once the client reads its answers, or is gone."""

    def read_on(self) -> None:
        """The application waits for what the client sends."""

    def answer_written(self, exchange: "Exchange") -> None: ...

    def fail(self, exchange: "Exchange", failure: BaseException) -> None:
        """The application has raised, or ended before its answer was whole."""

    def let_go(self, exchange: "Exchange") -> None:
        """The application has ended."""


class Exchange:
    """Set by the reader. What most requests leave as it is stands in the class."""

    connection: HttpConnection
    method: str
    target: bytes
    headers: list[Header]
    """With names in lower case."""
    fields: dict[bytes, bytes]
    """The same by name; of those that are given more than once, the last."""
    client: Client | None = None
    address = payer = ""
    """The address of the client, and whose time and bytes it uses."""
    is_limited = False
    """The client has a rate limit."""
    path, query = b"", b""
    version = "1.1"
    keeps_alive = True
    expects_continue = False
    is_upgrade = False
    is_behind = False
    """It is served while requests before it on its connection are not answered yet."""
    route: HotRoute | None = None
    """None once the application has to answer."""
    held_bytes = 0
    """Counted for its client until it is let go."""

    # The request's body.
    body = b""
    """What has come of it, and the application has not received."""
    is_whole = False
    _is_received = False
    """The application has received all of it."""
    _waiter: "asyncio.Future[None] | None" = None

    # The answer.
    has_begun = False
    disconnected = False
    """Nobody waits for the answer any more."""
    is_answering = is_answered = False
    answering: AnswerFuture | None = None
    """What a hot route's answer is made from."""
    status = 200
    """Of the answer."""
    began = 0.0
    """When it was whole, or first in its line; 0 if that was just now."""
    is_patient = False
    """It has asked to wait for something."""
    is_plain: bool
    """A hot route answers it with a 200, and it has not waited for its client's turn."""
    asked: object = None
    """What a hot route keeps of the request for its answer."""
    parts: Sequence[bytes] = ()
    """The whole answer of a hot route, while others before it are due."""
    _head = b""
    """Written together with the beginning of the body."""
    _left_bytes: int | None = None
    """Of the body that the head has announced, if it has announced one."""
    _is_chunked = False
    _scope: Scope = {}  # It is replaced, never changed.

    def is_gone(self) -> bool:
        """Whether no answer can reach the client any more, as far as it was noticed."""
        return self.disconnected or self.connection.transport.is_closing()

    def head(self) -> RequestHead:
        return RequestHead(self.method, self.target, self.version, self.headers)

    def scope(self) -> Scope:
        path = self.path.decode()
        return {
            **self.connection.scope,
            "type": "http",
            "asgi": ASGI_VERSION,
            "http_version": self.version,
            "method": self.method,
            "path": unquote(path) if "%" in path else path,
            "raw_path": self.path,
            "query_string": self.query,
            "root_path": "",
            # Its own list: that of a known head belongs to many requests.
            "headers": list(self.headers),
            "client": self.client,
            "state": {},
        }

    def tell_slow(self, took_s: float) -> Header | None:
        """Log that it took long. Returns a header for its answer, unless it has asked to wait."""
        return None if self.is_patient else tell_slow(self.method, self.target, self.fields, took_s)

    # The request's body, as it arrives.

    def abandon(self) -> None:
        """Nobody waits for the answer, and the rest of the body never comes."""
        self.disconnected = True
        self.expects_continue = False
        self.body = b""
        self.wake()

    def wake(self) -> None:
        """Tell the application that something has changed."""
        if self._waiter is not None:
            if not self._waiter.done():
                self._waiter.set_result(None)
            self._waiter = None

    # The application's side.

    @property
    def route_name(self) -> str:
        """What the application calls the route of the request; empty if it has found none."""
        name: str = self._scope.get(ROUTE_NAME, "")
        return name

    async def run(self, app: ASGIApp) -> None:
        try:
            self._scope = self.scope()
            await app(self._scope, self.receive, self.send)
        except (Exception, asyncio.CancelledError) as failure:
            self.connection.fail(self, failure)
        else:
            if not self.is_answered and not self.disconnected:
                self.connection.fail(self, Internal("the application gave no whole answer"))
        finally:
            self.connection.let_go(self)

    async def receive(self) -> Message:
        if self.expects_continue:
            self.expects_continue = False
            self.connection.write(CONTINUE)
        has_news = self.body or (self.is_whole and not self._is_received)
        if not (has_news or self.disconnected or self.is_answered):
            self.connection.read_on()
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self.disconnected or self.is_answered:
            return DISCONNECT
        body, self.body = self.body, b""
        self._is_received = self.is_whole
        return {"type": "http.request", "body": body, "more_body": not self.is_whole}

    async def send(self, message: Message) -> None:
        if self.connection.write_paused and not self.disconnected:
            await self.connection.drain()
        if self.disconnected:
            return
        if message["type"] == "http.response.start" and not self.is_answering:
            self._begin_answer(message["status"], message.get("headers", []))
        elif message["type"] == "http.response.body" and self.is_answering and not self.is_answered:
            self._write_body(message.get("body", b""), message.get("more_body", False))
        else:
            raise RuntimeError(f"{message['type']} does not fit here")

    def _begin_answer(self, status: int, headers: list[Header]) -> None:
        self.status = status
        took_s = self.connection.clock() - self.began
        if took_s > SLOW_S and (slow := self.tell_slow(took_s)) is not None:
            headers = [*headers, slow]
        lines, has_body = self.connection.common_lines, self.method != "HEAD"
        head = encode_head(lines, status, headers, has_body, self.keeps_alive, self.version)
        self._head, self._left_bytes, self.keeps_alive, self._is_chunked = head
        self.is_answering = True
        self.expects_continue = False

    @property
    def is_written(self) -> bool:
        """Whether the client has anything of the answer: its head goes with the beginning of its body."""
        return self.is_answering and not self._head

    def _write_body(self, body: bytes, has_more: bool) -> None:
        if self.method == "HEAD":
            body = b""
        elif self._left_bytes is not None:
            self._left_bytes -= len(body)
            if self._left_bytes < 0 or (self._left_bytes and not has_more):
                raise RuntimeError("the body is not as long as its head says")
        elif self._is_chunked:
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (b"" if has_more else b"0\r\n\r\n")
        head, self._head = self._head, b""
        self.connection.write(head, body)
        if not has_more:
            self.is_answered = True
            self.wake()
            self.connection.answer_written(self)
