"""Random HTTP conversations, what an independent parser (h11) makes of them, and what our protocol does.

One seed decides a conversation: its requests, their bodies and chunks, its upgrades, the faults in it, the segments in
which it arrives, and how long each request takes to be answered.
"""

import asyncio
import hashlib
import json
import random
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import h11

from cairn.api.chain_view import ChainView
from cairn.api.hot_routes import HotRoutes
from cairn.api.next_nonces import NextNonces
from cairn.api.rpc.caller import Caller
from cairn.api.server.access import HostList, OriginList, RateLimiter
from cairn.api.server.http_protocol import HttpProtocol
from cairn.api.server.server_state import ServerState
from cairn.api.server.websocket_session import EXTENSION
from cairn.config import Settings
from cairn.core.gateway import Admission
from cairn.domain.errors import NodeError
from cairn.domain.types import TxHash
from cairn.time_shares import TimeShares
from tests.support.scripted_gateway import ScriptedGateway

SETTINGS = replace(Settings(), workers=1, allowed_hosts=("*",))
HOSTS = HostList(SETTINGS)
WEBSOCKET_HEAD = (
    b"GET /events HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
UPGRADES = (b"h2c", b"foo", b"websocket, h2c", b"TLS/1.0", b"websockets")
SMUGGLED = b"GET /read/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
QUIET_TURNS = 12
"""Turns of the event loop without a change after which nothing more will come: no answer takes so many."""
MOST_DELAY_TURNS = 4


class Request(NamedTuple):
    """One that was read. The body is None where the application did not wait for it."""

    method: str
    target: str
    body: bytes | None

    @property
    def token(self) -> str:
        """What its answer must say."""
        if self.target == "/tx":
            return hashlib.sha256(self.body or b"").hexdigest()
        if self.target.startswith("/tx/0x"):
            return self.target.removeprefix("/tx/0x")
        return hashlib.sha256(b"\n".join([self.method.encode(), self.target.encode(), self.body or b""])).hexdigest()


@dataclass
class Conversation:
    """What a client sends, in the segments in which it does."""

    segments: list[bytes]
    is_flawless: bool
    """Every request is as it should be, so that both must read all of them."""
    delays: random.Random

    @property
    def stream(self) -> bytes:
        return b"".join(self.segments)


# What a client may send.


class Generator:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def conversation(self) -> Conversation:
        rng = self._random
        requests = [self._request() for _ in range(rng.choice([1, 1, 2, 3, 5, 8]))]
        if rng.random() < 0.15:
            requests.append(WEBSOCKET_HEAD)
            if rng.random() < 0.3:
                requests.append(self._request())
        stream, is_flawless = b"".join(requests), True
        if rng.random() < 0.3:
            stream, is_flawless = self._damage(stream), False
        segments, delays = list(self._segments(stream)), random.Random(rng.random())
        if is_flawless and WEBSOCKET_HEAD not in requests and rng.random() < 0.4:
            segments, is_flawless = self._repeated(requests)
        return Conversation(segments, is_flawless, delays)

    def _repeated(self, requests: list[bytes]) -> tuple[list[bytes], bool]:
        """As a program sends them: the same again and again, each in one piece; but with a flaw somewhere, perhaps."""
        rng = self._random
        segments = [rng.choice(requests) for _ in range(rng.choice([3, 6]))]
        if rng.random() < 0.5:
            return segments, True
        at = rng.randrange(len(segments))
        flaw = rng.choice([b"\r\n", b"\n", b"P", b"POST", b"0\r\n\r\n"])
        segments[at] = rng.choice(
            [segments[at] + flaw, flaw + segments[at], segments[at][:-1], self._damage(segments[at])]
        )
        return segments, False

    def _request(self) -> bytes:
        rng = self._random
        method, path, body = self._content()
        headers = [b"Host: localhost"]
        if path in (b"/tx", b"/rpc"):
            headers.append(b"Content-Type: application/json")
        if rng.random() < 0.3:
            upgrade = rng.choice(UPGRADES)
            headers += [b"Connection: " + rng.choice([b"upgrade", b"Upgrade, keep-alive"]), b"Upgrade: " + upgrade]
        if rng.random() < 0.05:
            headers.append(b"Connection: close")
        if rng.random() < 0.1:
            headers.append(b"Expect: 100-continue")
        if rng.random() < 0.3:
            headers.append(b"X-Filler: " + b"x" * rng.choice([1, 100, 3_000]))
        framing, payload = self._framing(method, body)
        headers += framing
        rng.shuffle(headers)
        version = b"1.0" if rng.random() < 0.03 and b"Transfer-Encoding: chunked" not in headers else b"1.1"
        lines = b"".join(line + b"\r\n" for line in headers)
        return b"%b %b HTTP/%b\r\n%b\r\n" % (method, path, version, lines) + payload

    def _content(self) -> tuple[bytes, bytes, bytes | None]:
        rng = self._random
        kind = rng.random()
        if kind < 0.2:
            return b"POST", b"/tx", self._body()
        if kind < 0.35:
            return b"POST", b"/rpc", self._body()
        if kind < 0.5:
            return b"GET", b"/tx/0x" + rng.randbytes(32).hex().encode(), None
        path = b"/%b/%d" % (rng.choice([b"read", b"read", b"early"]), rng.randrange(1_000))
        method = rng.choice([b"GET", b"POST", b"POST", b"PUT", b"DELETE", b"HEAD", b"OPTIONS"])
        return method, path, self._body() if method in (b"POST", b"PUT") or rng.random() < 0.2 else None

    def _body(self) -> bytes:
        rng = self._random
        return rng.choice(
            [b"", b"{}", rng.randbytes(20), SMUGGLED, SMUGGLED * 3, WEBSOCKET_HEAD, b"x" * 5_000, b"0\r\n\r\n"]
        )

    def _framing(self, method: bytes, body: bytes | None) -> tuple[list[bytes], bytes]:
        if body is None:
            return [], b""
        if self._random.random() < 0.5:
            return [b"Content-Length: %d" % len(body)], body
        return [b"Transfer-Encoding: chunked"], self._chunks(body)

    def _chunks(self, body: bytes) -> bytes:
        rng, at, chunks = self._random, 0, []
        while at < len(body):
            size = rng.choice([1, 7, 100, len(body)])
            part = body[at : at + size]
            extension = b";x=y" if rng.random() < 0.1 else b""
            chunks.append(b"%x%b\r\n%b\r\n" % (len(part), extension, part))
            at += size
        trailers = b"".join(b"X-T%d: %b\r\n" % (number, b"y" * 50) for number in range(rng.choice([0, 0, 0, 1, 5])))
        return b"".join(chunks) + b"0\r\n" + trailers + b"\r\n"

    def _damage(self, stream: bytes) -> bytes:
        rng = self._random
        at = rng.randrange(len(stream))
        match rng.randrange(6):
            case 0:
                return stream[:at]
            case 1:
                return stream[:at] + bytes([rng.randrange(256)]) + stream[at + 1 :]
            case 2:
                return stream[:at] + rng.choice([b"\r\n", b"\n", b" ", b"\0", b"0\r\n\r\n"]) + stream[at:]
            case 3:
                return stream[:at] + stream[at + rng.randrange(1, 20) :]
            case 4:
                line = rng.choice(
                    [b"Content-Length: 5", b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked",
                     b"Content-Length: +5", b"Transfer-Encoding : chunked", b"Content-Length: 5, 5"]
                )  # fmt: skip
                return stream.replace(b"Host: localhost\r\n", b"Host: localhost\r\n" + line + b"\r\n", 1)
            case _:
                return stream.replace(b"\r\n", b"\n", rng.choice([1, 2, -1]))

    def _segments(self, stream: bytes) -> Iterator[bytes]:
        rng, at = self._random, 0
        sizes = rng.choice([[len(stream)], [1], [rng.randrange(1, 40)], [1, 5, 40, 300, 2_000], [16_384]])
        if len(stream) > 2_000 and sizes == [1]:
            sizes = [50]
        while at < len(stream):
            size = max(1, rng.choice(sizes))
            yield stream[at : at + size]
            at += size


# The second parser.


@dataclass
class Reading:
    requests: list[Request] = field(default_factory=list)
    begun: Request | None = None
    """One of which only the head has come."""
    ends: str = ""
    """Why nothing more was read: refused, closed, upgraded, or nothing when all was."""


def read_with_h11(stream: bytes) -> Reading:
    reading = Reading()
    while not reading.ends:
        # Empty lines before a request, and several spaces in it, are passed over by ours; h11 is stricter.
        stream = re.sub(rb"\A[\r\n]*([A-Z]+) +(\S+) +HTTP", rb"\1 \2 HTTP", stream)
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
        connection.receive_data(stream)
        try:
            if not _read_one(connection, reading):
                break
        except h11.RemoteProtocolError:
            reading.ends = "refused"
        stream = connection.trailing_data[0]
    return reading


def _read_one(connection: h11.Connection, reading: Reading) -> bool:
    """Returns whether a whole request came."""
    head = connection.next_event()
    if not isinstance(head, h11.Request):
        return False
    reading.begun = Request(head.method.decode(), head.target.decode(), None)
    body = b""
    while isinstance(event := connection.next_event(), h11.Data):
        body += event.data
    if not isinstance(event, h11.EndOfMessage):
        return False
    if asks_for_websocket(head):
        reading.ends = "upgraded"
    else:
        reading.requests.append(reading.begun._replace(body=body))
        connection.send(h11.Response(status_code=204, headers=[]))
        connection.send(h11.EndOfMessage())
        # Version 1.0 may ask for more, but ours then ends the connection.
        if connection.our_state is not h11.DONE or head.http_version == b"1.0":
            reading.ends = "closed"
    reading.begun = None
    return True


def asks_for_websocket(head: h11.Request) -> bool:
    upgrades = [value for name, value in head.headers if name == b"upgrade"]
    connection = b",".join(value.lower() for name, value in head.headers if name == b"connection")
    options = [option.strip() for option in connection.split(b",")]
    return upgrades == [b"websocket"] and b"upgrade" in options and head.http_version == b"1.1"


# Ours.


@dataclass
class Served:
    """What became of a conversation."""

    executed: list[Request] = field(default_factory=list)
    """In the order in which they began."""
    answers: list[tuple[int, bytes]] = field(default_factory=list)
    """Status and body, in the order in which they came; after an upgrade there are none."""
    is_closed: bool = False
    rest: bytes = b""
    """What is no whole answer, or behind an upgrade."""


class Recorder:
    """The application, the intake and the store behind the protocol: each notes what it is given, and tells of it."""

    def __init__(self, delays: random.Random) -> None:
        self.executed: list[Request] = []
        self._delays = delays

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await receive()
            connection = scope["extensions"][EXTENSION]["connection"]
            if connection.refusal is not None:
                connection.refuse(connection.refusal)
                return
            await send({"type": "websocket.accept"})
            while (await receive())["type"] != "websocket.disconnect":
                pass
            return
        try:
            HOSTS.check(scope["headers"], scope["http_version"])
        except NodeError:
            # As the node's own application does, except that it goes on with the next request and h11 does not.
            refusal = [(b"content-length", b"0"), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": 400, "headers": refusal})
            await send({"type": "http.response.body", "body": b""})
            return
        target = scope["raw_path"].decode() + ("?" + scope["query_string"].decode() if scope["query_string"] else "")
        at = len(self.executed)
        self.executed.append(Request(scope["method"], target, None))
        if not target.startswith("/early"):
            body, has_more = b"", True
            while has_more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return
                body += message["body"]
                has_more = message["more_body"]
            self.executed[at] = self.executed[at]._replace(body=body)
        await self._pause()
        answer = self.executed[at].token.encode()
        headers = [(b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._pause()
        await send({"type": "http.response.body", "body": answer})

    async def _pause(self) -> None:
        for _ in range(self._delays.randrange(MOST_DELAY_TURNS)):
            await asyncio.sleep(0)

    def admit_complete(self, body: bytes) -> "asyncio.Future[Admission] | None":
        if self._delays.random() < 0.2:
            return None
        self.executed.append(Request("POST", "/tx", body))
        loop = asyncio.get_running_loop()
        admitting: asyncio.Future[Admission] = loop.create_future()
        admission = Admission(TxHash(hashlib.sha256(body).digest()))
        turns = self._delays.randrange(MOST_DELAY_TURNS)

        def admit(left: int) -> None:
            if left:
                loop.call_soon(admit, left - 1)
            else:
                admitting.set_result(admission)

        admit(turns)
        return admitting

    async def answer(self, message: bytes, caller: Caller) -> bytes:
        called = Request("POST", "/rpc", message)
        self.executed.append(called)
        await self._pause()
        return called.token.encode()


class RecordingView(ChainView):
    def __init__(self, recorder: Recorder) -> None:
        super().__init__(Path("unused"), chain_id=1337)
        self._recorder = recorder

    def find_confirmed(self, tx_hash: TxHash) -> bytes | None:
        found = Request("GET", "/tx/0x" + tx_hash.hex(), b"")
        self._recorder.executed.append(found)
        return found.token.encode()


ProtocolClass = Callable[..., HttpProtocol]


async def serve(conversation: Conversation, make_protocol: ProtocolClass = HttpProtocol) -> Served:
    """Let our protocol read the conversation from a real socket, until nothing more happens."""
    recorder = Recorder(conversation.delays)
    view = RecordingView(recorder)
    limiter = RateLimiter(SETTINGS, lambda: 0.0)
    origins, shares = OriginList(SETTINGS), TimeShares()
    nonces = NextNonces(ScriptedGateway(), view)
    hot = HotRoutes(view, nonces, recorder, recorder, HOSTS, origins, limiter, shares, SETTINGS)  # type: ignore[arg-type]
    state = ServerState(view, recorder, hot, limiter, shares, SETTINGS)
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_accepted_socket(lambda: make_protocol(state), ours)
    reader = Reader(theirs)
    try:
        for segment in conversation.segments:
            if not await reader.send(segment):
                break
        await reader.settle(lambda: len(recorder.executed) + len(state.tasks))
        return Served(recorder.executed, *reader.parse(recorder.executed))
    finally:
        transport.abort()
        theirs.close()
        while state.tasks:
            # Each learns that its client is gone.
            await asyncio.sleep(0)
        assert state.unanswered_bytes.taken == 0, "bytes are counted for ever"


class Reader:
    """The client's end of the connection."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._received = b""
        self._is_closed = False

    async def send(self, data: bytes) -> bool:
        """False when the server has ended the connection."""
        while data:
            try:
                data = data[self._sock.send(data) :]
            except BlockingIOError:
                # It is not read for now.
                if not await self._turn():
                    return False
            except (BrokenPipeError, ConnectionResetError):
                return False
            if not await self._turn():
                return False
        return True

    async def _turn(self) -> bool:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self._receive()
        return not self._is_closed

    def _receive(self) -> None:
        try:
            while not self._is_closed:
                data = self._sock.recv(1 << 16)
                self._received += data
                self._is_closed = not data
        except BlockingIOError:
            pass
        except ConnectionResetError:
            self._is_closed = True

    async def settle(self, progress: Callable[[], int]) -> None:
        """Until nothing changes any more."""
        quiet, before = 0, (-1, -1)
        while quiet < QUIET_TURNS and not self._is_closed:
            await self._turn()
            now = (len(self._received), progress())
            quiet, before = (quiet + 1, now) if now == before else (0, now)

    def parse(self, executed: list[Request]) -> tuple[list[tuple[int, bytes]], bool, bytes]:
        """The answers; whether the connection has ended; what is no whole answer."""
        data = self._received
        answers: list[tuple[int, bytes]] = []
        while b"\r\n\r\n" in data:
            head, _, behind = data.partition(b"\r\n\r\n")
            lines = head.split(b"\r\n")
            if not lines[0].startswith(b"HTTP/1.1 "):
                break
            status = int(lines[0].split()[1])
            if status == 101:
                return [*answers, (status, b"")], self._is_closed, behind
            headers = {name.lower(): value for name, _, value in (line.partition(b": ") for line in lines[1:])}
            is_head = len(answers) < len(executed) and executed[len(answers)].method == "HEAD" and status == 200
            length = 0 if is_head else int(headers.get(b"content-length", 0))
            if len(behind) < length:
                break
            if status != 100:
                answers.append((status, behind[:length]))
            data = behind[length:]
        return answers, self._is_closed, data


# The rule.


def judge(conversation: Conversation, served: Served) -> None:
    """Compare what was served with what h11 reads. Raises `AssertionError` that names the difference."""
    expected = read_with_h11(conversation.stream)
    read = list(served.executed)
    if len(read) == len(expected.requests) + 1 and read[-1] == expected.begun:
        # Its head alone suffices to begin with it, and to answer it where the body does not matter.
        read.pop()
    assert len(read) <= len(expected.requests), f"{read[len(expected.requests)]} is no request to h11"
    for ours, theirs in zip(read, expected.requests, strict=False):
        # The digits of a hash may be of either case.
        assert (ours.method, ours.target.lower()) == (theirs.method, theirs.target.lower())
        assert ours.body is None or ours.body == theirs.body, f"another body of {ours.method} {ours.target}"
    good = [answer for answer in served.answers if answer[0] == 200]
    for number, (request, (_, body)) in enumerate(zip(served.executed, good, strict=False)):
        assert request.method == "HEAD" or token_in(body) == request.token, f"answer {number} is not that to {request}"
    assert len(good) <= len(served.executed), "more answers than requests"
    _judge_end(conversation, served, expected, len(read))


def token_in(body: bytes) -> str:
    """The hot route answers a submission as a node does."""
    if body.startswith(b"{"):
        tx_hash: str = json.loads(body)["txHash"]
        return tx_hash.removeprefix("0x")
    return body.decode()


def _judge_end(conversation: Conversation, served: Served, expected: Reading, read: int) -> None:
    answered = sum(status == 200 for status, _ in served.answers)
    assert not served.rest or (101, b"") in served.answers, f"no answer: {served.rest[:200]!r}"
    refusals = [status for status, _ in served.answers[answered:]]
    assert len(refusals) <= 1, f"several refusals: {refusals}"
    assert all(status != 200 for status in refusals), "an answer behind a refusal"
    if expected.begun is not None and answered > len(expected.requests):
        assert not refusals, f"{expected.begun} is answered, and refused too"
    if refusals and refusals != [101]:
        assert not conversation.is_flawless or expected.ends == "upgraded", f"{refusals} to what is as it should be"
    elif conversation.is_flawless:
        assert read == len(expected.requests), f"h11 reads {len(expected.requests)}, ours {read}"
    # Of what is not as it should be, ours may read less, but not leave unanswered what it has read.
    assert served.is_closed or refusals or answered >= read, f"{read} were read and {answered} answered"
    if conversation.is_flawless and expected.ends == "upgraded":
        assert refusals == [101], "no answer to the upgrade"
