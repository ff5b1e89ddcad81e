"""One connection: uvicorn's HTTP protocol behind our limits, our refusals and a fast path for the hot routes.

Requests for POST /tx, POST /rpc and GET /tx/{hash} take the fast path (`fast_path`) while nothing before them on the
connection waits in the full lane. Everything else goes through the parser (`request_parser`) and the ASGI application,
as usual with uvicorn. Answers leave in the order of their requests: a request for the full lane is held until the
answers of the fast path have left.
"""

import asyncio
from typing import Any, cast

import httptools
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from cairn.api.server.connection_slots import Place
from cairn.api.server.fast_path import CLOSE, FULL_LANE, INCOMPLETE, NOT_YET, AnswerQueue, FastPath
from cairn.api.server.listener import InPieces
from cairn.api.server.received_bytes import ReceivedBytes
from cairn.api.server.request_framing import RequestHead, asks_for_websocket
from cairn.api.server.request_parser import RequestParser, too_many_connections
from cairn.api.server.websocket_protocol import EventsProtocol
from cairn.domain.errors import MalformedRequest, NodeError, RequestTimeout, TooManyUnansweredBytes

FEED_BYTES = 16 * 1024
LINGER_S = 2.0
"""How long a refused client's bytes are still read, so that it gets the answer."""
HALF_CLOSED_S = 5.0
"""How long a client that has closed its side is answered, and one that must make room may read its last answer."""


class HoldingFlow(FlowControl):
    """Holds bytes that were read too early, until they are processed."""

    held = b""
    is_held = False

    def hold(self, data: bytes, reads_on: bool = False) -> None:
        """Reading is paused meanwhile, unless `reads_on`."""
        self.held = data
        self.is_held = True
        if not reads_on:
            self.pause_reading()

    def release(self) -> None:
        self.is_held = False
        self.resume_reading()

    def resume_reading(self) -> None:
        if not self.is_held:
            super().resume_reading()


class HttpProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, lane: FastPath, config: uvicorn.Config, place: Place | None = None) -> None:
        """`place` is that of a connection that has one already."""
        super().__init__(config=config, server_state=lane.server_state, app_state={})
        self._lane = lane
        self._request = RequestParser(self, lane)
        self._served: RequestResponseCycle | None = None
        """The request that the full lane answers now; uvicorn's `cycle` is the newest, which may wait for it."""
        self._place = place
        self._is_silent = True
        """Nothing has come on it yet."""
        self._is_closing = False
        """The connection ends after the unanswered requests."""
        self._has_ended = False
        """The client sends nothing more."""
        self._is_refused = False
        """What the client still sends is discarded."""
        self._heard_at = lane.now
        self._ends_at: float | None = None
        """When the connection is cut in any case."""

    # The connection.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if transport.get_extra_info("ssl_object") is not None:
            transport = cast(asyncio.Transport, InPieces(transport))
        super().connection_made(transport)
        self.flow = self._flow = HoldingFlow(transport)
        self._heard_at = self._lane.now
        peer = transport.get_extra_info("peername")
        address = peer[0] if isinstance(peer, tuple) else ""
        if self._place is None:
            self._place = self._lane.occupancy.admit(address, self, self._lane.now)
        self._place.guest = self
        self._received = ReceivedBytes(self._lane.unanswered_bytes, address)
        self._answers = AnswerQueue(self._lane, address, self._place, transport, self._answers_written)
        self._request.admitted(address, self._place, self._received)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._served is not None and not self._served.response_complete:
            self._served.disconnected = True
            self._served.message_event.set()
        if self._place is not None:
            self._place.give_up()
        self._answers.due.clear()
        self._flow.held = b""
        for request, _ in self.pipeline:
            # It never has its turn.
            self._request.let_go(request)
        self._received.hold(self._request.held_bytes)

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client has closed its side. It may still wait for answers, or be gone; both look the same."""
        is_owed = self._answers.due or self._flow.is_held or self._is_serving()
        if not self.transport.can_write_eof() or not is_owed:
            return False
        self._has_ended = True
        self._is_closing = True
        if self._ends_at is None:
            # It is told again whenever reading is resumed.
            self._ends_at = self._lane.now + HALF_CLOSED_S
        self.finish()
        return True

    def finish(self) -> None:
        """The server stops: what has been asked for is answered, then the connection ends."""
        if self._answers.due or self._flow.is_held:
            self._is_closing = True
        elif self._has_ended and self._request.in_body and self.pipeline:
            # The rest of its body never comes, and those before it wait for nothing more.
            self._end_with_those_before()
        elif self._is_serving() and not (self._has_ended and self._request.in_body):
            self.cycle.keep_alive = False
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        # A client that does not read its answers gets no further ones.
        self._flow.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._heard_at = self._lane.now
        self._continue()

    @property
    def is_idle(self) -> bool:
        is_receiving = self._request.since is not None or bool(self._flow.held)
        return not self._answers.due and not self._is_serving() and not is_receiving

    def leave(self) -> None:
        self.transport.close()
        # Its place is given to another connection, and it may never read the rest of its last answer.
        self._ends_at = self._lane.now + HALF_CLOSED_S

    def sweep(self) -> None:
        """Called about once a second: end connections that take too long."""
        now, lane = self._lane.now, self._lane
        if self._ends_at is None and self.transport.is_closing():
            # It ends once the client has read what was written, which may be never.
            self._ends_at = now + lane.idle_timeout_s
        if self._ends_at is not None:
            if now > self._ends_at:
                self.transport.abort()
        elif self._flow.write_paused:
            if now - self._heard_at > lane.idle_timeout_s:
                self.transport.abort()
        elif self._request.since is not None:
            if now - self._request.since > lane.header_timeout_s:
                self._time_out()
        elif self.is_idle:
            timeout_s = lane.first_byte_timeout_s if self._is_silent else lane.idle_timeout_s
            if now - self._heard_at > timeout_s:
                self.transport.close()

    def _is_serving(self) -> bool:
        """Whether the full lane is at work."""
        # uvicorn declares it as always there; it is not before the first request.
        return bool(self.cycle) and not self.cycle.response_complete

    # Refusals.

    def _time_out(self) -> None:
        if self._request.in_body and self.cycle.response_started:
            # It was refused before its body had arrived, and the rest never came.
            self.transport.close()
        else:
            self._refuse(RequestTimeout(f"the request did not arrive within {self._lane.header_timeout_s:g} s"))

    def _refuse(self, error: NodeError) -> None:
        """Answer in the application's place, and close: what follows on this connection cannot be understood."""
        if self._answers.due:
            # Those must be answered first; this one is refused.
            self._is_closing = self._is_refused = True
            self._request.since = None
            self._flow.held = b""
            return
        if self.pipeline:
            self._end_with_those_before()
            return
        if self._request.in_body:
            if self.cycle.response_started:
                # Answered before its body had arrived; the client would match a second answer with its next request.
                self._end_answered()
                return
            # The application is still waiting for the rest of the body.
            self.cycle.disconnected = True
            # It counts no more from now on.
            self.cycle.body = bytearray()
            self.cycle.waiting_for_100_continue = False
            self.cycle.message_event.set()
        elif self._is_serving():
            # Earlier requests are still being answered; only this one is refused.
            self.cycle.keep_alive = False
            self._flow.pause_reading()
            return
        if not self._is_refused and not self.transport.is_closing():
            self.transport.write(self._lane.problem(error, CLOSE))
            self._linger()

    def _end_with_those_before(self) -> None:
        """Several requests are unanswered; the connection ends after the last."""
        if self._request.in_body:
            # It waits for its turn, and must not be served.
            self._request.let_go(self.pipeline.popleft()[0])
            self._request.in_body = False
        last = self.pipeline[0][0] if self.pipeline else self._served
        assert last is not None
        last.keep_alive = False
        self.cycle = last
        self._is_refused = True
        self._request.since = None

    def _end_answered(self) -> None:
        """End with the answer that has begun, if only that."""
        if self.cycle.response_complete:
            self._linger()
        else:
            self._is_refused = True
            self.cycle.keep_alive = False

    def _linger(self) -> None:
        """Close our side, and discard what the client still sends: unread bytes would reset the connection."""
        self._is_refused = True
        self._ends_at = self._lane.now + LINGER_S
        self._flow.held = b""
        self._received.hold(self._request.held_bytes)
        self._flow.release()
        if self.transport.can_write_eof():
            self.transport.write_eof()

    # Reading.

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._lane.now
        self._is_silent = False
        if self._is_refused:
            return
        flow, request = self._flow, self._request
        if flow.held:
            data = flow.held + data
            flow.held = b""
        if not (request.in_head or request.in_body or self._is_serving() or request.serves_probes_only):
            data = self._take_fast(data)
        if data:
            self._feed(data)

    def _take_fast(self, data: bytes) -> bytes:
        """Serve what the fast path can; returns what is for the full lane now, and holds what must wait."""
        at, taken = self._answers.take(data)
        if at:
            self._request.since = None
            self._request.unsaid_bytes = 0
        if at == len(data):
            return b""
        rest = data[at:]
        if taken == FULL_LANE and not self._answers.due:
            return rest
        if taken == INCOMPLETE:
            # Reading goes on: the rest of it must come.
            self._flow.held = rest
            self._request.since = self._request.since or self._lane.now
            return b""
        self._request.since = None
        # A call may take a minute: a client that leaves meanwhile must be noticed.
        self._hold(rest, reads_on=self._answers.is_calling and len(rest) <= FEED_BYTES)
        if self._is_refused:
            return b""
        if taken == NOT_YET:
            self._answers.call_in_turn(self._continue, rest)
        elif not self._answers.due:
            # Serve other connections, and write the answers, before the next ones are made.
            asyncio.get_running_loop().call_soon(self._continue)
        return b""

    def _hold(self, data: bytes, reads_on: bool = False) -> None:
        """Keep what must wait for the answers before it, if that is not too much."""
        self._flow.hold(data, reads_on)
        try:
            self._received.hold(self._request.held_bytes + len(data))
        except TooManyUnansweredBytes as refused:
            self._flow.held = b""
            self._refuse(refused)
            if self._is_refused:
                # What still comes is discarded: unread bytes would reset the connection.
                self._flow.release()

    def _answers_written(self) -> None:
        """Continue with what waited for the answers of the fast path."""
        self._heard_at = self._lane.now
        if self._answers.due:
            return
        if self._is_refused:
            self._linger()
        elif self._is_closing and not self._flow.is_held:
            self.transport.close()
        elif self._flow.is_held or self._flow.read_paused:
            self._continue()

    def _continue(self) -> None:
        """Continue with held bytes once nothing is before them, unless the client does not read its answers."""
        flow = self._flow
        if self._answers.due or self.pipeline or flow.write_paused or self.transport.is_closing():
            return
        if flow.is_held:
            flow.release()
            self.data_received(b"")
            if self._is_closing:
                self.finish()
        elif flow.read_paused:
            flow.resume_reading()

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
                self._request.feed(piece)
            except NodeError as refused:
                self._refuse(refused)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data, at = self._upgrade(data[at + upgrade.args[0] :]), 0
            else:
                at += len(piece)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if not self.pipeline:
            self._served = self.cycle

    def on_response_complete(self) -> None:
        """As in uvicorn, but without a timer for each request: the periodic sweep closes idle connections."""
        self._heard_at = self._lane.now
        if self.transport.is_closing():
            return
        if self.pipeline:
            self._served, app = self.pipeline.pop()
            self._start_asgi_task(self._served, app)
        if self._flow.read_paused:
            self._continue()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        async def run(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                await app(scope, receive, send)
            finally:
                # Not before: the application may hold a body, also one that was refused, until it has its turn.
                self._request.let_go(cycle)
                self._received.hold(self._request.held_bytes + len(self._flow.held))

        super()._start_asgi_task(cycle, run)  # type: ignore[arg-type]

    def _upgrade(self, rest: bytes) -> bytes:
        """The parser has stopped behind a head that asks for another protocol. Returns what is to be parsed next."""
        method, version = self.parser.get_method().decode(), self.parser.get_http_version()
        head = RequestHead(method, self.url, version, self.headers)
        self._request.renew()
        if method == "CONNECT":
            self._refuse(MalformedRequest("this node connects to nobody else"))
            return b""
        if not asks_for_websocket(version, self.headers):
            # Parse it again without the upgrade: after an upgrade the parser would read the body as a request.
            kept = [header for header in self.headers if header[0] != b"upgrade"]
            return head._replace(headers=kept).encode() + rest
        if self._request.serves_probes_only:
            self._refuse(too_many_connections())
        elif self._is_serving() or self._flow.write_paused:
            # Earlier answers must be written first, and the client has to read them.
            self._hold(head.encode() + rest)
        else:
            self._become_websocket(head, rest)
        return b""

    def _become_websocket(self, head: RequestHead, rest: bytes) -> None:
        self._lane.connections.discard(self)
        client = self.scope["client"]
        received = ReceivedBytes(self._lane.unanswered_bytes, client[0] if client else "")
        protocol = EventsProtocol(self._lane, self._place, received)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        protocol.begin(head, client)
        if rest:
            protocol.data_received(rest)
