"""Whatever clients send, nothing holds a worker's loop for long, work grows with the bytes, and others go first.

Time is counted here, not measured: each call of a function takes as long as any other, by the clock of the shares, too.
So the figures are the same on every machine, however busy.
"""

import asyncio
import contextlib
import random
import ssl
import sys
import tempfile
from asyncio import events
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest

from cairn.api.chain_view import ChainView
from cairn.api.hot_routes import HotRoutes
from cairn.api.next_nonces import NextNonces
from cairn.api.server.access import HostList, OriginList, RateLimiter
from cairn.api.server.certificates import Pair
from cairn.api.server.http_protocol import HttpProtocol
from cairn.api.server.server_state import ServerState
from cairn.api.server.tls import TlsConnection
from cairn.api.server.websocket_session import EXTENSION
from cairn.config import Settings
from cairn.time_shares import TimeShares
from tests.support.certificates import make_certificate
from tests.support.http_fuzz import WEBSOCKET_HEAD
from tests.support.scripted_gateway import ScriptedGateway

SETTINGS = replace(Settings(), workers=1)
CALL_S = 2e-7
HOLD_CALLS = round(0.005 / CALL_S)
"""What nothing holds the loop for: 5 ms."""
MOST_TIMES = 2.5
"""What twice the bytes may cost."""
READ_BYTES = 64 * 1024
"""What a socket gives at once."""
TLS_READ_BYTES = 256 * 1024
"""The same, where the server says how much it takes."""
QUIET_TURNS, QUIET_CALLS = 10, 40
"""After so many turns of the loop with no more calls than it makes itself, nothing is left to do."""
GREEDY, OTHER = "192.0.2.1", "192.0.2.2"
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /txs HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


class Work:
    """Calls of functions of this thread, and how many one callback of the loop has made at most."""

    def __init__(self) -> None:
        self.calls = self.most_calls = 0

    @property
    def seconds(self) -> float:
        return self.calls * CALL_S

    @contextmanager
    def counted(self) -> Iterator[None]:
        run = events.Handle._run

        def counted_run(handle: events.Handle) -> None:
            before = self.calls
            run(handle)
            self.most_calls = max(self.most_calls, self.calls - before)

        def note(frame: FrameType, event: str, argument: object) -> None:
            if event in ("call", "c_call"):
                self.calls += 1

        events.Handle._run = counted_run  # type: ignore[method-assign, assignment]
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            yield
        finally:
            sys.setprofile(before)
            events.Handle._run = run  # type: ignore[method-assign]


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Reads all that comes, and answers in a few bytes."""
    if scope["type"] == "websocket":
        connection = scope["extensions"][EXTENSION]["connection"]
        await receive()
        if connection.refusal is not None:
            connection.refuse(connection.refusal)
            return
        connection.limit(SETTINGS, SETTINGS.ws_max_message_bytes)
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            connection.write(b"\x81\x00")
        return
    while (message := await receive()).get("more_body"):
        pass
    if message["type"] == "http.request":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})


class Server:
    def __init__(self, work: Work) -> None:
        shares, view = TimeShares(lambda: work.seconds), ChainView(Path("unused"), chain_id=1337)
        gateway, unused = ScriptedGateway(), cast(Any, None)
        limiter = RateLimiter(replace(SETTINGS, rate_limit_per_s=0), lambda: 0.0)
        hosts, origins = HostList(SETTINGS), OriginList(SETTINGS)
        nonces = NextNonces(gateway, view)
        hot = HotRoutes(view, nonces, unused, unused, hosts, origins, limiter, shares, SETTINGS)
        self.state = ServerState(view, application, hot, limiter, shares, SETTINGS)


class Connection:
    """A client's connection, as its transport: what the client sends is read in each turn of the loop, if it may be."""

    def __init__(self, server: Server, address: str, segments: list[bytes]) -> None:
        self._address = address
        self._segments = segments[::-1]
        self._is_paused = self._is_closing = False
        self.written = b""
        self.protocol = self._make_protocol(server)
        self.protocol.connection_made(cast(asyncio.Transport, self))
        asyncio.get_running_loop().call_soon(self._deliver)

    def _make_protocol(self, server: Server) -> asyncio.BaseProtocol:
        return HttpProtocol(server.state)

    def _deliver(self) -> None:
        if not self._is_paused and not self._is_closing and self._segments:
            self._give(self._segments.pop())
        if not self.is_done:
            asyncio.get_running_loop().call_soon(self._deliver)

    def _give(self, data: bytes) -> None:
        cast(asyncio.Protocol, self.protocol).data_received(data)

    @property
    def is_done(self) -> bool:
        return self._is_closing or not self._segments

    def write(self, data: bytes) -> None:
        self.written += data
        # Nobody looks at more.
        self.written = self.written[-1_000:]

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": (self._address, 9), "sockname": ("192.0.2.9", 8645), "socket": self}.get(name)

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close

    def write_eof(self) -> None:
        pass

    def setsockopt(self, *arguments: object) -> None:
        pass

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        pass


class TlsClient(Connection):
    """One that sends its segments over TLS, each byte in a record of its own, once its handshake is done."""

    def _make_protocol(self, server: Server) -> asyncio.BaseProtocol:
        with uncounted():
            self._plain, self._segments = b"".join(self._segments[::-1]), []
            self._arrived, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
            self._session = trusting().wrap_bio(self._arrived, self._leaving)
            self._is_secure = False
            self._shake_hands()
        slot = server.state.slots.admit(self._address, cast(Any, self), 0.0)
        return TlsConnection(server.state, certificate(), slot, partial(HttpProtocol, server.state))

    def _shake_hands(self) -> None:
        try:
            self._session.do_handshake()
            self._is_secure = True
            for at in range(len(self._plain)):
                self._session.write(self._plain[at : at + 1])
        except ssl.SSLWantReadError:
            pass
        self._segments = cut(self._leaving.read(), iter(lambda: TLS_READ_BYTES, 0))[::-1]

    def _give(self, data: bytes) -> None:
        protocol = cast(asyncio.BufferedProtocol, self.protocol)
        buffer = memoryview(cast(bytearray, protocol.get_buffer(TLS_READ_BYTES)))
        size = min(len(data), len(buffer))
        buffer[:size] = data[:size]
        if data[size:]:
            self._segments.append(data[size:])
        protocol.buffer_updated(size)

    @property
    def is_done(self) -> bool:
        return self._is_closing or (self._is_secure and not self._segments)

    def write(self, data: bytes) -> None:
        with uncounted():
            self._arrived.write(data)
            if not self._is_secure:
                self._shake_hands()
                return
            with contextlib.suppress(ssl.SSLError):
                while answer := self._session.read(READ_BYTES):
                    super().write(answer)


@contextmanager
def uncounted() -> Iterator[None]:
    """What a client does is no work of the server."""
    before = sys.getprofile()
    sys.setprofile(None)
    try:
        yield
    finally:
        sys.setprofile(before)


@cache
def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@cache
def certificate() -> ssl.SSLContext:
    with tempfile.TemporaryDirectory() as directory:
        return Pair(*make_certificate(Path(directory))).load()


def frame(opcode: int, data: bytes = b"", final: bool = True) -> bytes:
    """A masked frame; a mask of zeros changes nothing."""
    length = bytes((0x80 | len(data),)) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
    return bytes((0x80 * final | opcode,)) + length + bytes(4) + data


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
CLOSED = WEBSOCKET_HEAD + frame(CLOSE, b"\x03\xe8")

# Each is given how much there shall be of it.
KINDS: dict[str, Callable[[int], bytes]] = {
    "probes": lambda size: HEALTH * size,
    "requests": lambda size: b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n" * size,
    "upgrades": lambda size: b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n" * size,
    "short headers": lambda size: b"GET /a HTTP/1.1\r\n" + b"a:\r\n" * (4 * size),
    "a long header": lambda size: b"GET /a HTTP/1.1\r\n" + b"a:\r\n" * 100 + b"b: " + b"c" * 8 * size,
    "a long target": lambda size: b"GET /" + b"a" * 8 * size,
    "a body": lambda size: POST + b"Content-Length: 99999999\r\n\r\n" + b"a" * 32 * size,
    "chunks of a byte": lambda size: CHUNKED + chunk(b"a") * 8 * size,
    "trailers": lambda size: CHUNKED + b"0\r\n" + b"a:\r\n" * 8 * size,
    "empty lines": lambda size: b"\r\n" * size,
    "nothing that is known": lambda size: b"\0\xff\x80" * 16 * size,
    "after a refusal": lambda size: b"nonsense\r\n\r\n" + b"a" * 32 * size,
    "pings": lambda size: WEBSOCKET_HEAD + frame(PING) * 4 * size,
    "pongs": lambda size: WEBSOCKET_HEAD + frame(PONG) * 4 * size,
    "messages": lambda size: WEBSOCKET_HEAD + frame(TEXT, b"a") * size,
    "empty fragments": lambda size: WEBSOCKET_HEAD + frame(TEXT, final=False) + frame(0, final=False) * 9 * size,
    "longer messages": lambda size: WEBSOCKET_HEAD + frame(TEXT, b"a" * 1_000) * (size // 20),
    "after a close frame": lambda size: CLOSED + frame(PONG) * 4 * size,
    "broken frames": lambda size: WEBSOCKET_HEAD + frame(3) + frame(PONG) * 4 * size,
}  # fmt: skip


def cut(stream: bytes, sizes: Iterator[int]) -> list[bytes]:
    segments, at = [], 0
    while at < len(stream):
        size = next(sizes)
        segments.append(stream[at : at + size])
        at += size
    return segments


def sizes(rng: random.Random, longest: int) -> Iterator[int]:
    """The sizes of the segments in which a stream comes."""
    while True:
        yield rng.randint(1, longest) if longest < READ_BYTES else READ_BYTES


async def serve(work: Work, streams: list[list[bytes]], connect: type[Connection]) -> None:
    server = Server(work)
    connections = [connect(server, GREEDY, segments) for segments in streams]
    quiet_turns = 0
    while quiet_turns < QUIET_TURNS:
        is_read = all(each.is_done for each in connections)
        before = work.calls
        await asyncio.sleep(0)
        quiet_turns = quiet_turns + 1 if is_read and work.calls - before < QUIET_CALLS else 0
    for each in connections:
        each.close()
    await asyncio.sleep(0)
    for task in server.state.tasks:
        task.cancel()
    await asyncio.gather(*server.state.tasks, return_exceptions=True)


def work_for(*streams: list[bytes], connect: type[Connection] = Connection) -> Work:
    work = Work()

    async def main() -> None:
        with work.counted():
            await serve(work, list(streams), connect)

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(main())
    return work


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("connections", [1, 20])
def test_no_callback_holds_the_loop_however_much_has_come(kind: str, connections: int) -> None:
    stream = KINDS[kind](2_000 if connections == 1 else 300)
    work = work_for(*[cut(stream, iter(lambda: READ_BYTES, 0)) for _ in range(connections)])
    assert work.most_calls < HOLD_CALLS


@pytest.mark.parametrize("kind", ["a body", "probes", "pongs", "after a refusal"])
@pytest.mark.parametrize("connections", [1, 20])
def test_no_callback_holds_the_loop_for_records_of_a_byte(kind: str, connections: int) -> None:
    stream = KINDS[kind](2_000 // connections)
    work = work_for(*[[stream] for _ in range(connections)], connect=TlsClient)
    assert work.most_calls < HOLD_CALLS


def test_twice_the_records_cost_twice_the_work() -> None:
    once, twice = (work_for([KINDS["a body"](size)], connect=TlsClient).calls for size in (300, 600))
    assert once > 10_000
    assert twice < MOST_TIMES * once


@pytest.mark.parametrize("seed", range(20))
def test_no_callback_holds_the_loop_whatever_comes(seed: int) -> None:
    rng = random.Random(seed)
    streams = []
    for _ in range(rng.choice([1, 3, 10])):
        parts = [KINDS[rng.choice(list(KINDS))](rng.choice([1, 10, 200])) for _ in range(rng.choice([1, 1, 2]))]
        longest = rng.choice([1, 3, 100, 2_000, READ_BYTES])
        stream = bytearray(b"".join(parts))[: 1_000 if longest < 100 else 20_000]
        for _ in range(rng.choice([0, 0, 1, 5])):
            stream[rng.randrange(len(stream))] = rng.randrange(256)
        streams.append(cut(bytes(stream), sizes(rng, longest)))
    assert work_for(*streams).most_calls < HOLD_CALLS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("segment_bytes", [1, READ_BYTES])
def test_twice_the_bytes_cost_twice_the_work(kind: str, segment_bytes: int) -> None:
    once, twice = (
        work_for(cut(KINDS[kind](size), iter(lambda: segment_bytes, 0))).calls
        for size in ((60, 120) if segment_bytes < READ_BYTES else (300, 600))
    )
    assert twice < MOST_TIMES * once


@pytest.mark.parametrize("kind", KINDS)
def test_the_probe_of_another_client_waits_for_a_few_rounds_only(kind: str) -> None:
    stream = KINDS[kind](1_000)
    work, waits = Work(), list[int]()

    async def main() -> None:
        server = Server(work)
        greedy = [Connection(server, GREEDY, cut(stream, iter(lambda: READ_BYTES, 0))) for _ in range(40)]
        for _ in range(5):
            before = work.calls
            other = Connection(server, OTHER, [HEALTH])
            while not other.written:
                await asyncio.sleep(0)
            waits.append(work.calls - before)
            other.close()
        for each in greedy:
            each.close()
        for task in server.state.tasks:
            task.cancel()
        await asyncio.gather(*server.state.tasks, return_exceptions=True)

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner, work.counted():
        runner.run(main())
    assert max(waits) < 4 * HOLD_CALLS
