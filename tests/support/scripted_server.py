"""An HTTP server whose answers a test writes, for what a real node does only when it is in trouble."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec

RESET = "reset"
"""Instead of an answer, the connection ends."""
SILENCE = "silence"
"""Instead of an answer, nothing."""


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

    def __init__(self, script: Sequence[bytes | str]) -> None:
        self._script = list(script)
        self.requests: list[tuple[str, bytes]] = []
        """The first line and the body of each."""
        self.url = ""
        self.got_request = asyncio.Event()
        self.stop_listening: Callable[[], None] = lambda: None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (reply := await self._reply_to(reader)) is not None:
                writer.write(reply)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    async def _reply_to(self, reader: asyncio.StreamReader) -> bytes | None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        self.requests.append((first, await reader.readexactly(int(headers.get("content-length", "0")))))
        self.got_request.set()
        reply = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if reply == SILENCE:
            await reader.read()
        return reply if isinstance(reply, bytes) else None


@asynccontextmanager
async def scripted(*script: bytes | str) -> AsyncGenerator[ScriptedServer, None]:
    scripted_server = ScriptedServer(script)
    server = await asyncio.start_server(scripted_server.serve, "127.0.0.1", 0)
    scripted_server.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    scripted_server.stop_listening = server.close
    try:
        yield scripted_server
    finally:
        server.close()
