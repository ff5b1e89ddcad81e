"""The link between a core and its worker: both ends are the real ones, over a simulated unix socket.

Such a socket loses nothing and keeps the order of what one end writes. But what it delivers comes late and in pieces
that are cut anywhere; when an end dies, the other has got any part of what was written, half a frame among it; and what
the two ends write passes each other on the way.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from cairn.core.link_server import LinkedCore, LinkServer, _WorkerConnection

LATEST_S = 0.02
chance = random.Random(0)
"""What decides when and how much is delivered; the seed of a run sets it."""


class End(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._other: End | None = None
        self._written = b""
        """What the other end has not got yet."""
        self._is_due = False
        self._is_made = self._is_closed = False
        self.is_alive: Callable[[], bool] = lambda: True
        """Whether its process is: one that has ended reads nothing, before anybody has cleared it away."""

    def join(self, other: "End") -> None:
        self._other, other._other = other, self

    def made(self) -> None:
        if not self._is_closed:
            self._is_made = True
            self._protocol.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closed:
            self._written += bytes(data)
            self._deliver_soon()

    def is_closing(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        """All that was written arrives; nothing that comes is read any more."""
        self._end(whole=True, tells_itself=True)

    def abort(self) -> None:
        self._end(whole=False, tells_itself=True)

    def die(self) -> None:
        """Its process is gone, in the middle of a write perhaps."""
        self._end(whole=False, tells_itself=False)

    def _end(self, whole: bool, tells_itself: bool) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if not whole:
            self._written = self._written[: chance.randint(0, len(self._written))]
        if tells_itself:
            self._loop.call_soon(self._protocol.connection_lost, None)
        self._deliver_soon()

    def _deliver_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_later(chance.uniform(0, LATEST_S), self._deliver)

    def _deliver(self) -> None:
        self._is_due = False
        other = self._other
        if other is None or other._is_closed or not other.is_alive():
            return
        if not other._is_made:
            # The other process has not taken the connection yet.
            self._deliver_soon()
            return
        size = len(self._written)
        piece = self._written[: size if chance.random() < 0.6 else chance.randint(1, size or 1)]
        self._written = self._written[len(piece) :]
        if self._written or (self._is_closed and piece):
            self._deliver_soon()
        elif self._is_closed:
            other._is_closed = True
            other._protocol.connection_lost(None)
        if piece:
            other._protocol.data_received(piece)


class Server(LinkServer):
    """The core's end, found by its path for as long as its process lives."""

    listening: dict[str, "Server"] = {}
    _waiting: dict[str, list[asyncio.Future[None]]] = {}

    def __init__(self, core: LinkedCore, path: str) -> None:
        super().__init__(core)
        self._path = path
        self._ends: list[End] = []
        self._is_dead = False
        Server.listening[path] = self
        for waiting in Server._waiting.pop(path, []):
            if not waiting.done():
                waiting.set_result(None)

    @property
    def is_alive(self) -> bool:
        return not self._is_dead

    def _broadcast(self, frame: bytes) -> None:
        # What a process that is gone leaves behind tells nobody anything.
        if self.is_alive:
            super()._broadcast(frame)

    def die(self) -> None:
        self._is_dead = True
        if Server.listening.get(self._path) is self:
            del Server.listening[self._path]
        for end in self._ends:
            end.die()

    def accept(self, client: asyncio.Protocol) -> End:
        protocol = _WorkerConnection(self, self._core)
        ours, theirs = End(protocol), End(client)
        ours.is_alive = lambda: self.is_alive
        ours.join(theirs)
        self._ends.append(ours)
        asyncio.get_running_loop().call_later(chance.uniform(0, LATEST_S), ours.made)
        theirs.made()
        return theirs


async def connect(factory: Callable[[], Any], path: str) -> tuple[End, Any]:
    """In place of the loop's `create_unix_connection`: where nobody listens, it waits for who does."""
    while path not in Server.listening:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        Server._waiting.setdefault(path, []).append(waiting)
        await waiting
    protocol = factory()
    return Server.listening[path].accept(protocol), protocol


def begin(seed: int) -> None:
    chance.seed(f"{seed}/link")
    Server.listening.clear()
    Server._waiting.clear()
