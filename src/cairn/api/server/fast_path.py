"""What all connections of a worker share: the fast path, ready-made answers, and the clock."""

import asyncio
from binascii import Error as HexError
from binascii import unhexlify
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol, cast

import httptools
import structlog
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from cairn.api.chain_view import ChainView
from cairn.api.errors import Internal, encode_problem
from cairn.api.rest.bodies import is_json
from cairn.api.rpc.caller import Caller
from cairn.api.rpc.dispatch import Dispatcher
from cairn.api.server.access import HostList, OriginList, RateLimiter
from cairn.api.server.connection_slots import Occupancy
from cairn.api.server.request_framing import Header
from cairn.api.submitter import Submitter
from cairn.config import Settings
from cairn.core.gateway import Admission
from cairn.domain.errors import NodeError, ShuttingDown
from cairn.domain.types import TxHash

CLOSE: Header = (b"connection", b"close")

MAX_SWEEP_INTERVAL_S = 1.0
MAX_HEADS = 512
MAX_PLAIN_HEAD_BYTES = 2_048
MAX_PLAIN_BODY_BYTES = 4_096
"""A transaction has some 450 bytes, and most calls have fewer; what is longer is not plain."""
NOT_PLAIN = -1
REQUEST_LINE_END = b" HTTP/1.1\r\n"
_PENDING = b'{"status":"pending","txHash":"0x'
_CONFIRMED = b'{"status":"confirmed","txHash":"0x'
_END = b'"}'
_HASH_DIGITS = 64
_STATUS_LINES = {int(status): f"HTTP/1.1 {status:d} {status.phrase}\r\n".encode() for status in HTTPStatus}

Answering = asyncio.Future[Admission] | asyncio.Task[bytes | None]
"""The answer to a submission, or to a JSON-RPC call, which comes later."""

log = structlog.get_logger("cairn.api")


class Held(Protocol):
    """A connection of this worker's."""

    transport: asyncio.Transport

    def finish(self) -> None:
        """The worker stops: finish the current answers, then end."""


# Each needs something that only the full lane does.
UNUSUAL = frozenset({b"origin", b"expect", b"upgrade", b"transfer-encoding", b"content-encoding", b"if-none-match"})


class PlainHeads(dict[bytes, int]):
    """Request heads that are known to be plain, so that the next one of the same bytes needs no parsing.

    A client sends the same head again and again; only the path or the length changes. Each distinct head is parsed
    once, by the same parser as every other request, and checked. The fast path serves a request only if exactly these
    bytes were found plain, so the two paths can never read the same bytes differently.

    The key is what follows the path. The value is the length of the body, or `NOT_PLAIN` if the full lane must read it.
    """

    def __init__(self, method: bytes, hosts: HostList, max_body_bytes: int) -> None:
        super().__init__()
        # Any path will do: the key begins behind it.
        self._start = method + b" /"
        self._hosts = hosts
        self._max_body_bytes = min(max_body_bytes, MAX_PLAIN_BODY_BYTES)

    def __missing__(self, rest: bytes) -> int:
        # It must follow the path directly; otherwise the path is another one.
        if len(rest) > MAX_PLAIN_HEAD_BYTES or not rest.startswith(REQUEST_LINE_END):
            return NOT_PLAIN
        # A client that sends ever new heads must not fill the memory; common heads are soon learned again.
        if len(self) >= MAX_HEADS:
            self.clear()
        verdict = self[rest] = self._judge(rest)
        return verdict

    def _judge(self, rest: bytes) -> int:
        head = _Head()
        try:
            head.parser.feed_data(self._start + rest)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            return NOT_PLAIN
        if not head.stays_open or head.has_doubles or not head.headers.keys().isdisjoint(UNUSUAL):
            return NOT_PLAIN
        host = head.headers.get(b"host")
        if host is None or not self._hosts.allows(host):
            return NOT_PLAIN
        length = head.body_length(has_body=self._start.startswith(b"POST"))
        return length if length <= self._max_body_bytes else NOT_PLAIN


class _Head:
    """What the parser finds."""

    def __init__(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        self.headers: dict[bytes, bytes] = {}
        self.has_doubles = False
        self.stays_open = False
        """Whether the head is complete and the connection is kept after it."""

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        self.has_doubles |= name in self.headers
        self.headers[name] = value

    def on_headers_complete(self) -> None:
        # Only now: the parser forgets it at the end of the message.
        self.stays_open = self.parser.should_keep_alive()

    def body_length(self, has_body: bool) -> int:
        declared = self.headers.get(b"content-length")
        if not has_body:
            return 0 if declared is None else NOT_PLAIN
        # The parser has made sure that the length is digits.
        if declared is None or len(declared) > 5:
            return NOT_PLAIN
        return int(declared) if is_json(self.headers.get(b"content-type", b"").decode("latin-1")) else NOT_PLAIN


class FastPath:
    """One per worker. `refresh` is called about once a second."""

    def __init__(
        self, view: ChainView, intake: Submitter, calls: Dispatcher, hosts: HostList, origins: OriginList,
        limiter: RateLimiter, settings: Settings, app: ASGIApp,
    ) -> None:  # fmt: skip
        self._view = view
        self._intake = intake
        self._calls = calls
        self.posts = PlainHeads(b"POST", hosts, settings.max_body_bytes)
        self.gets = PlainHeads(b"GET", hosts, settings.max_body_bytes)
        # The full lane answers whoever names an origin.
        self._rest_headers = origins.headers_for(None, "", for_wallets=False)
        self._rpc_headers = origins.headers_for(None, "", for_wallets=True)
        self.limiter = limiter
        self.header_timeout_s = settings.header_timeout_s
        self.idle_timeout_s = settings.idle_timeout_s
        self.first_byte_timeout_s = settings.first_byte_timeout_s
        shortest_s = min(self.header_timeout_s, self.idle_timeout_s, self.first_byte_timeout_s)
        self.sweep_interval_s = min(MAX_SWEEP_INTERVAL_S, shortest_s / 2)
        self.max_message_bytes = settings.ws_max_message_bytes
        self.occupancy = Occupancy(settings)
        self.app = app
        self.server_state = ServerState()
        """What uvicorn's protocols share: the connections, the tasks that answer, and what every answer carries."""
        self.connections = cast("set[Held]", self.server_state.connections)
        self.tasks = self.server_state.tasks
        self.common_headers: list[Header] = []
        self.now = 0.0
        """As of the last refresh: exact enough for time-outs, and free to read."""
        self._refreshed_at = 0.0
        self.refresh(0.0)

    def refresh(self, time: float) -> None:
        # While this worker is paused, its clients' time-outs are, too: it has not read what they sent meanwhile.
        self.now += min(time - self._refreshed_at, 2 * self.sweep_interval_s)
        self._refreshed_at = time
        self.common_headers = [(b"date", formatdate(usegmt=True).encode())]
        if self._view.chain_id is not None:
            self.common_headers.append((b"x-chain-id", str(self._view.chain_id).encode()))
        self.server_state.default_headers = self.common_headers
        json, fresh = (b"content-type", b"application/json"), (b"cache-control", b"no-store")
        self._ok = self._head(200, [json, *self._rest_headers, fresh])
        self._called = self._head(200, [json, *self._rpc_headers, fresh])
        self._notified = self._lines(204, [*self._rpc_headers, fresh]) + b"\r\n"
        self._pending = self._submitted(_PENDING)
        self._confirmed = self._submitted(_CONFIRMED)

    def _lines(self, status: int, headers: list[Header]) -> bytes:
        return _STATUS_LINES[status] + b"".join(b"%b: %b\r\n" % each for each in (*self.common_headers, *headers))

    def _head(self, status: int, headers: list[Header]) -> bytes:
        """A response up to the value of its content-length."""
        return self._lines(status, headers) + b"content-length: "

    def _submitted(self, start: bytes) -> bytes:
        length = len(start) + _HASH_DIGITS + len(_END)
        return self._ok + b"%d\r\n\r\n" % length + start

    def response(self, status: int, headers: list[Header], body: bytes) -> bytes:
        """The whole response."""
        return self._head(status, headers) + b"%d\r\n\r\n" % len(body) + body

    def problem(self, error: NodeError, *extra: Header) -> bytes:
        """The whole response."""
        status, headers, body = encode_problem(error)
        return self.response(status, [*headers, (b"cache-control", b"no-store"), *extra], body)

    # What the fast path serves.

    def submit(self, body: bytes) -> Answering | bytes | None:
        """The result to wait for, or the whole response; None when the full lane must fill something in."""
        try:
            return self._intake.admit_complete(body)
        except NodeError as refused:
            return self.problem(refused, *self._rest_headers)

    def call(self, body: bytes, caller: Caller) -> "asyncio.Task[bytes | None]":
        """Begin to answer a JSON-RPC message."""
        calling = asyncio.get_running_loop().create_task(self._calls.answer(body, caller))
        tasks = cast("set[asyncio.Task[bytes | None]]", self.tasks)
        tasks.add(calling)
        calling.add_done_callback(tasks.discard)
        return calling

    def answered(self, answering: Answering) -> bytes:
        """The whole response to a request whose result has come."""
        headers = self._rpc_headers if isinstance(answering, asyncio.Task) else self._rest_headers
        if answering.cancelled():
            return self.problem(ShuttingDown("the node is shutting down"), *headers)
        failure = answering.exception()
        if failure is not None:
            if isinstance(failure, NodeError):
                return self.problem(failure, *headers)
            log.error("a request failed", exc_info=failure)
            return self.problem(Internal(str(failure)), *headers)
        answer = answering.result()
        if isinstance(answer, Admission):
            start = self._confirmed if answer.confirmed else self._pending
            return start + answer.tx_hash.hex().encode() + _END
        if answer is None:
            return self._notified
        return self._called + b"%d\r\n\r\n" % len(answer) + answer

    def confirmed_tx(self, hash_digits: bytes) -> bytes | None:
        """The whole response for a transaction that is confirmed here; for any other the full lane asks further."""
        try:
            body = self._view.find_confirmed(TxHash(unhexlify(hash_digits)))
        except (HexError, NodeError):
            return None
        return None if body is None else self._ok + b"%d\r\n\r\n" % len(body) + body
