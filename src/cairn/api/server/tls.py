"""TLS of one connection: what a client sends is decrypted in turns of the client, like all that is parsed.

The event loop could do it, but it decrypts all that has come, up to 256 KB at once, before anybody can charge for it or
pause it. Records of a byte, handshakes and new keys cost a client little and a server much, so they wait like requests.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Any, cast

from cairn.api.server.connection_slots import ConnectionSlot
from cairn.api.server.intake import MAX_UNPARSED_BYTES, Intake
from cairn.api.server.server_state import ServerState

READ_BYTES = 16 * 1024
"""Read from the socket at once, and the most of a record."""
WRITTEN_BYTES = 32 * 1024
"""Encrypted at once: the layer never gives back the memory of its buffer while the connection lasts."""
LINGER_S = 1.0
"""How long what a client still sends is read after our end, so that it gets the last answer: unread bytes would reset
the connection. Less than the server waits for its connections at a stop."""

MakeProtocol = Callable[[ConnectionSlot], asyncio.Protocol]
"""Makes what serves a connection in its slot."""


class TlsConnection(asyncio.BufferedProtocol, asyncio.Transport):
    """The protocol of a socket, and the transport of the protocol above it, which begins after the handshake."""

    is_idle = True
    """Nothing was asked yet: it owns the slot until the handshake is done."""

    def __init__(
        self, state: ServerState, context: ssl.SSLContext, slot: ConnectionSlot, make_protocol: MakeProtocol
    ) -> None:
        super().__init__()
        self._state = state
        self._context = context
        self._slot = slot
        self._make_protocol = make_protocol
        self._arrived, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(self._arrived, self._leaving, server_side=True)
        self._intake = Intake(state.shares, self._go_on)
        self._buffer = bytearray()
        self._protocol: asyncio.BaseProtocol | None = None
        """Above; None until the handshake is done, and once the connection is lost."""
        self._is_secure = False
        """The handshake is done."""
        self._has_ended = False
        """The client sends nothing more."""
        self._is_closing = False
        self._is_held = False
        """The protocol above reads nothing for now."""
        self._is_full = False
        """The client does not read. Its records may have answers, too: those of new keys."""
        self._is_reading = True
        self._is_scheduled = False

    # The socket's protocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        self._payer = self._state.payer_of(transport.get_extra_info("peername"))
        self._slot.owner = self
        # The handshake's; later, that of the end.
        self._timer = asyncio.get_running_loop().call_later(self._state.header_timeout_s, self.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._intake.close()
        self._is_closing = True
        # Otherwise the two would keep each other.
        protocol, self._protocol = self._protocol, None
        if protocol is None:
            self._slot.give_up()
        else:
            protocol.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> bytearray:
        # Of its own only while something comes: most connections are quiet.
        self._buffer = self._buffer or bytearray(READ_BYTES)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        buffer, self._buffer = self._buffer, bytearray()
        if self._is_closing:
            return
        self._intake.put(bytes(memoryview(buffer)[:nbytes]))
        if self._intake.waits or self._is_scheduled:
            self._update_reading()
        else:
            self._go_on()

    def eof_received(self) -> bool:
        self._has_ended = True
        if self._is_closing:
            return False
        self._schedule()
        return True

    def pause_writing(self) -> None:
        self._is_full = True
        if self._protocol is not None:
            self._protocol.pause_writing()
        self._update_reading()

    def resume_writing(self) -> None:
        self._is_full = False
        if self._protocol is not None:
            self._protocol.resume_writing()
        self._schedule()

    def leave(self) -> None:
        self.abort()

    # What the client sends.

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._go_on_scheduled)

    def _go_on_scheduled(self) -> None:
        self._is_scheduled = False
        self._go_on()

    def _go_on(self) -> None:
        """Decrypt what comes next in a turn, and hand it on after it: parsing has turns of its own."""
        if self._may_go_on() and self._intake.size_bytes and self._intake.begin(self._payer):
            try:
                data, failure = self._decrypt()
            finally:
                self._intake.end()
            self._hand_on(data)
            if failure is not None and not self.is_closing():
                # What the client should know of it was written.
                self._is_closing = True
                self._socket.close()
        if self._may_go_on():
            if self._intake.size_bytes:
                self._schedule()
            elif self._has_ended:
                self._end()
        self._update_reading()

    def _may_go_on(self) -> bool:
        return not (self.is_closing() or self._is_held or self._is_full or self._intake.waits)

    def _end(self) -> None:
        """The client has ended, and all that came before is handed on."""
        if self._protocol is not None:
            cast(asyncio.Protocol, self._protocol).eof_received()
        self.close()

    def _decrypt(self) -> tuple[bytes, ssl.SSLError | None]:
        """As many pieces as a turn has time for, and the protocol above has room for."""
        records: list[bytes] = []
        size_bytes = 0
        failure = None
        while self._intake.size_bytes and size_bytes < MAX_UNPARSED_BYTES and failure is None:
            self._arrived.write(self._intake.take())
            try:
                if not self._is_secure:
                    self._session.do_handshake()
                    self._is_secure = True
                # Not until it wants more: to raise that takes as long as to decrypt a record.
                while self._arrived.pending:
                    record = self._session.read(READ_BYTES)
                    if not record:
                        # The client has said that this is all.
                        self._has_ended = True
                        self._intake.clear()
                        break
                    records.append(record)
                    size_bytes += len(record)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                failure = error.with_traceback(None)
            if self._state.shares.is_slice_over:
                break
        self._send()
        return b"".join(records), failure

    def _hand_on(self, data: bytes) -> None:
        if self._is_secure and self._protocol is None and not self.is_closing():
            self._timer.cancel()
            self._protocol = self._make_protocol(self._slot)
            self._protocol.connection_made(self)
        if data and self._protocol is not None and not self.is_closing():
            cast(asyncio.Protocol, self._protocol).data_received(data)

    def _update_reading(self) -> None:
        is_late = self._intake.waits or self._intake.size_bytes > MAX_UNPARSED_BYTES
        # After our end, what still comes is discarded.
        reads = self._is_closing or not (is_late or self._is_held or self._is_full)
        if reads == self._is_reading or self._socket.is_closing():
            return
        self._is_reading = reads
        if reads:
            self._socket.resume_reading()
        else:
            self._socket.pause_reading()

    def _send(self) -> None:
        """Write what is encrypted."""
        data = self._leaving.read()
        # uvloop raises on a closed transport.
        if data and not self._socket.is_closing():
            self._socket.write(data)

    # The transport of the protocol above.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        for start in range(0, len(view), WRITTEN_BYTES):
            if self.is_closing():
                return
            self._session.write(view[start : start + WRITTEN_BYTES])
            self._send()

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        """Say that this is all, and wait a little for the client's end."""
        if self.is_closing():
            return
        self._is_closing = True
        self._intake.clear()
        self._timer.cancel()
        with contextlib.suppress(ssl.SSLError):
            # It wants to read the client's answer, which nobody needs.
            self._session.unwrap()
        self._send()
        if self._has_ended or not self._socket.can_write_eof() or self._socket.is_closing():
            self._socket.close()
            return
        self._socket.write_eof()
        self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._socket.close)
        self._update_reading()

    def abort(self) -> None:
        self._is_closing = True
        self._socket.abort()

    def is_closing(self) -> bool:
        return self._is_closing or self._socket.is_closing()

    def pause_reading(self) -> None:
        self._is_held = True
        self._update_reading()

    def resume_reading(self) -> None:
        self._is_held = False
        # Not at once: the protocol above may be in the middle of what came before.
        self._schedule()

    def is_reading(self) -> bool:
        return not self._is_held

    def get_write_buffer_size(self) -> int:
        return self._socket.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._socket.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return self._session
        return self._context if name == "sslcontext" else self._socket.get_extra_info(name, default)
