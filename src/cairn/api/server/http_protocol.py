"""uvicorn's HTTP protocol with a fast lane for POST /tx and GET /tx/{hash}, and with our limits and refusals.

A request takes the fast lane when its head is plain (see `heads`) and nothing before it on the connection is still
unanswered in the full lane. Everything else goes through the parser and the ASGI application as usual. Answers leave
in the order of their requests: the fast lane queues them, and a request for the full lane is held until that queue is
empty.
"""

import asyncio
from collections import deque
from typing import Any

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from cairn.api.errors import HeadersTooLarge, MalformedRequest, RequestTimeout, TooManyConnections
from cairn.api.rest.probes import PROBE_PATHS
from cairn.api.server.connection_slots import Place
from cairn.api.server.fast_path import MAX_PLAIN_HEAD_BYTES, NOT_PLAIN, FastPath
from cairn.api.server.request_framing import asks_for_websocket, check_framing, check_target, encode_head
from cairn.api.server.websocket_protocol import EventsProtocol
from cairn.core.gateway import Admission
from cairn.domain.errors import NodeError

MAX_HEAD_BYTES = 64 * 1024
"""Of the request line's target and all headers, with what trails a body in chunks."""
LINE_OVERHEAD = len(": \r\n")
FEED_BYTES = 16 * 1024
LINGER_S = 2.0
"""How long a refused client is listened to, so that it can read why."""
HALF_CLOSED_S = 5.0
"""How long a client that sends nothing more is answered."""
MAX_ANSWERS_DUE = 64
"""Requests that one client may have in flight in the fast lane; more are read once some are answered."""

POST_TX = b"POST /tx "
GET_TX = b"GET /tx/0x"
REST_OF_POST = len(POST_TX) - 1
REST_OF_GET = len(GET_TX) + 64
HEAD_END = b"\r\n\r\n"

FULL_LANE = 0
INCOMPLETE = -1

CLOSE = (b"connection", b"close")


class HoldingFlow(FlowControl):
    """Reading stays paused while something is held, whoever would resume it."""

    is_held = False

    def hold(self) -> None:
        self.is_held = True
        self.pause_reading()

    def release(self) -> None:
        self.is_held = False
        self.resume_reading()

    def resume_reading(self) -> None:
        if not self.is_held:
            super().resume_reading()


class HttpProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, lane: FastPath, **uvicorn_arguments: Any) -> None:
        super().__init__(**uvicorn_arguments)
        self._lane = lane
        self._answers: deque[asyncio.Future[Admission] | bytes] = deque()
        """Of the fast lane, in the order of their requests; those in front that are ready leave together."""
        self._held = b""
        """Read but not yet parsed: an incomplete request, or one that must wait for the answers due."""
        self._served: RequestResponseCycle | None = None
        """What the full lane answers now; uvicorn's `cycle` is the newest, which may wait behind it."""
        self._is_counted = False
        self._place: Place | None = None
        self._serves_probes_only = False
        self._is_silent = True
        """Nothing has come on it yet."""
        self._is_closing = False
        """It ends with the answers that are due."""
        self._is_refused = False
        """What the client still sends is discarded."""
        self._in_head = self._in_body = False
        self._head_bytes = 0
        """Of the lines of the head, and of the trailers, that are complete."""
        self._unsaid_bytes = 0
        """Of pieces of which the parser has told nothing yet: a line that has not ended."""
        self._objection: NodeError | None = None
        """Why a callback stopped the parser."""
        self._heard_at = lane.now
        self._receiving_since: float | None = None
        self._ends_at: float | None = None
        """When the connection is cut, whatever goes on."""

    # The connection.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = self._flow = HoldingFlow(transport)
        self._heard_at = self._lane.now
        client = self.client[0] if self.client is not None else ""
        self._is_counted = self.client is not None and self._lane.limiter.limits(client)
        self._place = self._lane.occupancy.take(client, self, self._lane.now)
        if self._place is None:
            self._serves_probes_only = True
            self._place = self._lane.occupancy.room(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._served is not None and not self._served.response_complete:
            self._served.disconnected = True
            self._served.message_event.set()
        if self._place is not None:
            self._place.give_up()
        self._answers.clear()
        self._held = b""

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client sends nothing more. It may still wait for answers, or be gone: that looks the same from here."""
        if not self.transport.can_write_eof() or self._in_body or not (self._answers or self._is_serving()):
            return False
        self._is_closing = True
        self._ends_at = self._lane.now + HALF_CLOSED_S
        if self._is_serving():
            self.cycle.keep_alive = False
        return True

    def shutdown(self) -> None:
        """The server stops: what is being answered is finished, then the connection ends."""
        if self._answers:
            self._is_closing = True
        else:
            super().shutdown()

    def pause_writing(self) -> None:
        super().pause_writing()
        # A client that does not read its answers gets no further ones.
        self.flow.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._heard_at = self._lane.now
        self._continue()

    @property
    def is_idle(self) -> bool:
        return not self._answers and not self._is_serving() and self._receiving_since is None and not self._held

    def leave(self) -> None:
        self.transport.close()

    def sweep(self) -> None:
        """Called about once a second: end what takes too long."""
        now, lane = self._lane.now, self._lane
        if self.transport.is_closing():
            return
        if self._ends_at is not None:
            if now > self._ends_at:
                self.transport.abort()
        elif self.flow.write_paused:
            if now - self._heard_at > lane.idle_timeout_s:
                self.transport.abort()
        elif self._receiving_since is not None:
            if now - self._receiving_since > lane.header_timeout_s:
                self._time_out()
        elif self.is_idle:
            timeout_s = lane.first_byte_timeout_s if self._is_silent else lane.idle_timeout_s
            if now - self._heard_at > timeout_s:
                self.transport.close()

    def _time_out(self) -> None:
        if self._in_body and self.cycle.response_started:
            # It was refused before its body had come, and the rest never did.
            self.transport.close()
        else:
            self._refuse(RequestTimeout(f"the request did not arrive within {self._lane.header_timeout_s:g} s"))

    def _is_serving(self) -> bool:
        """Whether the full lane is at work."""
        # uvicorn declares it as always there; it is not before the first request.
        return bool(self.cycle) and not self.cycle.response_complete

    def _refuse(self, error: NodeError) -> None:
        """Answer in the application's place, and close: what follows on this connection cannot be understood."""
        if self._answers:
            # Those are owed, this one is not.
            self._is_closing = True
            self._receiving_since = None
            self._hold(b"")
            return
        if self.pipeline:
            self._end_with_those_before()
            return
        if self._in_body:
            if self.cycle.response_started:
                # It was answered before its body had come: a second answer would pass for that to the next request.
                self._end_answered()
                return
            # The application is still waiting for the rest of the body.
            self.cycle.disconnected = True
            self.cycle.waiting_for_100_continue = False
            self.cycle.message_event.set()
        elif self._is_serving():
            # Requests before this one are still being answered: those are owed, this one is not.
            self.cycle.keep_alive = False
            self.flow.pause_reading()
            return
        if not self._is_refused and not self.transport.is_closing():
            self.transport.write(self._lane.problem(error, CLOSE))
            self._linger()

    def _end_with_those_before(self) -> None:
        """Several are owed an answer, and the last of them ends the connection."""
        if self._in_body:
            # It waits for its turn, and shall not have it.
            self.pipeline.popleft()
            self._in_body = False
        last = self.pipeline[0][0] if self.pipeline else self._served
        assert last is not None
        last.keep_alive = False
        self.cycle = last
        self._is_refused = True
        self._receiving_since = None

    def _end_answered(self) -> None:
        """End with the answer that has begun, if only that."""
        if self.cycle.response_complete:
            self._linger()
        else:
            self._is_refused = True
            self.cycle.keep_alive = False

    def _linger(self) -> None:
        """End our side, and discard what the client still sends: unread, it would turn the answer into a reset."""
        self._is_refused = True
        self._ends_at = self._lane.now + LINGER_S
        self._held = b""
        self._flow.release()
        if self.transport.can_write_eof():
            self.transport.write_eof()

    # Reading.

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._lane.now
        self._is_silent = False
        if self._is_refused:
            return
        if self._held:
            data = self._held + data
            self._held = b""
        if not (self._in_head or self._in_body or self._is_serving() or self._serves_probes_only):
            data = self._take_fast(data)
        if data:
            self._feed(data)

    def _take_fast(self, data: bytes) -> bytes:
        """Serve what the fast lane can; returns what is for the full lane now, and holds what must wait."""
        at = taken = 0
        while at < len(data) and len(self._answers) < MAX_ANSWERS_DUE:
            taken = self._take_one(data, at)
            if taken <= 0:
                break
            at += taken
            self._receiving_since = None
        rest = data[at:]
        if self._answers:
            self._flush()
        if not rest:
            return b""
        if taken == FULL_LANE and not self._answers:
            return rest
        if taken == INCOMPLETE:
            self._held = rest
            self._receiving_since = self._receiving_since or self._lane.now
            return b""
        self._hold(rest)
        if not self._answers:
            # Others get their turn, and the answers leave, before the next ones are made.
            self.loop.call_soon(self._continue)
        return b""

    def _take_one(self, data: bytes, at: int) -> int:
        """How many bytes the request at `at` took; or `FULL_LANE`, or `INCOMPLETE`."""
        if data.startswith(POST_TX, at):
            end = data.find(HEAD_END, at) + len(HEAD_END)
            if end < len(HEAD_END):
                return self._cut_off(data, at)
            length = self._lane.heads.post_length(data[at + REST_OF_POST : end])
            if length == NOT_PLAIN:
                return FULL_LANE
            if len(data) < end + length:
                return INCOMPLETE
            answer = self._lane.submit(data[end : end + length]) if not self._is_counted or self._may_ask() else None
            end += length
        elif data.startswith(GET_TX, at):
            end = data.find(HEAD_END, at) + len(HEAD_END)
            if end < len(HEAD_END):
                return self._cut_off(data, at)
            if not self._lane.heads.is_plain_get(data[at + REST_OF_GET : end]):
                return FULL_LANE
            digits = data[at + len(GET_TX) : at + REST_OF_GET]
            answer = self._lane.confirmed_tx(digits) if not self._is_counted or self._may_ask() else None
        else:
            return FULL_LANE
        if answer is None:
            return FULL_LANE
        if self._is_counted and self.client is not None:
            self._lane.limiter.take(self.client[0])
        self._answers.append(answer)
        if not isinstance(answer, bytes):
            answer.add_done_callback(self._flush)
        return end - at

    @staticmethod
    def _cut_off(data: bytes, at: int) -> int:
        """The head is not all there; one that is long already cannot become a plain one."""
        return INCOMPLETE if len(data) - at < MAX_PLAIN_HEAD_BYTES else FULL_LANE

    def _may_ask(self) -> bool:
        # One who asked too often is refused by the full lane, which also counts every request that it gets.
        return self.client is None or self._lane.limiter.has_left(self.client[0])

    def _flush(self, _: object = None) -> None:
        """Write the answers that are ready, in order; then go on with what had to wait for them."""
        answers, ready = self._answers, []
        while answers:
            first = answers[0]
            if isinstance(first, bytes):
                ready.append(first)
            elif first.done():
                ready.append(self._lane.admitted(first))
            else:
                break
            answers.popleft()
        if not ready or self.transport.is_closing():
            return
        self._heard_at = self._lane.now
        self.server_state.total_requests += len(ready)
        self.transport.write(ready[0] if len(ready) == 1 else b"".join(ready))
        if answers:
            return
        if self._is_closing:
            self.transport.close()
        elif self.flow.read_paused:
            self._continue()

    def _continue(self) -> None:
        """Go on with what was held, once nothing stands before it; a client that does not read gets no more."""
        if self._answers or self.pipeline or self.flow.write_paused or self.transport.is_closing():
            return
        if self._flow.is_held:
            self._flow.release()
            self.data_received(b"")
        else:
            self.flow.resume_reading()

    def _hold(self, data: bytes) -> None:
        """Keep what came too early, and read nothing more until it is its turn."""
        self._held = data
        self._flow.hold()

    # The full lane.

    def _feed(self, data: bytes) -> None:
        """In pieces, so that a client cannot queue up thousands of requests at once."""
        at = 0
        while at < len(data):
            if self.pipeline:
                self._hold(data[at:])
                return
            piece = data[at : at + FEED_BYTES]
            try:
                if not self._feed_piece(piece):
                    return
            except httptools.HttpParserUpgrade as upgrade:
                data, at = self._upgrade(data[at + upgrade.args[0] :]), 0
            else:
                at += len(piece)

    def _feed_piece(self, data: bytes) -> bool:
        """Returns whether the connection goes on. Raises `HttpParserUpgrade` with where the head ends."""
        self._unsaid_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self._refuse(self._objection or MalformedRequest("the request is not HTTP/1.1 as it should be"))
            return False
        if (self._in_head or self._in_body) and self._head_bytes + self._unsaid_bytes > MAX_HEAD_BYTES:
            self._refuse(_head_too_large())
            return False
        return True

    def _upgrade(self, rest: bytes) -> bytes:
        """The parser has stopped behind a head that asks for another protocol. Returns what is to be parsed next."""
        method, version = self.scope["method"], self.scope["http_version"]
        self._renew_parser()
        if method == "CONNECT":
            self._refuse(MalformedRequest("this node connects to nobody else"))
            return b""
        if not asks_for_websocket(version, self.headers):
            # Once more without it: the parser reads no body behind an upgrade, and would take it for a request.
            kept = [header for header in self.headers if header[0] != b"upgrade"]
            return encode_head(method, self.url, version, kept) + rest
        head = encode_head(method, self.url, version, self.headers)
        if self._is_serving():
            # The answers before come first.
            self._hold(head + rest)
        else:
            self._become_websocket(head, rest)
        return b""

    def _renew_parser(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        # As uvicorn sets it: what follows a request that ends the connection is not parsed.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def _become_websocket(self, head: bytes, rest: bytes) -> None:
        self.connections.discard(self)
        protocol = EventsProtocol(config=self.config, server_state=self.server_state, app_state=self.app_state)
        protocol.keep(self._place)
        protocol.connection_made(self.transport)
        protocol.data_received(head)
        self.transport.set_protocol(protocol)
        if rest:
            protocol.data_received(rest)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._served = cycle
        super()._start_asgi_task(cycle, app)

    def _should_upgrade(self) -> bool:
        """Asked by uvicorn's callbacks where the parser sees an upgrade: `_upgrade` decides about it."""
        return True

    def _object(self, error: NodeError) -> None:
        """Stop the parser, from one of its callbacks, and refuse the request."""
        self._objection = error
        raise error

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = self._unsaid_bytes = 0
        self._receiving_since = self._lane.now

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._head_bytes += len(url)
        self._unsaid_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value) + LINE_OVERHEAD
        self._unsaid_bytes = 0
        if self._in_head:
            super().on_header(name, value)
        elif self._head_bytes > MAX_HEAD_BYTES:
            self._object(_head_too_large())
        # What trails the body is for nobody here, and must not pass for a header.

    def on_headers_complete(self) -> None:
        if self._head_bytes > MAX_HEAD_BYTES:
            self._object(_head_too_large())
        try:
            check_target(self.url)
            check_framing(self.parser.get_http_version(), self.headers)
        except MalformedRequest as unclear:
            self._object(unclear)
        if self._serves_probes_only and self.url.partition(b"?")[0].decode("latin-1") not in PROBE_PATHS:
            self._object(TooManyConnections("this node serves as many connections, or as many of yours, as it may"))
        super().on_headers_complete()
        if self._serves_probes_only and not self.parser.should_upgrade():
            self.cycle.keep_alive = False
        self._in_head, self._in_body = False, True
        self._unsaid_bytes = 0

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._unsaid_bytes = 0

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_body = False
        self._unsaid_bytes = 0
        self._receiving_since = None

    def on_response_complete(self) -> None:
        """As uvicorn's, but without a timer for each request: the sweep sees to idle connections."""
        self.server_state.total_requests += 1
        self._heard_at = self._lane.now
        if self.transport.is_closing():
            return
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        if self.flow.read_paused:
            self._continue()


def _head_too_large() -> HeadersTooLarge:
    return HeadersTooLarge(f"the request's head has more than {MAX_HEAD_BYTES} bytes, with what trails its body")
