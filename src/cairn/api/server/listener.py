"""Accepts the connections of a worker, with or without TLS.

The event loop could do that, but uvloop accepts a single connection in each of its turns: a client that opens hundreds
would keep the probes waiting. With TLS (`tls`), a connection takes its slot before the handshake: whoever never
completes one is counted, too.

All workers wait at one socket, and who is idle is faster: without a rule one of two had 63 of 64 connections, and the
other's processor stood still. So a worker that has more than another leaves new ones to it, but not for long: it may
hang.
"""

import asyncio
import socket
from collections.abc import Callable
from functools import partial

from cairn.api.server.certificates import Certificates
from cairn.api.server.connection_slots import ConnectionSlot
from cairn.api.server.server_state import ServerState
from cairn.api.server.tls import MakeProtocol, TlsConnection
from cairn.heartbeat import fewest_connections_elsewhere, show_connections

ACCEPTED_AT_ONCE = 64
LEFT_S = 0.002
"""How long a connection is left to a worker that has fewer."""
RETRY_S = 0.1
"""Pause after a failure to accept: mostly the process has no descriptor left."""


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

    def _make(self, slot: ConnectionSlot) -> asyncio.BaseProtocol:
        if self._certificates is None:
            return self._make_protocol(slot)
        return TlsConnection(self._state, self._certificates.context, slot, self._make_protocol)

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
            _Arrival(self._state, accepted, address_of(peer), self._make)
            show_connections(self._state.slots.taken)


def _more_than_others(taken: int) -> int:
    """How many more connections a worker may have than another: with none at all, each would wait for the other."""
    return 2 + taken // 8


class _Arrival:
    """One connection until the event loop has made its transport."""

    is_idle = True
    """Nothing was asked yet."""

    def __init__(
        self,
        state: ServerState,
        accepted: socket.socket,
        client: str,
        make_protocol: Callable[[ConnectionSlot], asyncio.BaseProtocol],
    ) -> None:
        self._socket = accepted
        self._slot = state.slots.admit(client, self, state.now)
        self._task = asyncio.get_running_loop().create_task(self._run(partial(make_protocol, self._slot)))

    def leave(self) -> None:
        self._task.cancel()
        self._socket.close()

    async def _run(self, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(make_protocol, self._socket)
        except Exception:
            # The client has gone. The slot is free again.
            self._slot.give_up()
            self._socket.close()
