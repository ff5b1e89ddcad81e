"""The ABCI 2.0 server: CometBFT's four connections over a unix socket, each answered in the order of its requests."""

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import structlog

from cairn.domain.errors import StoreUnavailable, reason_of
from cairn.engine.abci import wire
from cairn.engine.abci.requests import AbciHandler, CheckTxRequest, TxResult
from cairn.engine.abci.wire import FrameReader, MalformedFrame

MAX_WAITING = 4_096
"""Requests that may wait for an unfinished one on the same connection; then reading pauses."""
MAX_WAITING_BYTES = 16 * 1024 * 1024
"""The same limit in bytes. A single request may be larger."""

log = structlog.get_logger("cairn.abci")


class AbciServer:
    """Listens for one CometBFT. Its connections have no names: the type of a request says which method answers it."""

    def __init__(self, handler: AbciHandler, *, on_connected: Callable[[], None] = lambda: None) -> None:
        """`on_connected` is called when CometBFT opens the first of its connections, before a request is read."""
        self._handler = handler
        self._on_connected = on_connected
        self._connections: set[_Connection] = set()
        """Four while CometBFT runs."""
        self._server: asyncio.Server | None = None
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        """The first exception that the handler raised. It was sent to CometBFT, which stops."""

    async def listen(self, path: Path) -> None:
        """Listen at `path`, even if a server that died has left its socket there.

        Do it before CometBFT starts: that tries to connect only every 3 s.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(self._connection, str(path))
        os.chmod(path, 0o600)

    def _connection(self) -> "_Connection":
        return _Connection(self, self._handler, FrameReader())

    async def close(self) -> None:
        """Stop listening and drop every connection; CometBFT then exits by itself."""
        if self._server is not None:
            self._server.close()
        connections = list(self._connections)
        for connection in connections:
            connection.close()
        await asyncio.gather(*(connection.lost for connection in connections))

    def joined(self, connection: "_Connection") -> None:
        if not self._connections:
            log.debug("CometBFT connected")
            self._on_connected()
        self._connections.add(connection)

    def left(self, connection: "_Connection") -> None:
        self._connections.discard(connection)
        if not self._connections:
            log.debug("CometBFT disconnected")

    def refused(self, error: Exception) -> None:
        """A connection ended because of `error`."""
        if isinstance(error, MalformedFrame):
            log.error("refused what CometBFT sent", reason=str(error))
            return
        # A disk that fails is no defect of ours: the reason says all, and the core goes on when the disk does.
        trace = None if isinstance(error, StoreUnavailable) else error
        log.error("the application could not answer CometBFT", reason=reason_of(error), exc_info=trace)
        if not self.failed.done():
            self.failed.set_result(error)


class _Later(NamedTuple):
    """An answer that is not ready yet."""

    result: Awaitable[Any]
    encode: Callable[[Any], bytes]

    async def answer(self) -> bytes:
        return self.encode(await self.result)

    def abandon(self) -> None:
        if isinstance(self.result, asyncio.Future):
            self.result.cancel()
        elif asyncio.iscoroutine(self.result):
            self.result.close()


class _Connection(asyncio.Protocol):
    """Answers at once if it can. While an answer is unfinished, later ones wait, so that they keep their order."""

    def __init__(self, server: AbciServer, handler: AbciHandler, frames: FrameReader) -> None:
        self._server = server
        self._handler = handler
        self._frames = frames
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._out: list[bytes] = []
        self._waiting: deque[bytes | _Later | wire.Call | Exception] = deque()
        self._waiting_bytes = 0
        """Bytes that were read since a request first had to wait."""
        self._draining: asyncio.Task[None] | None = None
        self._unread = False
        """CometBFT does not read our answers fast enough."""
        self._paused = False
        self._refusing = False
        self.lost: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._server.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_draining()
        self._server.left(self)
        self.lost.set_result(None)

    def close(self) -> None:
        self._stop_draining()
        self._transport.close()

    def _stop_draining(self) -> None:
        if self._draining is not None:
            self._draining.cancel()
        self._abandon()

    def _abandon(self) -> None:
        for item in self._waiting:
            if isinstance(item, _Later):
                item.abandon()
        self._waiting.clear()

    def data_received(self, data: bytes) -> None:
        if self._refusing:
            return
        try:
            for payload in self._frames.feed(data):
                self._take(wire.decode_request(payload))
        except Exception as error:
            # What follows cannot be trusted and is ignored. Earlier requests still get their answers.
            self._refusing = True
            if self._draining is None:
                self._refuse(error)
            else:
                self._waiting.append(error)
        if self._draining is not None:
            self._waiting_bytes += len(data)
        self._write()
        self._balance()

    def _take(self, request: CheckTxRequest | wire.Call) -> None:
        if self._draining is None:
            answer = self._perform(request)
            if isinstance(answer, bytes):
                self._out.append(answer)
            else:
                self._waiting.append(answer)
                self._draining = self._loop.create_task(self._drain())
        elif isinstance(request, CheckTxRequest):
            self._waiting.append(self._perform(request))
        else:
            self._waiting.append(request)

    async def _drain(self) -> None:
        """Answer the waiting requests, oldest first, until there are none."""
        try:
            while self._waiting:
                item = self._waiting.popleft()
                if isinstance(item, Exception):
                    raise item
                answer = item if isinstance(item, bytes | _Later) else self._perform(item)
                if isinstance(answer, _Later):
                    answer = await answer.answer()
                if not self._out:
                    # Not now: other answers may be ready in a moment, and go out in the same write.
                    self._loop.call_soon(self._write)
                self._out.append(answer)
            self._draining = None
            self._waiting_bytes = 0
        except Exception as error:
            self._refusing = True
            self._abandon()
            self._refuse(error)
        self._balance()

    def _refuse(self, error: Exception) -> None:
        """Send an Exception answer and close the connection, as the specification asks. CometBFT then stops."""
        self._out.append(wire.encode_answer("exception", f"{type(error).__name__}: {reason_of(error)}"))
        self._write()
        self._transport.close()
        self._server.refused(error)

    def _write(self) -> None:
        out, self._out = self._out, []
        if out and not self._transport.is_closing():
            self._transport.write(b"".join(out))

    def pause_writing(self) -> None:
        self._unread = True
        self._balance()

    def resume_writing(self) -> None:
        self._unread = False
        self._balance()

    def _balance(self) -> None:
        """Pause reading while too much is unanswered, so that memory stays bounded."""
        full = self._unread or len(self._waiting) > MAX_WAITING or self._waiting_bytes > MAX_WAITING_BYTES
        if full == self._paused or self._transport.is_closing():
            return
        self._paused = full
        if full:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _perform(self, request: CheckTxRequest | wire.Call) -> bytes | _Later:
        if isinstance(request, CheckTxRequest):
            result = self._handler.check_tx(request)
            if isinstance(result, TxResult):
                return wire.encode_check_tx(result)
            return _Later(result, wire.encode_check_tx)
        if request is wire.FLUSH:
            return wire.FLUSHED
        return self._perform_traced(request)

    def _perform_traced(self, call: wire.Call) -> bytes | _Later:
        """Write each call to the debug log, so that a run can be compared with the specification's grammar."""
        if call.kind == "info":
            info = self._handler.info()
            log.debug("ABCI call", call=call.name, height=info.last_block_height)
            return wire.encode_answer(call.kind, info)
        log.debug("ABCI call", call=call.name, height=call.height)
        if call.kind == "echo":
            return wire.encode_answer(call.kind, *call.arguments)
        result = getattr(self._handler, call.kind)(*call.arguments)
        encode = partial(wire.encode_answer, call.kind)
        return _Later(result, encode) if isinstance(result, Awaitable) else encode(result)
