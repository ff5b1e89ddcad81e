"""uvicorn's WebSocket protocol, as the event channel needs it: bounded buffers, exact close codes, our own refusals."""

import socket
from asyncio import TimerHandle
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.exceptions import HeaderLineTooLong, InvalidMethod, InvalidUpgrade, RequestLineTooLong, TooManyHeaders
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from cairn.api.errors import (
    HeadersTooLarge,
    Internal,
    MalformedRequest,
    MethodNotAllowed,
    UpgradeRequired,
    encode_problem,
)
from cairn.api.server.connection_slots import Place
from cairn.config import Settings
from cairn.countdown import Countdown
from cairn.domain.errors import NodeError, ShuttingDown

EXTENSION = "cairn.socket"
"""The ASGI extension that holds the connection itself."""

LINGER_S = 30.0
"""How long a client may take to read what was sent before its close frame."""
FAILED_LINGER_S = 5.0
"""The same for a client that broke the protocol, while what it still sends is discarded."""
SHUTDOWN_LINGER_S = 1.5
"""The same when the node stops: less than the server waits for its connections to end."""
MAX_FRAGMENTS = 1_024
"""Of one message: empty ones would never reach the largest size that a message may have."""
RECEIVE_BUFFER_BYTES = 32 * 1024
"""Keeps what one client can send in one turn of the event loop, and so the time it takes from others, small."""


class EventsProtocol(WebSocketsSansIOProtocol):
    """One socket. The event hub writes whole frames to it and never waits; see `subscriber.Connection`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._handshake = Handshake(max_size=self.config.ws_max_size, logger=self.logger)
        self.conn = self._handshake
        self._is_full = False
        self._has_drained = False
        self._resume_listener: Callable[[], None] = lambda: None
        self._stall_timeout_s = 0.0
        self._stall_timer: Countdown | None = None
        self._abort_timer: TimerHandle | None = None
        self._place: Place | None = None
        self._early = b""
        """What came before the handshake was answered."""

    def keep(self, place: Place | None) -> None:
        """The place of the connection that this one goes on with."""
        if place is not None:
            place.guest = None
        self._place = place

    # For the endpoint and the hub.

    @property
    def refusal(self) -> NodeError | None:
        """Why the request is no WebSocket handshake; the application must refuse it."""
        return self._handshake.refusal

    @property
    def paused(self) -> bool:
        return self._is_full or self.close_sent or self.transport.is_closing()

    async def is_gone(self) -> bool:
        """Whether no answer can reach the client any more."""
        return self.close_sent or self.transport.is_closing()

    def on_resume(self, listener: Callable[[], None]) -> None:
        self._resume_listener = listener

    def limit(self, settings: Settings) -> None:
        """Bound what a client can hold; called before the upgrade is accepted."""
        self.conn.max_message_size = settings.ws_max_message_bytes
        self.ping_interval = settings.ws_ping_interval_s
        self._stall_timeout_s = settings.ws_stall_timeout_s
        buffer_bytes = settings.ws_buffer_bytes
        self.transport.set_write_buffer_limits(high=buffer_bytes, low=buffer_bytes // 4)
        # The kernel would otherwise take megabytes before this process notices that nobody reads.
        raw = self.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)

    def write(self, data: bytes) -> None:
        # uvloop raises on a closed transport: one client that went away must not end a fan-out.
        if not self.close_sent and not self.transport.is_closing():
            self.transport.write(data)

    def close(self, code: int, reason: str) -> None:
        """Close behind what is already written; a client that does not take it in time is cut off."""
        if not self.close_sent and not self.transport.is_closing():
            self.conn.send_close(code, reason)
            self._begin_close(LINGER_S)

    def _begin_close(self, linger_s: float) -> None:
        """Write the close frame, end the application, and read on (discarding) until the client closes too."""
        assert self.conn.close_sent is not None
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.stop_keepalive()
        self._stop_stall_timer()
        self.close_timer = self.loop.call_later(linger_s, self.transport.abort)
        self.queue.put_nowait({"type": "websocket.disconnect", "code": self.conn.close_sent.code})
        self.writable.set()
        self._resume_reading()

    # A client that does not keep up.

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_full = True
        if not self.read_paused:
            # Answers to what it sends would pile up just as events do.
            self.read_paused = True
            self.transport.pause_reading()
        if self._stall_timer is None and not self.close_sent:
            self._stall_timer = Countdown(self.loop, self._stall_timeout_s, self._stalled)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_full = False
        self._has_drained = True
        self._stop_stall_timer()
        if self.queue.empty():
            self._resume_reading()
        if not self.paused:
            self._resume_listener()

    def _resume_reading(self) -> None:
        if self.read_paused and not self.transport.is_closing():
            self.read_paused = False
            self.transport.resume_reading()

    def _stop_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _stalled(self) -> None:
        self._stall_timer = None
        self.close(CloseCode.TRY_AGAIN_LATER, "too slow: reconnect with fromHeight")

    def send_keepalive_ping(self) -> None:
        super().send_keepalive_ping()
        if self.pong_timer is not None:
            self.pong_timer.cancel()
            self._await_pong()

    def _await_pong(self) -> None:
        assert self.ping_timeout is not None
        self._has_drained = False
        self.ping_sent_at = self.loop.time()
        # All that uvicorn does with it is to cancel it.
        self.pong_timer = Countdown(self.loop, self.ping_timeout, self.keepalive_timeout)  # type: ignore[assignment]

    def keepalive_timeout(self) -> None:
        self.pong_timer = None
        if self._is_full or self._has_drained:
            # The ping waits behind the data of a long replay. The stall limit finds a client that does not read.
            self._await_pong()
            return
        self.pending_ping_payload = None
        self.close(CloseCode.TRY_AGAIN_LATER, "no answer to a ping: reconnect with fromHeight")

    # A client that breaks the protocol, or goes away.

    def data_received(self, data: bytes) -> None:
        if self.handshake_initiated and self.conn.state is State.CONNECTING:
            # It did not wait for the answer to its handshake, but that one comes first.
            self._early += data
            if not self.transport.is_closing():
                self.transport.pause_reading()
            return
        super().data_received(data)
        failure = self.conn.handshake_exc
        if failure is not None and not self.handshake_initiated:
            # uvicorn would leave such a connection open without an answer.
            self.handshake_initiated = True
            is_long = isinstance(failure, RequestLineTooLong | HeaderLineTooLong | TooManyHeaders)
            self._refuse(HeadersTooLarge(str(failure)) if is_long else MalformedRequest(str(failure)))

    def handle_cont(self, event: Frame) -> None:
        if self.close_sent:
            return
        if len(self.frames) >= MAX_FRAGMENTS:
            self.conn.fail(CloseCode.POLICY_VIOLATION, f"a message has at most {MAX_FRAGMENTS} fragments")
            self.handle_parser_exception()
            return
        super().handle_cont(event)

    def handle_ping(self) -> None:
        # Nothing follows a close frame: a client that goes on asking would fill the buffer all the while it lingers.
        answer = b"".join(self.conn.data_to_send())
        self.write(answer)

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text":
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                # Here and not in uvicorn, which logs the client's mistake as a failure of ours.
                self.conn.fail(CloseCode.INVALID_DATA, "a text message must be UTF-8")
                self.handle_parser_exception()
                return
        super().send_receive_event_to_app()

    def handle_parser_exception(self) -> None:
        if self.close_sent:
            return
        self._begin_close(FAILED_LINGER_S)
        # Not closed at once: unread bytes of the client would turn that into a reset, and the close frame be lost.
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def eof_received(self) -> None:
        # The transport now closes once its buffer is empty, which may be never: let the application end before.
        self.queue.put_nowait({"type": "websocket.disconnect", "code": CloseCode.ABNORMAL_CLOSURE})
        self.writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._place is not None:
            self._place.give_up()
        self._stop_stall_timer()
        if self._abort_timer is not None:
            self._abort_timer.cancel()

    async def run_asgi(self) -> None:
        try:
            await super().run_asgi()
        finally:
            # However it ends, a peer that takes nothing any more must not keep the connection.
            if not self.disconnected:
                self._abort_timer = self.loop.call_later(LINGER_S, self.transport.abort)

    # Answers instead of the handshake's.

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        extensions = self.scope["extensions"]
        assert extensions is not None
        extensions[EXTENSION] = {"connection": self}

    async def send(self, message: ASGISendEvent) -> None:
        if message["type"] == "websocket.http.response.start":
            # uvicorn gives these headers to every answer but a refusal.
            headers = [*self.default_headers, *message.get("headers", ())]
            message = {"type": "websocket.http.response.start", "status": message["status"], "headers": headers}
        await super().send(message)
        if self._early and self.conn.state is not State.CONNECTING:
            early, self._early = self._early, b""
            self.transport.resume_reading()
            self.data_received(early)
        if self.initial_response is not None and self.close_sent:
            # A refusal in full is an answer too; uvicorn would log it as an application that gave none.
            self.handshake_complete = True

    def shutdown(self) -> None:
        """The server stops: 1001, which tells the client that another node or a later one may serve it."""
        self.loop.call_later(SHUTDOWN_LINGER_S, self.transport.abort)
        if self.handshake_complete:
            self.close(CloseCode.GOING_AWAY, "the node is stopping")
        else:
            self._refuse(ShuttingDown("the node is stopping"))

    def send_500_response(self) -> None:
        if self.initial_response is None and not self.handshake_complete:
            self._refuse(Internal("the endpoint failed"))

    def _refuse(self, error: NodeError) -> None:
        status, headers, body = encode_problem(error)
        named = [(name.decode(), value.decode()) for name, value in (*self.default_headers, *headers)]
        named += [("content-length", str(len(body))), ("connection", "close")]
        if not self.transport.is_closing():
            self.handshake_complete = self.close_sent = True
            self.transport.write(Response(status, HTTPStatus(status).phrase, Headers(named), body).serialize())
            self.transport.close()


class Handshake(ServerProtocol):
    """Leaves the answer to a faulty upgrade to the application: a problem document, with all our headers."""

    refusal: NodeError | None = None

    def accept(self, request: Request) -> Response:
        response = super().accept(request)
        if response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            return response
        if isinstance(self.handshake_exc, InvalidMethod):
            self.refusal = MethodNotAllowed(request.method, "GET")
        elif isinstance(self.handshake_exc, InvalidUpgrade):
            self.refusal = UpgradeRequired(str(self.handshake_exc))
        else:
            self.refusal = MalformedRequest(str(self.handshake_exc))
        # Any other status makes uvicorn send the library's own text. This one is never sent: the endpoint refuses.
        return Response(HTTPStatus.SWITCHING_PROTOCOLS, "", Headers())
