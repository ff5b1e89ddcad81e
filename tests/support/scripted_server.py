"""An HTTP server whose answers a test writes, for what a real node does only when it is in trouble.

It listens on a unix socket: what one side writes the other can read at once, so that a test can run in virtual time.
"""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import httpx
import msgspec

from cairn.client import AsyncClient
from cairn.client.errors import ClientError
from cairn.client.transport import Amounts
from tests.support.virtual_time import run_virtual

RESET = "reset"
"""Instead of an answer, the connection ends."""
SILENCE = "silence"
"""Instead of an answer, nothing."""
DRIP = "drip"
"""An answer that comes byte by byte, in 25 s."""


def answer(status: int, body: object, **headers: str) -> bytes:
    content = msgspec.json.encode(body)
    lines = [f"HTTP/1.1 {status} Because", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + content


def problem(status: int, code: str, detail: str = "because", **headers: str) -> bytes:
    body = {"type": f"urn:cairn:problem:{code}", "title": "", "status": status, "detail": detail, "code": code}
    return answer(status, body, **headers)


class ScriptedServer:
    """Gives each request the next of its answers, and the last one for ever."""

    def __init__(self, script: Sequence[bytes | str], socket: Path) -> None:
        self._script = list(script)
        self._socket = socket
        self.requests: list[tuple[str, bytes]] = []
        """The first line and the body of each."""
        self.keys: list[str | None] = []
        """The idempotency key of each."""
        self.got_request = asyncio.Event()
        self.stop_listening: Callable[[], None] = lambda: None

    def client(self, timeout_s: float, chain_id: int | None = None, amounts: Amounts = "number") -> AsyncClient:
        """A client of this server, also of one that has stopped."""
        over_socket = partial(httpx.AsyncClient, transport=httpx.AsyncHTTPTransport(uds=str(self._socket)))
        with patch.object(httpx, "AsyncClient", over_socket):
            return AsyncClient("http://node.example", timeout_s=timeout_s, chain_id=chain_id, amounts=amounts)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (reply := await self._reply_to(reader, writer)) is not None:
                writer.write(reply)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    @staticmethod
    async def _drip(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
        for _ in range(100):
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.25)

    async def _reply_to(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes | None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        self.requests.append((first, await reader.readexactly(int(headers.get("content-length", "0")))))
        self.keys.append(headers.get("idempotency-key"))
        self.got_request.set()
        reply = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if reply == SILENCE:
            await reader.read()
        if reply == DRIP:
            await self._drip(writer)
        return reply if isinstance(reply, bytes) else None


@asynccontextmanager
async def scripted(*script: bytes | str) -> AsyncGenerator[ScriptedServer, None]:
    # Not in pytest's directory: the path of a socket must be short.
    with tempfile.TemporaryDirectory() as directory:
        socket = Path(directory, "node.sock")
        scripted_server = ScriptedServer(script, socket)
        server = await asyncio.start_unix_server(scripted_server.serve, socket)
        scripted_server.stop_listening = server.close
        try:
            yield scripted_server
        finally:
            server.close()


Use = Callable[[AsyncClient], Awaitable[object]]


def run(use: Use, *script: bytes | str, timeout_s: float = 30.0) -> tuple[object, ScriptedServer]:
    """What the client gives, or raises on purpose, when its requests are answered by the script."""

    async def main() -> tuple[object, ScriptedServer]:
        async with scripted(*script) as server, server.client(timeout_s) as client:
            try:
                return await use(client), server
            except ClientError as error:
                return error, server

    return run_virtual(main())
