"""One HTTP connection, from the bytes that a client sends to the answers that it gets.

Bytes are read in pieces and parsed (`request_reader`). Each request waits in line until it may begin. A hot route
answers it at once or with a future, else the ASGI application does in a task. Requests for hot routes run beside each
other; the application's, and JSON-RPC calls, wait for all answers before them, and what follows waits for theirs.
Answers leave in the order of the requests.
"""

import asyncio
from collections import deque

from starlette.types import Scope

from cairn.api.bodies import answered
from cairn.api.server.access import PROBE_PATHS, prober_of
from cairn.api.server.client_budgets import ReceivedBytes
from cairn.api.server.connection_slots import ConnectionSlot
from cairn.api.server.exchange import AnswerFuture, Client, Exchange, HotRoute
from cairn.api.server.http_heads import CLOSE, asks_for_websocket
from cairn.api.server.intake import MAX_UNPARSED_BYTES, Intake
from cairn.api.server.request_reader import RequestReader, too_many_connections
from cairn.api.server.server_state import ServerState
from cairn.api.server.slow_requests import SLOW_S, with_header
from cairn.api.server.websocket_protocol import EventsProtocol
from cairn.domain.errors import MalformedRequest, NodeError, RequestTimeout, TooManyUnansweredBytes

PROBES = tuple(f"GET {path} ".encode() for path in PROBE_PATHS)
MAX_DUE = 64
"""The most requests of a connection that are served beside each other."""
MAX_BUFFERED_BODY_BYTES = 64 * 1024
"""Of a body that the application does not read: with more, the client is not read from."""
JOINED_BYTES = 256 * 1024
"""What is longer is written for itself, since to join it with others would copy it."""
READY_BYTES = 128 * 1024
"""Of ready answers of a connection, before they are written and the client is seen not to read them."""
LINGER_S = 2.0
"""How long a refused client's bytes are still read, so that it gets the answer."""
HALF_CLOSED_S = 5.0
"""How long a client that has closed its side is answered, and one that must make room may read its last answer."""


class HttpProtocol(asyncio.Protocol):
    """What a connection does with bytes that come depends on these, from the first that holds:

    _is_over     our side is closed (`_linger`, or a WebSocket took over): discarded, until the client closes or is cut
    is_refused   a request could not be read: discarded; the answers before it are written, the refusal, then `_linger`
    _is_closing  the client or the server ends: what has come is answered, then the connection is closed
    none         parsed, unless too much waits (`read_paused`), or the client has to wait for its turn
    """

    def __init__(self, state: ServerState, slot: ConnectionSlot | None = None) -> None:
        """`slot` is that of a connection that has one already."""
        self._state = state
        self._slot = slot
        self.waiting: deque[Exchange] = deque()
        """Requests that have not begun, in their order; of the last one the body may still arrive."""
        self.due: deque[Exchange] = deque()
        """Those that have begun, in their order, until they are answered."""
        self._intake = Intake(state.shares, self._go_on)
        self._refusal: bytes | None = None
        """The last answer, behind all others: what came after them cannot be served."""
        self.is_refused = False
        """What the client still sends is discarded."""
        self._is_closing = False
        """The connection ends after the unanswered requests."""
        self._has_ended = False
        """The client sends nothing more."""
        self._is_over = False
        """Our side is closed, or another protocol serves the connection."""
        self._is_scheduled = False
        """It goes on in the next turn of the event loop."""
        self.read_paused = self.write_paused = False
        self._paused_at = 0.0
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_silent = True
        """Nothing has come on it yet."""
        self._heard_at = state.now
        self._ends_at: float | None = None
        """When the connection is cut in any case."""

    # The connection.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        is_tls = transport.get_extra_info("ssl_object") is not None
        self.transport = transport
        self._state.connections.add(self)
        self._heard_at = self._state.now
        peer, name = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        client: Client | None = (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) else None
        server = (str(name[0]), int(name[1])) if isinstance(name, tuple) else None
        self.scope: Scope = {"server": server, "scheme": "https" if is_tls else "http"}
        address = client[0] if client is not None else ""
        self._payer = self._state.payer_of(peer)
        if self._slot is None:
            self._slot = self._state.slots.admit(address, self, self._state.now)
        self._slot.owner = self
        self._received = ReceivedBytes(self._state.unanswered_bytes, address)
        self._reader = RequestReader(self, self._state, client, self._slot, self._received, self.waiting)

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.connections.discard(self)
        if self._slot is not None:
            self._slot.give_up()
        for request in (*self.due, *self.waiting):
            request.abandon()
            if request.route is not None or not request.has_begun:
                # The application never hears of it.
                self._reader.let_go(request)
        self.due.clear()
        self.waiting.clear()
        self._intake.close()
        self._received.hold(self._reader.held_bytes)
        self._reader.close()
        self._writable.set()

    @property
    def common_lines(self) -> bytes:
        return self._state.common_lines

    def eof_received(self) -> bool:
        """The client has closed its side. It may still wait for answers, or be gone; both look the same."""
        self._has_ended = self._is_closing = True
        if not self._intake.size_bytes:
            self._drop_unfinished()
        if not (self.due or self.waiting or self._intake.size_bytes) or not self.transport.can_write_eof():
            return False
        if self._ends_at is None:
            # It is told again whenever reading is resumed.
            self._ends_at = self._state.now + HALF_CLOSED_S
        self.finish()
        return True

    def finish(self) -> None:
        """The server stops: what has been asked for is answered, then the connection ends."""
        self._is_closing = True
        if self._is_over:
            self._close()
        if self.due and not self.waiting and not self._intake.size_bytes:
            # So its answer says that it is the last.
            self.due[-1].keeps_alive = False
        self._update()

    def pause_writing(self) -> None:
        self.write_paused = True
        self._writable.clear()
        # A client that does not read its answers gets no further ones.
        self._update_reading()

    def resume_writing(self) -> None:
        self.write_paused = False
        self._writable.set()
        self._heard_at = self._state.now
        self._update()

    async def drain(self) -> None:
        await self._writable.wait()

    @property
    def is_idle(self) -> bool:
        return not (self.due or self.waiting or self._intake.size_bytes) and self._reader.since is None

    def leave(self) -> None:
        self._close()
        # Its slot is given to another connection, and it may never read the rest of its last answer.
        self._ends_at = self._state.now + HALF_CLOSED_S

    def sweep(self) -> None:
        """Called about once a second: end connections that take too long."""
        now, state, since = self._state.now, self._state, self._reader.since
        if self._ends_at is None and self.transport.is_closing():
            # It ends once the client has read what was written, which may be never.
            self._ends_at = now + state.idle_timeout_s
        if self._ends_at is not None:
            if now > self._ends_at:
                self.transport.abort()
        elif self.write_paused:
            if now - self._heard_at > state.idle_timeout_s:
                self.transport.abort()
        elif since is not None:
            if now - since > state.header_timeout_s and not self.read_paused:
                self._refuse(RequestTimeout(f"the request did not arrive within {state.header_timeout_s:g} s"))
                self._update()
        elif self.is_idle:
            timeout_s = state.first_byte_timeout_s if self._is_silent else state.idle_timeout_s
            if now - self._heard_at > timeout_s:
                self._close()

    # Bytes in.

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._state.now
        self._is_silent = False
        if self.is_refused:
            return
        self._intake.put(data)
        if self._intake.waits or self._is_scheduled:
            self._update()
        else:
            self._go_on()

    def _go_on(self) -> None:
        """Parse what comes next, let begin what may begin, and write what is ready."""
        intake = self._intake
        if self.transport.is_closing() or intake.waits:
            return
        if not self._may_parse():
            if self.waiting:
                self._begin_waiting()
        elif intake.begin(self._account()):
            try:
                self._parse()
                if self.waiting:
                    self._begin_waiting()
            finally:
                intake.end()
        if (
            self.waiting
            or intake.size_bytes
            or self._reader.in_body
            or self.read_paused
            or self.is_refused
            or self._is_closing
        ):
            self._update()

    def _may_parse(self) -> bool:
        """Not while a request waits: what follows it would only fill the memory."""
        if not self._intake.size_bytes or self.write_paused or self.is_refused:
            return False
        if not self.waiting:
            return len(self.due) < MAX_DUE
        first = self.waiting[0]
        return first.route is not None and not first.is_whole

    def _account(self) -> str:
        """Who is charged for what is parsed next."""
        newest = self._unfinished()
        if newest is not None:
            return newest.payer
        if self._reader.since is None and self._intake.starts_with(PROBES):
            return prober_of(self._payer)
        return self._payer

    def _parse(self) -> None:
        """The next piece; and of a request that is not complete then, what else is there, in this turn."""
        while True:
            try:
                rest = self._reader.feed(self._intake.take())
            except Exception as failure:
                self._refuse(self._state.error_of(failure))
                return
            if rest is not None:
                self._upgrade(rest)
            # Others are served, and the answers written, before the next requests are parsed.
            if self._reader.since is None or not self._may_parse() or self._state.shares.is_slice_over:
                return

    def _upgrade(self, rest: bytes) -> None:
        """The newest head asks for another protocol, and `rest` follows it."""
        request = self._reader.newest
        assert request is not None
        if request.method == "CONNECT":
            self._refuse(MalformedRequest("this node is not a proxy"))
        elif not asks_for_websocket(request.version, request.headers):
            # Parse it again without the upgrade: after an upgrade the parser would read the body as a request.
            kept = [header for header in request.headers if header[0] != b"upgrade"]
            self._intake.put_back(request.head()._replace(headers=kept).encode() + rest)
        elif self._slot is not None and self._slot.is_for_probes:
            self._refuse(too_many_connections())
        else:
            self._intake.put_back(rest)
            self.waiting.append(request)
            return
        self._reader.let_go(request)

    # Requests, in their order.

    def _begin_waiting(self) -> None:
        if self.write_paused:
            return
        waiting = self.waiting
        ready: list[bytes] = []
        ready_bytes = 0
        while waiting:
            request = waiting[0]
            route = request.route
            if route is None or not request.is_whole or (self.due and not self._may_begin()):
                break
            answer = self._begin_hot(request, route)
            if answer is not None:
                ready.append(answer)
                ready_bytes += len(answer)
                if ready_bytes >= READY_BYTES or len(ready) == MAX_DUE:
                    break
            elif self._intake.waits:
                break
        if ready:
            self.write(*ready)
        # What was just written may have shown that the client does not read.
        if waiting and waiting[0].route is None and self._may_begin() and not self.write_paused:
            self._begin(waiting[0])

    def _may_begin(self) -> bool:
        """Whether the first that waits may begin beside those that are due."""
        request, due = self.waiting[0], self.due
        route = request.route
        if route is None:
            return not due
        if not request.is_whole:
            return False
        if not due:
            return True
        before = due[0].route
        return before is not None and not before.is_alone and not route.is_alone and len(due) < MAX_DUE

    def _begin(self, request: Exchange) -> None:
        """Let the application answer, or become a WebSocket."""
        self.waiting.popleft()
        if request.is_upgrade:
            self._become_websocket(request)
            return
        request.has_begun = True
        request.began = request.began or self._state.shares.clock()
        self.due.append(request)
        self._state.keep(asyncio.get_running_loop().create_task(request.run(self._state.app)))

    def _begin_hot(self, request: Exchange, route: HotRoute) -> bytes | None:
        """Returns the answer if it can be written now. Else it is due, or the request waits for its client's turn, or
        it is the application's.
        """
        state, queue, shares = self._state, route.queue, self._state.shares
        began = shares.begin(request.payer, queue) if queue is not None else shares.clock()
        if began is None:
            request.began, request.is_plain = request.began or shares.clock(), False
            self._intake.wait(request.payer, queue or "reads")
            return None
        is_counted = request.is_limited and route.is_limited
        if self.due:
            request.is_behind = True
        try:
            # The application refuses who has none left, and counts the request.
            may_ask = not is_counted or state.limiter.has_left(request.address)
            answer = route.begin(request) if may_ask else None
        except Exception as failure:
            answer = state.hot.failed(request, failure)
        took_s = shares.end(request.payer, queue, began) if queue is not None else shares.clock() - began
        if answer is None:
            request.route = None
            request.path, _, request.query = request.target.partition(b"?")
            return None
        if is_counted:
            state.limiter.take(request.address)
        if self._reader.held_bytes:
            self._reader.let_go(request)
        self.waiting.popleft()
        if isinstance(answer, bytes) and not self.due:
            if not request.is_plain:
                took_s = shares.clock() - (request.began or began)
            route.traffic.answered(request.status, took_s)
            return answer if took_s <= SLOW_S else with_header(answer, request.tell_slow(took_s))
        request.has_begun, request.body = True, b""
        request.began = request.began or began
        self.due.append(request)
        if isinstance(answer, bytes):
            request.parts = (answer,)
            return None
        if isinstance(answer, asyncio.Task):
            state.keep(answer)
        request.answering = answer
        answer.add_done_callback(self._answer_ready)
        return None

    def _become_websocket(self, request: Exchange) -> None:
        self._is_over = True
        self._reader.let_go(request)
        self._reader.close()
        self._received.hold(0)
        self._state.connections.discard(self)
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        received = ReceivedBytes(self._state.unanswered_bytes, request.address)
        protocol = EventsProtocol(self._state, self._slot, received)
        rest = self._intake.take_all()
        self._intake.close()
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        protocol.begin(request.head(), request.client)
        if rest:
            protocol.data_received(rest)

    # Answers out.

    def _answer_ready(self, answering: AnswerFuture) -> None:
        if self._flush():
            self._update()
        elif not answering.cancelled():
            # Seen, even if its client has gone.
            answering.exception()

    def _flush(self) -> bool:
        """Write the hot routes' answers that are ready, in order. Returns whether there were some."""
        due = self.due
        ready: list[bytes] = []
        now = self._state.shares.clock()
        while due:
            first = due[0]
            if first.answering is not None:
                if not first.answering.done():
                    break
                assert first.route is not None
                try:
                    parts = first.route.answer(first, first.answering)
                except Exception as failure:
                    parts = (self._state.hot.failed(first, failure),)
                took_s = now - first.began
                # It may know of the request, too, and both should be gone now.
                first.answering = None
                ready += parts if took_s <= SLOW_S else (with_header(parts[0], first.tell_slow(took_s)), *parts[1:])
                first.route.traffic.answered(first.status, took_s)
            elif first.parts:
                assert first.route is not None
                ready += first.parts
                first.route.traffic.answered(first.status, now - first.began)
            else:
                break
            due.popleft()
        if not ready:
            return False
        self.write(*ready)
        self._heard_at = self._state.now
        return True

    def write(self, *parts: bytes) -> None:
        if len(parts) > 1 and max(map(len, parts)) <= JOINED_BYTES:
            parts = (b"".join(parts),)
        for part in parts:
            # uvloop raises on a transport that an earlier part has found closed.
            if not self.transport.is_closing():
                self.transport.write(part)

    def answer_written(self, exchange: Exchange) -> None:
        """The application has answered."""
        self._count(exchange, exchange.status)
        self._heard_at = self._state.now
        self.due.popleft()
        # Nobody will read what has come of the body.
        exchange.drop_body()
        if exchange.keeps_alive:
            self._update()
        elif self._reader.in_body or self.is_refused:
            self._linger()
        else:
            self._close()

    def fail(self, exchange: Exchange, failure: BaseException) -> None:
        error = self._state.error_of(failure, method=exchange.method, path=exchange.path.decode("latin-1"))
        if exchange.is_answered or exchange.disconnected:
            return
        # An answer that breaks off is not counted as the 200 that it began with.
        self._count(exchange, answered(error).status)
        if not exchange.is_written:
            self.write(self._state.problem(error, CLOSE))
        self._close()

    def clock(self) -> float:
        return self._state.shares.clock()

    def _count(self, exchange: Exchange, status: int) -> None:
        """Count an answer of the application."""
        self._state.traffic_of(exchange.route_name).answered(status, self.clock() - exchange.began)

    def let_go(self, exchange: Exchange) -> None:
        # Not before: the application may hold a body, including one that was refused, until it has its turn.
        self._reader.let_go(exchange)
        self._received.hold(self._reader.held_bytes + self._intake.size_bytes)

    def read_on(self) -> None:
        self._update_reading()

    def _close(self) -> None:
        self.transport.close()

    # What follows from all this.

    def _update(self) -> None:
        """After each change: go on, end the connection, or wait."""
        is_quiet = not (self.waiting or self._intake.size_bytes or self._reader.in_body or self.read_paused)
        if (is_quiet and not (self.is_refused or self._is_closing)) or self.transport.is_closing() or self._is_over:
            return
        if self._intake.size_bytes:
            self._count_unparsed()
        elif self._is_closing:
            self._drop_unfinished()
        if self.due or self.waiting or self._intake.size_bytes:
            if self._may_go_on() and not self._is_scheduled:
                self._is_scheduled = True
                asyncio.get_running_loop().call_soon(self._go_on_scheduled)
        elif self.is_refused:
            if self._refusal is not None:
                self.write(self._refusal)
            self._linger()
        elif self._is_closing:
            if self._reader.in_body:
                self._linger()
            else:
                self._close()
        self._update_reading()

    def _may_go_on(self) -> bool:
        if self.write_paused or self._intake.waits:
            return False
        return (bool(self.waiting) and self._may_begin()) or self._may_parse()

    def _go_on_scheduled(self) -> None:
        self._is_scheduled = False
        self._go_on()

    def _count_unparsed(self) -> None:
        try:
            self._received.hold(self._reader.held_bytes + self._intake.size_bytes)
        except TooManyUnansweredBytes as refused:
            # Whatever has not begun is refused with it.
            self._drop_waiting()
            self._refuse(refused)

    def _update_reading(self) -> None:
        newest = self._reader.newest
        is_body_full = newest is not None and newest.body_bytes > MAX_BUFFERED_BODY_BYTES
        is_late = self._intake.waits or self._intake.size_bytes > MAX_UNPARSED_BYTES
        # What a refused client sends is discarded: unread bytes would reset the connection.
        pauses = not self.is_refused and (self.write_paused or is_body_full or is_late)
        if pauses == self.read_paused or self.transport.is_closing():
            return
        self.read_paused = pauses
        if pauses:
            self._paused_at = self._state.now
            self.transport.pause_reading()
        else:
            if self._reader.since is not None:
                # The client is not late for having to wait for us.
                self._reader.since += self._state.now - self._paused_at
            self.transport.resume_reading()

    # Refusals.

    def _refuse(self, error: NodeError) -> None:
        """Answer the newest request in the application's place, behind all before it, and end the connection.

        What follows on it cannot be understood. `_update` must be called then.
        """
        self.is_refused = True
        self._intake.clear()
        self._reader.since = None
        newest = self._unfinished()
        if newest is not None and newest.is_answering:
            # The client would match a second answer with its next request.
            newest.keeps_alive = False
            return
        self._drop_unfinished()
        self._received.hold(self._reader.held_bytes)
        self._refusal = self._state.unrouted_problem(error)

    def _unfinished(self) -> Exchange | None:
        """The request whose body has not arrived in full."""
        return self._reader.newest if self._reader.in_body else None

    def _drop_unfinished(self) -> None:
        """The request that has not arrived in full is neither begun nor answered, unless its answer has begun."""
        newest = self._unfinished()
        self._reader.since = None
        if newest is None or newest.is_answering:
            return
        if not newest.has_begun:
            self.waiting.pop()
            self._reader.let_go(newest)
        elif self.is_refused or self._has_ended:
            newest.abandon()
            self.due.clear()
        else:
            # The server stops, and the client may still send the rest.
            return
        self._reader.in_body = False

    def _drop_waiting(self) -> None:
        for request in self.waiting:
            self._reader.let_go(request)
            if not request.is_whole:
                self._reader.in_body = False
        self.waiting.clear()

    def _linger(self) -> None:
        """Close our side, and discard what the client still sends: unread bytes would reset the connection."""
        self.is_refused = self._is_over = True
        self._ends_at = self._state.now + LINGER_S
        self._intake.clear()
        self._reader.since = None
        self._drop_waiting()
        self._received.hold(self._reader.held_bytes)
        self._update_reading()
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()
