"""Accepts the connections of a worker, with or without TLS.

The event loop could do that, but uvloop accepts a single connection in each of its turns: a client that opens hundreds
would keep the probes waiting. With TLS, the loop's handshake comes before anything that we are asked, and whoever never
completes one holds a connection that nobody counts. Here, a connection takes its slot before the handshake.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

from cairn.api.server.certificates import Certificates
from cairn.api.server.connection_slots import ConnectionSlot
from cairn.api.server.server_state import ServerState

ACCEPTED_AT_ONCE = 64
PIECE_BYTES = 256 * 1024
RETRY_S = 0.1
"""Pause after a failure to accept: mostly the process has no descriptor left."""

MakeProtocol = Callable[[ConnectionSlot], asyncio.Protocol]
"""Makes what serves a connection in its slot."""


class InPieces:
    """A TLS transport that is written to in pieces.

    What is written at once passes through the TLS layer as a whole, into a buffer that nobody counts. Of pieces, the
    first that is not taken makes the layer hold back the others, and those are counted.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def write(self, data: bytes) -> None:
        for start in range(0, len(data), PIECE_BYTES):
            self._transport.write(data[start : start + PIECE_BYTES])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def address_of(peer: object) -> str:
    """The address of a client; on a unix socket it has none."""
    return str(peer[0]) if isinstance(peer, tuple) else ""


class Listener:
    """Accepts connections on a socket until it is closed."""

    def __init__(
        self, state: ServerState, certificates: Certificates | None, sock: socket.socket, make_protocol: MakeProtocol
    ) -> None:
        self._state = state
        self._certificates = certificates
        self._sock = sock
        self._make_protocol = make_protocol
        self._loop = asyncio.get_running_loop()
        self._retry: asyncio.TimerHandle | None = None
        sock.setblocking(False)
        self._listen()

    def close(self) -> None:
        self._loop.remove_reader(self._sock)
        if self._retry is not None:
            self._retry.cancel()

    def _listen(self) -> None:
        self._loop.add_reader(self._sock, self._accept_some)

    def _accept_some(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, peer = self._sock.accept()
            except (BlockingIOError, ConnectionAbortedError):
                # Another worker was faster, or the client has gone.
                return
            except OSError:
                self._loop.remove_reader(self._sock)
                self._retry = self._loop.call_later(RETRY_S, self._listen)
                return
            accepted.setblocking(False)
            tls = None if self._certificates is None else self._certificates.context
            _Arrival(self._state, tls, accepted, address_of(peer), self._make_protocol)


class _Arrival:
    """One connection until it is served: without TLS at once, otherwise once its handshake is done."""

    is_idle = True
    """Nothing was asked yet."""

    def __init__(
        self,
        state: ServerState,
        tls: ssl.SSLContext | None,
        accepted: socket.socket,
        client: str,
        make_protocol: MakeProtocol,
    ) -> None:
        self._tls = tls
        self._timeout_s = None if tls is None else state.header_timeout_s
        self._socket = accepted
        self._slot = state.slots.admit(client, self, state.now)
        self._task = asyncio.get_running_loop().create_task(self._run(partial(make_protocol, self._slot)))

    def leave(self) -> None:
        self._task.cancel()
        # If the handshake has begun, the event loop closes it.
        self._socket.close()

    async def _run(self, make_protocol: Callable[[], asyncio.Protocol]) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                make_protocol, self._socket, ssl=self._tls, ssl_handshake_timeout=self._timeout_s
            )
        except Exception:
            # It was refused, took too long, or the client has gone. Whatever it was, the slot is free again.
            self._slot.give_up()
            self._socket.close()
