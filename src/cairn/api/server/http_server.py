"""Serves a listening socket until the stop: accepts connections, ends slow ones, and gives memory back."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from functools import partial

from cairn import memory, metrics
from cairn.api.server.certificates import Certificates
from cairn.api.server.http_protocol import HttpProtocol
from cairn.api.server.listener import Listener
from cairn.api.server.server_state import OpenConnection, ServerState
from cairn.config import Settings

BACKLOG = 2_048
"""Connections that the system keeps until they are accepted."""
DRAIN_TIMEOUT_S = 2.0
"""How long unfinished answers may take at a stop."""
DRAIN_POLL_S = 0.05
MAX_UNREAD_BYTES = 256 * 1024 * 1024
"""Written for all clients together and not read by them yet. A client that reads has next to none."""
WORTH_TRIMMING_BYTES = 8 * 1024 * 1024


class Server:
    """Accepts connections on a socket, and ends slow ones, until the stop."""

    def __init__(
        self, state: ServerState, clock: Callable[[], float], certificates: Certificates | None = None
    ) -> None:
        self._state = state
        self._clock = clock
        self._certificates = certificates
        self._most_held_bytes = 0
        """For clients, since memory was given back."""
        self._stopping = asyncio.Event()

    @property
    def connections(self) -> list[OpenConnection]:
        return list(self._state.connections)

    @property
    def tasks(self) -> set["asyncio.Task[object]"]:
        """The running tasks of the application."""
        return self._state.tasks

    def stop(self) -> None:
        self._stopping.set()

    def adjust(self, settings: Settings) -> None:
        self._state.adjust(settings)

    async def serve(self, sock: socket.socket) -> None:
        accepting = self._accept_on(sock)
        while not self._stopping.is_set():
            self.sweep()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._state.sweep_interval_s)
        accepting.close()
        sock.close()
        await self._end_connections()

    def _accept_on(self, sock: socket.socket) -> Listener:
        sock.listen(BACKLOG)
        return Listener(self._state, self._certificates, sock, partial(HttpProtocol, self._state))

    async def _end_connections(self) -> None:
        """Wait until the current answers are finished, within the time limit."""
        for connection in self.connections:
            connection.finish()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_TIMEOUT_S):
                # Sets have no event for being empty, so poll.
                while self.connections or self.tasks:  # noqa: ASYNC110
                    await asyncio.sleep(DRAIN_POLL_S)
        for connection in self.connections:
            # The time is over.
            connection.transport.abort()

    def sweep(self) -> None:
        """End the connections that take too long."""
        self._state.refresh(self._clock())
        # Before others end: what those let go is free only once the application has heard of it.
        self._give_memory_back(self._cut_off_unread() + self._state.unanswered_bytes.taken)
        active = idle = 0
        for connection in self.connections:
            if isinstance(connection, HttpProtocol):
                connection.sweep()
                if connection.is_idle:
                    idle += 1
                else:
                    active += 1
        metrics.HTTP_CONNECTIONS.set(active, "active")
        metrics.HTTP_CONNECTIONS.set(idle, "idle")

    def _give_memory_back(self, held_bytes: int) -> None:
        """Once clients have let go of much that they had made this worker hold."""
        self._most_held_bytes = max(self._most_held_bytes, held_bytes)
        if self._most_held_bytes - held_bytes >= WORTH_TRIMMING_BYTES:
            self._most_held_bytes = held_bytes
            memory.trim()

    def _cut_off_unread(self) -> int:
        """Answers have megabytes, and many clients that read none would fill the memory: the most unread go first.

        Returns how many bytes were unread.
        """
        transports = [connection.transport for connection in self.connections]
        unread = sorted(((each.get_write_buffer_size(), index) for index, each in enumerate(transports)), reverse=True)
        unread_bytes = sum(size_bytes for size_bytes, _ in unread)
        excess_bytes = unread_bytes - MAX_UNREAD_BYTES
        for size_bytes, index in unread:
            if excess_bytes <= 0:
                break
            transports[index].abort()
            excess_bytes -= size_bytes
        return unread_bytes
