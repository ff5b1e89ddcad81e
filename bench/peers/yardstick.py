"""What the machine gives at the time: requests a second of a server that does nothing, over the same connections."""

import asyncio
import multiprocessing
from multiprocessing.connection import Connection
from typing import cast

import uvloop

from bench.load import run_load

_BODY = b'{"bare":true}'
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
_REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


class _Bare(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(_ANSWER)


def _serve(ports: Connection) -> None:
    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(_Bare, "127.0.0.1", 0)
        ports.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(serve())


def bare_requests_per_s(seconds: float, connections: int) -> float:
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(theirs,))
    process.start()
    theirs.close()
    try:
        port = mine.recv()
        return run_load(port, [(_REQUEST, _BODY)] * connections, connections, seconds, repeat=True).per_second
    finally:
        process.terminate()
        process.join()
        mine.close()
