"""Links between nodes as user-space TCP proxies on loopback, so that a test can cut or hold them without root."""

import asyncio
import threading
from collections.abc import Collection, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeVar

from tests.support.pace import PATIENCE_S

State = Literal["up", "cut", "held"]
"""`cut` resets what is connected and refuses what is new; `held` keeps both but lets no byte through."""

_CHUNK_BYTES = 64 * 1024

T = TypeVar("T")


class Link:
    """One direction of dialling: whoever connects to `port` reaches `target`, as long as the link is up."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self._open = asyncio.Event()
        self._open.set()
        self._cut = False
        self._left_bytes: int | None = None
        """How many may still pass before it is held."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def become(self, state: State, after_bytes: int = 0) -> None:
        """Return once it is so: of what is cut, no byte is under way any more."""
        self._left_bytes = None
        if state == "held" and after_bytes:
            self._left_bytes, state = after_bytes, "up"
        self._cut = state == "cut"
        if state == "up":
            self._open.set()
        else:
            self._open.clear()
        if self._cut:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        self._server.close()
        await self.become("cut")

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError, asyncio.CancelledError):
                await self._forward(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        onward, back = await asyncio.open_connection("127.0.0.1", self.target)
        try:
            # Either side's end is the end of both: a half-closed connection is of no use to the protocol behind it.
            pumps = [asyncio.create_task(self._pump(reader, back)), asyncio.create_task(self._pump(onward, writer))]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            back.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(_CHUNK_BYTES):
            await self._open.wait()
            writer.write(chunk)
            await writer.drain()
            if self._left_bytes is not None:
                self._left_bytes -= len(chunk)
                if self._left_bytes <= 0:
                    self._open.clear()


class Links:
    """A link for each ordered pair of nodes, served by a thread of its own until it is closed."""

    def __init__(self, ports: Sequence[int]) -> None:
        """`ports` are where the nodes listen, in their order."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="links")
        self._thread.start()
        self._links = {
            (dialler, dialled): self._call(_listening(port))
            for dialler in range(len(ports))
            for dialled, port in enumerate(ports)
            if dialler != dialled
        }

    def port(self, dialler: int, dialled: int) -> int:
        """Where `dialler` finds `dialled`."""
        return self._links[dialler, dialled].port

    def split(self, side: Collection[int], state: State, after_bytes: int = 0) -> None:
        """Put every link between `side` and the rest into that state, and return once they are; `up` heals.

        With `after_bytes`, a link that is to be held lets so many bytes through first, and what was read with the last.
        """
        for (dialler, dialled), link in self._links.items():
            if (dialler in side) != (dialled in side):
                self._call(link.become(state, after_bytes))

    def close(self) -> None:
        for link in self._links.values():
            self._call(link.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)


async def _listening(target: int) -> Link:
    link = Link(target)
    await link.listen()
    return link
