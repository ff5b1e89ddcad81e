"""How long a WebSocket's client may keep the node waiting: to read what was written, to answer a ping, and to leave."""

import asyncio
import os
from asyncio import TimerHandle
from typing import Protocol

from websockets.frames import CloseCode
from websockets.server import ServerProtocol

from cairn.config import Settings
from cairn.running_clock import Countdown

PONG_TIMEOUT_S = 20.0
"""How long a client may take to answer a ping."""


class Socket(Protocol):
    """What a client that misses a deadline loses."""

    transport: asyncio.Transport

    def write(self, data: bytes) -> None: ...

    def close(self, code: int, reason: str) -> None: ...


class Deadlines:
    """The time limits of one socket. A client that misses one gets a close frame, and is cut off unless it leaves."""

    def __init__(self, frames: ServerProtocol, socket: Socket) -> None:
        self._frames = frames
        self._socket = socket
        self._ping_interval_s = self._stall_timeout_s = 0.0
        self._stall_timer: Countdown | None = None
        """Runs while the buffer is full."""
        self._has_drained = False
        """Since the last ping."""
        self._ping_timer: TimerHandle | None = None
        self._pong_timer: Countdown | None = None
        self._ping_payload = b""
        self._pinged_at = 0.0
        self._linger_timer: TimerHandle | None = None
        """Runs once the client is to leave."""

    def limit(self, settings: Settings) -> None:
        self._ping_interval_s = settings.ws_ping_interval_s
        self._stall_timeout_s = settings.ws_stall_timeout_s

    def stop(self) -> None:
        """All but the one to leave."""
        for timer in (self._stall_timer, self._ping_timer, self._pong_timer):
            if timer is not None:
                timer.cancel()
        self._stall_timer = self._ping_timer = self._pong_timer = None

    # To read.

    def buffer_filled(self) -> None:
        if self._stall_timer is None:
            self._stall_timer = Countdown(asyncio.get_running_loop(), self._stall_timeout_s, self._stalled)

    def buffer_drained(self) -> None:
        self._has_drained = True
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _stalled(self) -> None:
        self._stall_timer = None
        self._socket.close(CloseCode.TRY_AGAIN_LATER, "too slow: reconnect with fromHeight")

    # To answer a ping.

    def begin_pings(self) -> None:
        if self._ping_interval_s > 0:
            self._ping_in(self._ping_interval_s)

    def _ping_in(self, seconds: float) -> None:
        self._ping_timer = asyncio.get_running_loop().call_later(seconds, self._ping)

    def _ping(self) -> None:
        self._ping_payload = os.urandom(4)
        self._frames.send_ping(self._ping_payload)
        self._socket.write(b"".join(self._frames.data_to_send()))
        self._await_pong()

    def _await_pong(self) -> None:
        loop = asyncio.get_running_loop()
        self._has_drained = False
        self._pinged_at = loop.time()
        self._pong_timer = Countdown(loop, PONG_TIMEOUT_S, self._pong_missed)

    def _pong_missed(self) -> None:
        self._pong_timer = None
        if self._stall_timer is not None or self._has_drained:
            # The ping waits for the data of a long replay; the stall limit finds a client that does not read.
            self._await_pong()
            return
        self._socket.close(CloseCode.TRY_AGAIN_LATER, "no answer to a ping: reconnect with fromHeight")

    def take_pong(self, payload: bytes) -> None:
        if self._pong_timer is None or payload != self._ping_payload:
            # It answers none of our pings, or an earlier one.
            return
        self._pong_timer.cancel()
        self._pong_timer = None
        took_s = asyncio.get_running_loop().time() - self._pinged_at
        self._ping_in(max(0.0, self._ping_interval_s - took_s))

    # To leave.

    @property
    def is_lingering(self) -> bool:
        return self._linger_timer is not None

    def linger(self, seconds: float) -> None:
        """Cut the client off unless it has left by then."""
        self.end_linger()
        self._linger_timer = asyncio.get_running_loop().call_later(seconds, self._socket.transport.abort)

    def end_linger(self) -> None:
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None
