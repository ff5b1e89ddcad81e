"""Accepts the connections of a worker, with or without TLS.

The event loop could do that, but uvloop accepts a single connection in each of its turns: a client that opens hundreds
would keep the probes waiting. With TLS, the loop's handshake comes before anything that we are asked, and whoever never
completes one holds a connection that nobody counts. Here, a connection takes its slot before the handshake.

All workers wait at one socket, and who is idle is faster: without a rule one of two had 63 of 64 connections, and the
other's processor stood still. So a worker that has more than another leaves new ones to it, but not for long: it may
hang.
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
from cairn.heartbeat import fewest_connections_elsewhere, show_connections

ACCEPTED_AT_ONCE = 64
PIECE_BYTES = 256 * 1024
LEFT_S = 0.002
"""How long a connection is left to a worker that has fewer."""
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
        self._later: asyncio.TimerHandle | None = None
        """When it listens again."""
        sock.setblocking(False)
        self._listen()

    def close(self) -> None:
        self._loop.remove_reader(self._sock)
        if self._later is not None:
            self._later.cancel()
        show_connections(None)

    def _listen(self) -> None:
        show_connections(self._state.slots.taken)
        self._loop.add_reader(self._sock, self._accept_some)

    def _listen_later(self, delay_s: float, then: Callable[[], None]) -> None:
        self._loop.remove_reader(self._sock)
        self._later = self._loop.call_later(delay_s, then)

    def _take_over(self) -> None:
        """Accept what nobody else has accepted, though others have fewer."""
        self._listen()
        self._accept(_more_than_others(self._state.slots.taken))

    def _accept_some(self) -> None:
        taken, fewest = self._state.slots.taken, fewest_connections_elsewhere()
        show_connections(taken)
        most = ACCEPTED_AT_ONCE if fewest is None else fewest + _more_than_others(taken) - taken
        if most > 0:
            self._accept(min(most, ACCEPTED_AT_ONCE))
        else:
            self._listen_later(LEFT_S, self._take_over)

    def _accept(self, most: int) -> None:
        for _ in range(most):
            try:
                accepted, peer = self._sock.accept()
            except (BlockingIOError, ConnectionAbortedError):
                # Another worker was faster, or the client has gone.
                return
            except OSError:
                self._listen_later(RETRY_S, self._listen)
                return
            accepted.setblocking(False)
            tls = None if self._certificates is None else self._certificates.context
            _Arrival(self._state, tls, accepted, address_of(peer), self._make_protocol)
            show_connections(self._state.slots.taken)


def _more_than_others(taken: int) -> int:
    """How many more connections a worker may have than another: with none at all, each would wait for the other."""
    return 2 + taken // 8


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
