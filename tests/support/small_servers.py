"""A client of a small server, which speaks in pieces of its own, from an address of its own."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cairn.api.server.small_server import SmallServer
from tests.support.pace import PATIENCE_S


class Listening:
    def __init__(self, server: SmallServer, port: int) -> None:
        self.server = server
        self._port = port

    async def connect(self, address: str = "127.0.0.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port, local_addr=(address, 0))

    async def ask(self, *pieces: bytes, address: str = "127.0.0.1") -> bytes:
        """Everything that is answered; nothing if the connection is cut."""
        reader, writer = await self.connect(address)
        async with asyncio.timeout(PATIENCE_S):
            try:
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.close()

    async def held(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.server.connections) != count:
                await asyncio.sleep(0.001)


@asynccontextmanager
async def serving(server: SmallServer) -> AsyncIterator[Listening]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        await server.listen(sock)
        try:
            yield Listening(server, sock.getsockname()[1])
        finally:
            server.close()
