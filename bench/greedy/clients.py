"""The greedy client, in its own process and over many connections, and the other one, from another address."""

import asyncio
import gc
import json
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from multiprocessing.connection import Connection
from typing import cast

import uvloop

from bench.greedy.cases import Case, get, post, signed_tx
from bench.greedy.chain import PAYER, PAYER_KEY, SENDERS
from bench.machine import run_time_s
from cairn.domain.genesis import GWEI
from cairn.domain.types import TRANSFER_GAS, Draft

OTHER_ADDRESS = ("127.0.0.2", 0)
PAUSE_S = 0.02
"""Between two requests of the other client."""
PATIENCE_S = 60.0
INTERNAL_ERROR = b'"code":-32603,'
"""In an answer of JSON-RPC: the method failed, so nothing of it was measured."""
_HEAD_END = b"\r\n\r\n"


class _Greedy(asyncio.Protocol):
    """One connection: it asks again as soon as it is answered."""

    def __init__(self, case: Case, number: int, unexpected: list[str]) -> None:
        self._case = case
        # Not all ask for the same at the same time.
        requests = list(case.requests[number % len(case.requests) :]) + list(
            case.requests[: number % len(case.requests)]
        )
        self._requests = cycle(requests)
        self._unexpected = unexpected
        self._received = b""
        self._missing = 0
        """Bytes of the answer that are not here yet."""
        self._is_open = not case.opening
        self.answered = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self._case.opening or next(self._requests))

    def data_received(self, data: bytes) -> None:
        if self._missing:
            self._missing -= len(data)
            if self._missing <= 0:
                self._ask_again()
            return
        self._received += data
        if self._case.status is None:
            self._read_socket()
        else:
            self._read_answer()

    def _read_answer(self) -> None:
        head, found, body = self._received.partition(_HEAD_END)
        if not found:
            return
        is_expected = int(head[9:12]) in (self._case.status, self._case.refusal) and INTERNAL_ERROR not in body
        if not is_expected and len(self._unexpected) < 3:
            self._unexpected.append(self._received[:300].decode(errors="replace"))
        at = head.lower().find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r", 1)[0]) if at >= 0 else 0
        self._missing = length - len(body)
        if self._missing <= 0:
            self._ask_again()

    def _read_socket(self) -> None:
        if not self._is_open:
            self._is_open = _HEAD_END in self._received
            if self._is_open and not self._received.startswith(b"HTTP/1.1 101"):
                self._unexpected.append(self._received[:300].decode(errors="replace"))
            elif self._is_open:
                self._received = b""
                self.transport.write(next(self._requests))
        elif self._case.ends_with in self._received:
            self._ask_again()
        else:
            self._received = self._received[-200:]

    def _ask_again(self) -> None:
        self.answered += 1
        self._received, self._missing = b"", 0
        self.transport.write(next(self._requests))


async def _be_greedy(case: Case, port: int, connections: int, pipe: Connection) -> None:
    loop = asyncio.get_running_loop()
    unexpected: list[str] = []
    protocols = []
    for number in range(connections):
        _, protocol = await loop.create_connection(lambda at=number: _Greedy(case, at, unexpected), "127.0.0.1", port)  # type: ignore[misc]
        protocols.append(protocol)
    pipe.send(None)
    began = time.perf_counter()
    stopped = asyncio.Event()
    loop.add_reader(pipe.fileno(), stopped.set)
    await stopped.wait()
    per_s = sum(protocol.answered for protocol in protocols) / (time.perf_counter() - began)
    for protocol in protocols:
        protocol.transport.abort()
    pipe.send((per_s, unexpected))


def _run_greedy(case: Case, port: int, connections: int, pipe: Connection) -> None:
    gc.freeze()
    uvloop.run(_be_greedy(case, port, connections, pipe))


@dataclass(slots=True)
class GreedyRun:
    per_s: float = 0.0
    unexpected: list[str] = field(default_factory=list)


@contextmanager
def greedy_client(case: Case, port: int, connections: int) -> Iterator[GreedyRun]:
    """It is at work while the block runs. Its figures are there afterwards."""
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    process = context.Process(target=_run_greedy, args=(case, port, connections, theirs))
    process.start()
    theirs.close()
    run = GreedyRun()
    try:
        mine.recv()
        yield run
        mine.send(None)
        run.per_s, run.unexpected = mine.recv()
    finally:
        process.terminate()
        process.join()


@dataclass(slots=True)
class Waits:
    """How long the other client waited for its answers."""

    wall_s: list[float] = field(default_factory=list)
    node_s: list[float] = field(default_factory=list)
    """Processor time of the node meanwhile: what it did first. It hardly depends on what else the machine does."""


@dataclass(slots=True)
class Latencies:
    health: Waits = field(default_factory=Waits)
    submit: Waits = field(default_factory=Waits)
    unexpected: list[str] = field(default_factory=list)


def percentile_ms(latencies_s: list[float], percent: float) -> float:
    ordered = sorted(latencies_s)
    return 1_000 * ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else float("nan")


class OtherClient:
    """Looks at the probe, each time over a new connection, and pays, over one connection."""

    def __init__(self, port: int, pids: Sequence[int]) -> None:
        """`pids` are the node's processes."""
        self._port = port
        self._pids = pids
        self._nonce = 0

    def measure(self, seconds: float) -> Latencies:
        return asyncio.run(self._measure(seconds))

    async def _measure(self, seconds: float) -> Latencies:
        found = Latencies()
        ends_at = time.perf_counter() + seconds
        await asyncio.gather(self._probe(ends_at, found), self._pay(ends_at, found))
        return found

    async def _probe(self, ends_at: float, found: Latencies) -> None:
        while time.perf_counter() < ends_at:
            with self._timed(found.health):
                reader, writer = await self._connect()
                answer = await _ask(reader, writer, get("/health"))
            writer.close()
            _expect_200(answer, found)
            await asyncio.sleep(PAUSE_S)

    async def _pay(self, ends_at: float, found: Latencies) -> None:
        reader, writer = await self._connect()
        while time.perf_counter() < ends_at:
            request = self._next_payment()
            with self._timed(found.submit):
                answer = await _ask(reader, writer, request)
            _expect_200(answer, found)
            await asyncio.sleep(PAUSE_S)
        writer.close()

    @contextmanager
    def _timed(self, waits: Waits) -> Iterator[None]:
        began, ran_s = time.perf_counter(), run_time_s(self._pids)
        yield
        waits.wall_s.append(time.perf_counter() - began)
        waits.node_s.append(run_time_s(self._pids) - ran_s)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port, local_addr=OTHER_ADDRESS)

    def _next_payment(self) -> bytes:
        draft = Draft(PAYER, SENDERS[0], 1, TRANSFER_GAS, GWEI, self._nonce)
        self._nonce += 1
        return post("/tx", json.dumps(signed_tx(draft, PAYER_KEY)).encode())


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bytes:
    writer.write(request)
    async with asyncio.timeout(PATIENCE_S):
        head = await reader.readuntil(_HEAD_END)
        at = head.lower().index(b"content-length:") + 15
        return head + await reader.readexactly(int(head[at:].split(b"\r", 1)[0]))


def _expect_200(answer: bytes, found: Latencies) -> None:
    if not answer.startswith(b"HTTP/1.1 200") and len(found.unexpected) < 3:
        found.unexpected.append(answer.decode(errors="replace")[-300:])
