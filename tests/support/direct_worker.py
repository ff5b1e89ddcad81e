"""A worker's server without sockets: bytes are handed to a connection, and what it writes is read at once."""

import asyncio
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from cairn.api.chain_view import ChainView
from cairn.api.events.hub import EventHub
from cairn.api.server.http_protocol import HttpProtocol
from cairn.api.server.server_state import ServerState
from cairn.api.worker import make_server
from cairn.board import Board
from cairn.config import Settings
from cairn.core.calls import Method
from cairn.core.gateway import Admission, CoreGateway, Status
from cairn.core.service import Core
from cairn.domain.types import Tx
from cairn.time_shares import TimeShares
from tests.support.pace import PATIENCE_S

_A = TypeVar("_A")

FOR_THE_APPLICATION = "Content-Encoding: identity"
"""A header that leaves a request to the application, and changes nothing else."""


class CurrentCore(CoreGateway):
    """Whichever core runs now; counts what it is asked."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.asked = 0

    def submit(self, tx: Tx) -> "asyncio.Future[Admission]":
        return self.core.submit(tx)

    async def perform(self, method: Method[_A], request: msgspec.Struct) -> _A:
        self.asked += 1
        return await self.core.perform(method, request)

    async def status(self) -> Status:
        self.asked += 1
        return await self.core.status()

    def watch_arrivals(self, on: bool) -> None:
        self.core.watch_arrivals(on)


class Answer(NamedTuple):
    status: bytes
    headers: list[bytes]
    """Whole lines, in the order of the alphabet, but for the date."""
    body: bytes


class Written:
    """The transport of a connection whose client reads everything at once."""

    def __init__(self) -> None:
        self.data = b""
        self.has_more = asyncio.Event()

    def get_extra_info(self, name: str) -> Any:
        return {"peername": ("127.0.0.1", 9), "sockname": ("127.0.0.1", 8645)}.get(name)

    def write(self, data: bytes) -> None:
        self.data += data
        self.has_more.set()

    def is_closing(self) -> bool:
        return False

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        raise AssertionError("the server ends the connection")

    pause_reading = resume_reading = write_eof = abort = close

    def take(self) -> Answer | None:
        """The next answer, if it is there as a whole."""
        head, end, rest = self.data.partition(b"\r\n\r\n")
        if not end:
            return None
        status, *lines = head.split(b"\r\n")
        [length] = [int(line.split(b": ")[1]) for line in lines if line.lower().startswith(b"content-length: ")]
        if len(rest) < length:
            return None
        self.data = rest[length:]
        shown = sorted(line for line in lines if not line.startswith(b"date: "))
        return Answer(status, shown, rest[:length])


class DirectConnection:
    def __init__(self, state: ServerState, written: Written | None = None) -> None:
        self._written = written or Written()
        self._connection = HttpProtocol(state)
        self._connection.connection_made(cast(asyncio.Transport, self._written))

    def at_once(self, request: bytes) -> Answer | None:
        """The answer, if it comes before anything else happens. Else `answer` waits for it."""
        self._connection.data_received(request)
        return self._written.take()

    def send(self, data: bytes) -> None:
        self._connection.data_received(data)

    async def answer(self) -> Answer:
        async with asyncio.timeout(PATIENCE_S):
            while (answer := self._written.take()) is None:
                self._written.has_more.clear()
                await self._written.has_more.wait()
        return answer

    async def ask(self, request: bytes) -> Answer:
        return self.at_once(request) or await self.answer()


class DirectWorker(DirectConnection):
    """With its first connection."""

    def __init__(self, gateway: CoreGateway, scratch: Path, settings: Settings, board: Board | None = None) -> None:
        scratch.mkdir()
        self.view = ChainView(scratch, 1337, board=board)
        # No time passes, so nobody has to wait for a turn.
        hub = EventHub(self.view, settings, TimeShares(clock=lambda: 0.0))
        self.view.subscribe(hub)
        self._state = make_server(gateway, self.view, hub, settings)._state
        super().__init__(self._state)

    def stop_clock(self) -> None:
        """From now on no answer takes any time."""
        self._state.shares.clock = repeat(0.0).__next__

    def connect(self, written: Written | None = None) -> DirectConnection:
        """One more connection."""
        return DirectConnection(self._state, written)

    def meet(self, core: Core) -> None:
        """Hear what the link tells of a core that has just opened the chain."""
        self.view.on_info(core.info())
        self.view.on_commit(core.head)
        self.view.on_phase("ready", "")
        # As once a second.
        self._state.refresh(0.0)

    def close(self) -> None:
        self.view.close()


def get(target: str, *headers: str) -> bytes:
    lines = "".join(f"{line}\r\n" for line in ("Host: localhost", *headers))
    return f"GET {target} HTTP/1.1\r\n{lines}\r\n".encode()
