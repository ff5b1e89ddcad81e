"""A WebSocket, as the event channel needs it: bounded buffers, exact close codes, our own refusals.

Frames are read and made by the Sans-I/O part of the websockets library, through what it documents. The application
behind it (`websocket_session`) writes whole frames to the connection, and never waits.
"""

import asyncio
import socket
from collections.abc import Callable
from http import HTTPStatus

from starlette.types import Message
from websockets.exceptions import HeaderLineTooLong, InvalidMethod, InvalidUpgrade, RequestLineTooLong, TooManyHeaders
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol

from cairn import metrics
from cairn.api.server.access import client_of
from cairn.api.server.client_budgets import ReceivedBytes
from cairn.api.server.connection_slots import ConnectionSlot
from cairn.api.server.http_heads import RequestHead
from cairn.api.server.intake import Intake
from cairn.api.server.server_state import ServerState
from cairn.api.server.websocket_deadlines import Deadlines
from cairn.api.server.websocket_session import Session, scope_of
from cairn.config import Settings
from cairn.domain.errors import (
    HeadersTooLarge,
    MalformedRequest,
    MethodNotAllowed,
    NodeError,
    ShuttingDown,
    TooManyUnansweredBytes,
    UpgradeRequired,
)

LINGER_S = 30.0
"""How long a client may take to read what was sent before its close frame."""
FAILED_LINGER_S = 5.0
"""The same for a client that broke the protocol, while what it still sends is discarded."""
SHUTDOWN_LINGER_S = 1.5
"""The same when the node stops: less than the server waits for its connections to end."""
PIECE_BYTES = 256
"""Parsed at once: the shortest frame has six bytes, and takes as long as thousands of a long one."""
RECEIVE_BUFFER_BYTES = 32 * 1024
"""Keeps what one client can send in one turn of the event loop small."""
CONTROL_BYTES = 6
"""Of a ping or a pong of a client, with its mask, besides its data."""
MAX_FRAGMENTS = 1_024
"""Fragments of one message: empty ones would never reach the size limit."""


class BrokenProtocol(Exception):
    """The client broke the protocol."""

    def __init__(self, code: CloseCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class MessageReader:
    """The messages of one socket."""

    def __init__(self) -> None:
        self._fragments: list[bytes] = []
        self._is_text = False

    def add(self, frame: Frame) -> Message | None:
        """Process a data frame. Returns the message that it completes, if any. Raises `BrokenProtocol`."""
        if frame.opcode is not Opcode.CONT:
            self._is_text = frame.opcode is Opcode.TEXT
            self._fragments = []
        if len(self._fragments) >= MAX_FRAGMENTS:
            raise BrokenProtocol(CloseCode.POLICY_VIOLATION, f"a message has at most {MAX_FRAGMENTS} fragments")
        self._fragments.append(bytes(frame.data))
        if not frame.fin:
            return None
        data = b"".join(self._fragments)
        self._fragments = []
        if not self._is_text:
            return {"type": "websocket.receive", "bytes": data}
        try:
            return {"type": "websocket.receive", "text": data.decode()}
        except UnicodeDecodeError:
            raise BrokenProtocol(CloseCode.INVALID_DATA, "a text message must be UTF-8") from None


class EventsProtocol(asyncio.Protocol):
    """One socket. The event hub writes whole frames to it and never waits; see `subscriber.Connection`."""

    def __init__(self, state: ServerState, slot: ConnectionSlot | None, received: ReceivedBytes) -> None:
        """`slot` is that of the HTTP connection that was upgraded."""
        self._state = state
        self._slot = slot
        self._received = received
        if slot is not None:
            slot.owner = None
        self._frames = ServerProtocol(max_size=state.max_message_bytes)
        self._messages = MessageReader()
        self._session = Session(self)
        self._deadlines = Deadlines(self._frames, self)
        self.refusal: NodeError | None = None
        """Why the request is not a valid WebSocket handshake; the application must refuse it."""
        self._response: Response | None = None
        """Accepts the handshake."""
        self._is_open = False
        self._intake = Intake(state.shares, self.resume_reading, PIECE_BYTES)
        """Waits until the handshake is answered, or the application has read the messages before it, too."""
        self._payer = ""
        """Whose time is used."""
        self._is_broken = False
        """The client broke the protocol: what it still sends means nothing."""
        self._message_bytes = 0
        """Of the message that is not complete yet."""
        self._unanswered_bytes = 0
        """Of the messages that the application has still to answer."""
        self.close_sent = False
        """Nothing more is written: a close frame, or an error instead of the handshake, was written."""
        self._is_full = False
        self.writable = asyncio.Event()
        self.writable.set()
        self._is_reading = True
        self._resume_listener: Callable[[], None] = lambda: None

    # For the endpoint and the hub.

    @property
    def paused(self) -> bool:
        return self._is_full or self.close_sent or self.transport.is_closing()

    def has_left(self) -> bool:
        """Whether no answer can reach the client any more."""
        return self.close_sent or self.transport.is_closing()

    def on_resume(self, listener: Callable[[], None]) -> None:
        self._resume_listener = listener

    def limit(self, settings: Settings, max_message_bytes: int) -> None:
        """Limit the messages and the buffers of a client; called before the upgrade is accepted."""
        if self.transport.is_closing():
            return
        self._frames.max_message_size = max_message_bytes
        self._deadlines.limit(settings)
        buffer_bytes = settings.ws_buffer_bytes
        self.transport.set_write_buffer_limits(high=buffer_bytes, low=buffer_bytes // 4)
        # Otherwise the kernel would buffer megabytes before this process notices that nobody reads.
        raw = self.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)

    def write(self, data: bytes) -> None:
        # uvloop raises on a closed transport: one disconnected client must not stop the others' events.
        if not self.close_sent and not self.transport.is_closing():
            self.transport.write(data)

    def close(self, code: int, reason: str) -> None:
        """Close after what is already written. A client that does not read it in time is cut off."""
        if not self.close_sent and not self.transport.is_closing():
            self._frames.send_close(code, reason)
            self._begin_close(LINGER_S)

    def _begin_close(self, linger_s: float) -> None:
        """Write the close frame, end the application, and read on (discarding) until the client closes too."""
        self.transport.write(b"".join(self._frames.data_to_send()))
        self._end_session()
        self._deadlines.linger(linger_s)
        self.resume_reading()

    def _end_session(self) -> None:
        """Nothing more is written, and the application ends."""
        self.close_sent = True
        self._deadlines.stop()
        self._session.disconnect()
        self.writable.set()

    # The connection.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self._state.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.connections.discard(self)
        if self._slot is not None:
            self._slot.give_up()
        self._intake.close()
        self._received.hold(0)
        if self._is_open:
            metrics.WEBSOCKETS.change(-1)
            metrics.WEBSOCKETS_CLOSED.inc(str(self._close_code()))
        self._end_session()
        self._deadlines.end_linger()

    def _close_code(self) -> int:
        """That of whoever closed first; 1006 if the connection was lost."""
        frames = self._frames
        first = frames.close_rcvd if frames.close_rcvd_then_sent else frames.close_sent or frames.close_rcvd
        return CloseCode.ABNORMAL_CLOSURE.value if first is None else first.code

    def eof_received(self) -> None:
        # The transport closes once its buffer is empty, which may be never: end the application now.
        self._session.disconnect()
        self.writable.set()

    def finish(self) -> None:
        """The server stops: 1001, which tells the client that another node or a later one may serve it."""
        if self._is_open:
            self.close(CloseCode.GOING_AWAY, "the node is stopping")
        else:
            self.refuse(ShuttingDown("the node is stopping"))
        self._deadlines.linger(SHUTDOWN_LINGER_S)

    def pause_writing(self) -> None:
        self.writable.clear()
        self._is_full = True
        # Answers to its messages would pile up like events.
        self._update_reading()
        if not self.close_sent:
            self._deadlines.buffer_filled()

    def resume_writing(self) -> None:
        self.writable.set()
        self._is_full = False
        self._deadlines.buffer_drained()
        self.resume_reading()
        if not self.paused:
            self._resume_listener()

    def all_answered(self) -> None:
        self._unanswered_bytes = 0
        self._received.hold(self._intake.size_bytes + self._message_bytes)

    def resume_reading(self) -> None:
        """Parse what has come, as far as that may be now, and read on once nothing of it is left."""
        if self._may_take() and self._intake.size_bytes and not self._intake.waits and self._intake.begin(self._payer):
            try:
                self._take_pieces()
            finally:
                self._intake.end()
        self._update_reading()

    def _may_take(self) -> bool:
        """Not while answers pile up or the handshake is not answered, and only as many messages as the application
        can hold; after the close frame, what comes is looked through for the client's.
        """
        if self.transport.is_closing():
            return False
        return self.close_sent or (self._is_open and not self._is_full and self._session.has_read_all)

    def _take_pieces(self) -> None:
        while self._intake.size_bytes and self._may_take():
            if self._state.shares.is_slice_over:
                self._intake.wait(self._payer, "intake")
                return
            piece = self._intake.take()
            self._message_bytes += len(piece)
            self._take(piece)

    def _update_reading(self) -> None:
        reads = not self._intake.size_bytes and (self._may_take() or not self._is_open)
        if reads == self._is_reading or self.transport.is_closing():
            return
        self._is_reading = reads
        if reads:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    # What the client sends.

    def data_received(self, data: bytes) -> None:
        if self._is_broken or (self.close_sent and not self._is_open):
            return
        self._intake.put(data)
        # The client may not have waited for the answer to its handshake; that must be written first.
        self.resume_reading()
        if self.close_sent:
            self._message_bytes = 0
        try:
            self._received.hold(self._intake.size_bytes + self._message_bytes + self._unanswered_bytes)
        except TooManyUnansweredBytes as refused:
            self.close(CloseCode.TRY_AGAIN_LATER, refused.detail)

    def _take(self, data: bytes) -> None:
        self._frames.receive_data(data)
        frames = [event for event in self._frames.events_received() if isinstance(event, Frame)]
        is_closed = any(frame.opcode is Opcode.CLOSE for frame in frames)
        if self._frames.close_expected() and not is_closed and not self.close_sent:
            self._break_off()
            return
        for frame in frames:
            self._take_frame(frame)
        # Pongs. Nothing is written after a close frame: otherwise a client that goes on sending would fill the buffer.
        self.write(b"".join(self._frames.data_to_send()))

    def _take_frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.PONG:
            self._deadlines.take_pong(bytes(frame.data))
        if frame.opcode in (Opcode.PING, Opcode.PONG):
            # It is answered, and no part of a message.
            self._message_bytes -= CONTROL_BYTES + len(frame.data)
        elif frame.opcode is Opcode.CLOSE:
            # Either the answer to our close frame, or the client's own.
            if not self.close_sent:
                self.write(b"".join(self._frames.data_to_send()))
                self._end_session()
            self.transport.close()
        elif not self.close_sent:
            try:
                message = self._messages.add(frame)
            except BrokenProtocol as broken:
                self._frames.fail(broken.code, broken.reason)
                self._break_off()
                return
            if message is not None:
                self._unanswered_bytes += self._message_bytes
                self._message_bytes = 0
                self._session.put(message)

    def _break_off(self) -> None:
        """The client broke the protocol."""
        self._is_broken = True
        self._intake.clear()
        self._begin_close(FAILED_LINGER_S)
        # Not closed at once: unread bytes would reset the connection, and the close frame would be lost.
        if self.transport.can_write_eof():
            self.transport.write_eof()

    # The handshake, and the application behind it.

    def begin(self, head: RequestHead, client: tuple[str, int] | None) -> None:
        self._payer = client_of(client[0]) if client is not None else ""
        self._frames.receive_data(head.encode())
        requests = [event for event in self._frames.events_received() if isinstance(event, Request)]
        if not requests:
            self.refuse(_refusal_of(self._frames.handshake_exc, head.method))
            return
        response = self._frames.accept(requests[0])
        if response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            self._response = response
        else:
            # The library's own answer is not sent: the endpoint refuses, with a problem and all our headers.
            self.refusal = _refusal_of(self._frames.handshake_exc, head.method)
        running = self._session.run(self._state.app, scope_of(head, client, self.transport, self))
        self._state.keep(asyncio.get_running_loop().create_task(running))

    def accept(self) -> None:
        assert self._response is not None
        if self.close_sent or self.transport.is_closing():
            return
        headers = self._response.headers
        del headers["Date"]
        headers.update((name.decode(), value.decode()) for name, value in self._state.common_headers)
        self._frames.send_response(self._response)
        self.write(b"".join(self._frames.data_to_send()))
        self._is_open = True
        metrics.WEBSOCKETS.change(1)
        self._deadlines.begin_pings()
        self.resume_reading()

    def refuse(self, error: NodeError) -> None:
        """Send an error instead of accepting the handshake, unless it was answered."""
        if self._is_open:
            return
        if not self.close_sent and not self.transport.is_closing():
            self.transport.write(self._state.unrouted_problem(error))
            self.transport.close()
            self._deadlines.linger(LINGER_S)
        self._end_session()

    def end(self) -> None:
        if not self.close_sent:
            self.transport.close()
        # However it ended, a peer that takes nothing any more must not keep the connection.
        if self in self._state.connections and not self._deadlines.is_lingering:
            self._deadlines.linger(LINGER_S)


def _refusal_of(failure: Exception | None, method: str) -> NodeError:
    if isinstance(failure, RequestLineTooLong | HeaderLineTooLong | TooManyHeaders):
        return HeadersTooLarge(str(failure))
    if isinstance(failure, InvalidMethod):
        return MethodNotAllowed(method, "GET")
    return UpgradeRequired(str(failure)) if isinstance(failure, InvalidUpgrade) else MalformedRequest(str(failure))
