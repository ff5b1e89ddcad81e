"""The fast path: requests that are answered without the application.

A request for one of its routes is served here if its head is plain (see `plain_heads`). Each connection has an
`AnswerQueue`, which keeps its answers in the order of the requests; all connections of a worker share one `FastPath`,
with ready-made answers and the clock.
"""

import asyncio
from binascii import Error as HexError
from binascii import unhexlify
from collections import deque
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol, cast

import structlog
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from cairn.api.chain_view import ChainView
from cairn.api.problems import encode_problem
from cairn.api.rpc.caller import Caller
from cairn.api.rpc.dispatch import LARGE_BYTES, SUBMITTING, Dispatcher
from cairn.api.server.access import HostList, OriginList, RateLimiter, client_of
from cairn.api.server.client_shares import Shares
from cairn.api.server.connection_slots import Occupancy, Place
from cairn.api.server.plain_heads import MAX_PLAIN_HEAD_BYTES, NOT_PLAIN, PlainHeads
from cairn.api.server.request_framing import Header
from cairn.api.server.trusted_proxies import TrustedProxies
from cairn.api.submitter import Submitter
from cairn.config import Settings
from cairn.core.gateway import Admission
from cairn.domain.errors import Internal, NodeError, ShuttingDown
from cairn.domain.types import TxHash
from cairn.time_shares import LaneName, TimeShares

CLOSE: Header = (b"connection", b"close")

MAX_SWEEP_INTERVAL_S = 1.0
MAX_ANSWERS_DUE = 64
"""The most unanswered requests of a connection; more are read once some are answered."""

POST_TX = b"POST /tx "
POST_RPC = b"POST /rpc "
GET_TX = b"GET /tx/0x"
REST_OF_GET = len(GET_TX) + 64
HEAD_END = b"\r\n\r\n"

FULL_LANE = 0
INCOMPLETE = -1
NOT_YET = -2
"""Why a request is not served: it is for the full lane, not all of it is there, or its client must wait for a turn."""

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


class FastPath:
    """One per worker. `refresh` is called about once a second."""

    def __init__(
        self, view: ChainView, intake: Submitter, calls: Dispatcher, hosts: HostList, origins: OriginList,
        limiter: RateLimiter, settings: Settings, app: ASGIApp, shares: TimeShares,
    ) -> None:  # fmt: skip
        self._view = view
        self._intake = intake
        self._calls = calls
        self.proxies = TrustedProxies(settings)
        self.posts = PlainHeads(b"POST", hosts, self.proxies, settings.max_body_bytes)
        self.gets = PlainHeads(b"GET", hosts, self.proxies, settings.max_body_bytes)
        # The full lane answers whoever names an origin.
        self._rest_headers = origins.headers_for(None, "", for_wallets=False)
        self._rpc_headers = origins.headers_for(None, "", for_wallets=True)
        self.limiter = limiter
        self.shares = shares
        self.max_message_bytes = settings.ws_max_message_bytes
        self.occupancy = Occupancy(settings)
        self.unanswered_bytes = Shares(settings.max_unanswered_bytes)
        self.adjust(settings)
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

    def adjust(self, settings: Settings) -> None:
        """Apply the limits and time-outs of these settings from now on."""
        self.header_timeout_s = settings.header_timeout_s
        self.idle_timeout_s = settings.idle_timeout_s
        self.first_byte_timeout_s = settings.first_byte_timeout_s
        shortest_s = min(self.header_timeout_s, self.idle_timeout_s, self.first_byte_timeout_s)
        self.sweep_interval_s = min(MAX_SWEEP_INTERVAL_S, shortest_s / 2)
        self.limiter.adjust(settings)
        self.occupancy.adjust(settings)
        self.unanswered_bytes.resize(settings.max_unanswered_bytes)
        self.proxies.adjust(settings)
        self.posts.forget()
        self.gets.forget()

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
        answering = self._calls.answer(body, caller)
        if SUBMITTING.encode() in body:
            answering = self.shares.run(caller.client, answering, "submissions")
        else:
            answering = self.shares.run(caller.client, answering, "reads", caller.has_left)
        calling = asyncio.get_running_loop().create_task(answering)
        tasks = cast("set[asyncio.Task[bytes | None]]", self.tasks)
        tasks.add(calling)
        calling.add_done_callback(tasks.discard)
        return calling

    def answered(self, answering: Answering) -> tuple[bytes, ...]:
        """The whole response to a request whose result has come, in parts that need no copy of a long answer."""
        headers = self._rpc_headers if isinstance(answering, asyncio.Task) else self._rest_headers
        if answering.cancelled():
            return (self.problem(ShuttingDown("the node is shutting down"), *headers),)
        failure = answering.exception()
        if failure is not None:
            if not isinstance(failure, NodeError):
                log.error("a request failed", exc_info=failure)
                failure = Internal(str(failure))
            return (self.problem(failure, *headers),)
        answer = answering.result()
        if isinstance(answer, Admission):
            start = self._confirmed if answer.confirmed else self._pending
            return (start + answer.tx_hash.hex().encode() + _END,)
        if answer is None:
            return (self._notified,)
        head = self._called + b"%d\r\n\r\n" % len(answer)
        return (head, answer) if len(answer) > LARGE_BYTES else (head + answer,)

    def confirmed_tx(self, hash_digits: bytes) -> bytes | None:
        """The whole response for a transaction that is confirmed here; for any other the full lane asks further."""
        try:
            body = self._view.find_confirmed(TxHash(unhexlify(hash_digits)))
        except (HexError, NodeError):
            return None
        return None if body is None else self._ok + b"%d\r\n\r\n" % len(body) + body


class AnswerQueue:
    """The requests of one connection on the fast path, and the order of their answers.

    Those in front that are ready are written together. `on_written` is called whenever answers that were waited for
    have been written.
    """

    def __init__(
        self, lane: FastPath, peer: str, place: Place, transport: asyncio.Transport, on_written: Callable[[], None]
    ) -> None:
        self._lane = lane
        self._limiter = lane.limiter
        self._shares = lane.shares
        self._peer = peer
        self._place = place
        self._is_proxy = lane.proxies.trusts(peer)
        self._ask_as(peer)
        self._transport = transport
        self._on_written = on_written
        self.is_calling = False
        """A JSON-RPC call is being answered; the next request waits for it, since its answer may be long."""
        self.due: deque[Answering | bytes] = deque()

    def take(self, data: bytes) -> tuple[int, int]:
        """Serve what can be answered here, from the start of `data`.

        Returns how many bytes that was, and why it stopped: `FULL_LANE`, `INCOMPLETE` or `NOT_YET` for a request that
        was not served.
        """
        at = taken = 0
        size, due = len(data), self.due
        while at < size and len(due) < MAX_ANSWERS_DUE and not self.is_calling:
            taken = self._take_one(data, at)
            if taken <= 0:
                break
            at += taken
        if due and isinstance(due[0], bytes):
            self._flush(None)
        return at, taken

    def _take_one(self, data: bytes, at: int) -> int:
        """How many bytes the request at `at` took; or `FULL_LANE`, `INCOMPLETE` or `NOT_YET`."""
        answer: Answering | bytes | None
        is_call = data.startswith(POST_RPC, at)
        if is_call or data.startswith(POST_TX, at):
            end = data.find(HEAD_END, at) + len(HEAD_END)
            if end < len(HEAD_END):
                return self._cut_off(data, at)
            head = data[at + len(POST_RPC if is_call else POST_TX) - 1 : end]
            length = self._lane.posts[head]
            if length == NOT_PLAIN or (is_call and self.due):
                return FULL_LANE
            if len(data) < end + length:
                return INCOMPLETE
            body, end = data[end : end + length], end + length
            if not self._may_ask(self._lane.posts, head):
                return FULL_LANE
            if is_call:
                answer = self._call(body)
            else:
                began = self._shares.begin(self.client, "submissions")
                if began is None:
                    return NOT_YET
                answer = self._lane.submit(body)
                self._shares.end(self.client, "submissions", began)
        elif data.startswith(GET_TX, at):
            end = data.find(HEAD_END, at) + len(HEAD_END)
            if end < len(HEAD_END):
                return self._cut_off(data, at)
            head = data[at + REST_OF_GET : end]
            if self._lane.gets[head] == NOT_PLAIN or not self._may_ask(self._lane.gets, head):
                return FULL_LANE
            began = self._shares.begin(self.client, "reads")
            if began is None:
                return NOT_YET
            answer = self._lane.confirmed_tx(data[at + len(GET_TX) : at + REST_OF_GET])
            self._shares.end(self.client, "reads", began)
        else:
            return FULL_LANE
        if answer is None:
            return FULL_LANE
        if self._counted is not None:
            self._limiter.take(self._counted)
        self.due.append(answer)
        if not isinstance(answer, bytes):
            answer.add_done_callback(self._flush)
        return end - at

    def call_in_turn(self, job: Callable[[], None], request: bytes) -> None:
        """Run the job when this client has its turn for the request, which could not be served yet."""
        lane: LaneName = "reads" if request.startswith(GET_TX) else "submissions"
        self._shares.call(self.client, job, lane)

    @staticmethod
    def _cut_off(data: bytes, at: int) -> int:
        """The head is not complete; one that is already too long cannot be a plain one."""
        return INCOMPLETE if len(data) - at < MAX_PLAIN_HEAD_BYTES else FULL_LANE

    def _call(self, body: bytes) -> Answering:
        self.is_calling = True
        caller = Caller(self._address, self._limiter, self._transport.is_closing, already_counted=1)
        return self._lane.call(body, caller)

    def _may_ask(self, heads: PlainHeads, head: bytes) -> bool:
        """Whether the client of a request may ask now; if not, the full lane refuses, and counts the request."""
        if self._is_proxy:
            self._ask_as(heads.clients.get(head, self._peer))
            if not self._lane.occupancy.move(self._place, self._address):
                return False
        return self._counted is None or self._limiter.has_left(self._counted)

    def _ask_as(self, client: str) -> None:
        self._address = client
        self.client = client_of(client)
        """Whose time is used."""
        self._counted = client if client and self._limiter.limits(client) else None
        """Whose requests are counted, if they are."""

    def _flush(self, answering: Answering | None) -> None:
        """Write the answers that are ready, in order. `answering` is one that has come now, if it was waited for."""
        due, ready = self.due, list[bytes]()
        while due:
            first = due[0]
            if isinstance(first, bytes):
                ready.append(first)
            elif first.done():
                ready += self._lane.answered(first)
                self.is_calling = False
            else:
                break
            due.popleft()
        if not ready or self._transport.is_closing():
            return
        if len(ready) == 1:
            self._transport.write(ready[0])
        elif max(map(len, ready)) > LARGE_BYTES:
            for part in ready:
                # uvloop raises on a transport that an earlier part has found closed.
                if not self._transport.is_closing():
                    self._transport.write(part)
        else:
            self._transport.write(b"".join(ready))
        if answering is not None:
            self._on_written()
