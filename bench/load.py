"""The load generator: its own process, raw HTTP over keep-alive connections, one request in flight on each."""

import asyncio
import gc
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from typing import cast

import uvloop

STALL_TIMEOUT_S = 120

Request = tuple[bytes, bytes]
"""What is sent, and what the answer must contain."""

_HEAD_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class LoadResult:
    seconds: float
    latencies_s: list[float]
    """Sorted."""

    @property
    def per_second(self) -> float:
        return len(self.latencies_s) / self.seconds

    def joined(self, other: "LoadResult") -> "LoadResult":
        """Both as if they were one run."""
        return LoadResult(self.seconds + other.seconds, sorted(self.latencies_s + other.latencies_s))

    def percentile_ms(self, percent: float) -> float:
        return 1_000 * self.latencies_s[min(len(self.latencies_s) - 1, int(len(self.latencies_s) * percent / 100))]


@dataclass(slots=True)
class _Run:
    """What the connections of one run share."""

    finished: "asyncio.Future[None]"
    unfinished_connections: int
    """Also those that are still to be opened: the first may be done before the last is there."""
    latencies_s: list[float] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    """The first few answers that were not the one asked for."""


class _Client(asyncio.Protocol):
    """One connection. An answer must be 200 and contain the expected bytes."""

    def __init__(self, run: _Run, requests: Iterator[Request]) -> None:
        self._run = run
        self._requests = requests
        self._received = b""
        self._expected = b""
        self._sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._send_next()

    def _send_next(self) -> None:
        request, self._expected = next(self._requests, (b"", b""))
        if not request:
            self._transport.close()
            return
        self._sent_at = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data
        head_end = received.find(_HEAD_END)
        if head_end < 0:
            return
        head = received[:head_end].lower()
        at = head.index(b"content-length:") + 15
        end = head.find(b"\r\n", at)
        body_size = int(head[at:] if end < 0 else head[at:end])
        if len(received) < head_end + 4 + body_size:
            return
        run = self._run
        run.latencies_s.append(time.perf_counter() - self._sent_at)
        status = int(received[9:12])
        if (status != 200 or self._expected not in received) and len(run.unexpected) < 5:
            run.unexpected.append(received.decode(errors="replace"))
        self._received = b""
        self._send_next()

    def connection_lost(self, error: Exception | None) -> None:
        run = self._run
        run.unfinished_connections -= 1
        if error is not None and len(run.unexpected) < 5:
            run.unexpected.append(f"connection lost: {error!r}")
        if run.unfinished_connections == 0 and not run.finished.done():
            run.finished.set_result(None)


async def _drive(loads: Sequence[tuple[int, Sequence[Request]]], connections: int) -> LoadResult | list[str]:
    loop = asyncio.get_running_loop()
    counts = [min(connections, len(requests)) for _, requests in loads]
    run = _Run(loop.create_future(), sum(counts))
    started = time.perf_counter()
    for (port, requests), count in zip(loads, counts, strict=True):
        # Shared by the connections to one port: each takes the next that is left.
        shared = iter(requests)
        for _ in range(count):
            await loop.create_connection(partial(_Client, run, shared), "127.0.0.1", port)
    async with asyncio.timeout(STALL_TIMEOUT_S + sum(len(requests) for _, requests in loads) / 100):
        await run.finished
    seconds = time.perf_counter() - started
    expected = sum(len(requests) for _, requests in loads)
    if run.unexpected or len(run.latencies_s) != expected:
        return [f"{len(run.latencies_s)} of {expected} answered", *run.unexpected]
    return LoadResult(seconds, sorted(run.latencies_s))


def _serve(answers: Connection, loads: Sequence[tuple[int, Sequence[Request]]], connections: int) -> None:
    gc.freeze()
    gc.disable()
    answers.send(uvloop.run(_drive(loads, connections)))


def run_load(port: int, requests: Sequence[Request], connections: int) -> LoadResult:
    """Send each request and expect 200 with its bytes in the answer. Raises `RuntimeError` on any other answer."""
    return run_loads([(port, requests)], connections)


def run_loads(loads: Sequence[tuple[int, Sequence[Request]]], connections: int) -> LoadResult:
    """Several ports at once, each with its own requests over so many connections."""
    # Forked, so that the requests need not be copied; this process runs no threads.
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(theirs, loads, connections))
    process.start()
    theirs.close()
    try:
        result: LoadResult | list[str] = mine.recv()
    except EOFError:
        raise RuntimeError("the load generator failed") from None
    finally:
        process.join()
    if isinstance(result, list):
        raise RuntimeError("; ".join(result))
    return result
