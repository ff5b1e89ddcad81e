"""The load generator: its own process, raw HTTP over keep-alive connections, one request in flight on each."""

import asyncio
import gc
import itertools
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from multiprocessing.connection import Connection
from typing import cast

import uvloop

from bench.http_answers import Answer, find_answer

STALL_TIMEOUT_S = 120

Request = tuple[bytes, bytes]
"""What is sent, and what the answer must contain."""


@dataclass(frozen=True, slots=True)
class LoadResult:
    seconds: float
    latencies_s: list[float]
    """Sorted."""
    ended_s: list[float] = field(default_factory=list)
    """When each answer was there, from the first connection on: in order."""
    samples: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Requests and the bodies of their answers: the first and the last of each connection."""
    cpu_s: float = 0.0
    """What the load generator itself took."""

    @property
    def per_second(self) -> float:
        return len(self.latencies_s) / self.seconds

    def joined(self, other: "LoadResult") -> "LoadResult":
        """Both as if they were one run."""
        return LoadResult(
            self.seconds + other.seconds,
            sorted(self.latencies_s + other.latencies_s),
            self.ended_s + [self.seconds + ended_s for ended_s in other.ended_s],
            self.samples + other.samples,
            self.cpu_s + other.cpu_s,
        )

    def percentile_ms(self, percent: float) -> float:
        return 1_000 * self.latencies_s[min(len(self.latencies_s) - 1, int(len(self.latencies_s) * percent / 100))]


@dataclass(slots=True)
class _Run:
    """What the connections of one run share."""

    finished: "asyncio.Future[None]"
    unfinished_connections: int
    """Also those that are still to be opened: the first may be done before the last is there."""
    deadline: float
    """After this nothing more is sent."""
    latencies_s: list[float] = field(default_factory=list)
    ended_at: list[float] = field(default_factory=list)
    samples: list[tuple[bytes, bytes]] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    """The first few answers that were not the one asked for."""

    def note_unexpected(self, what: str) -> None:
        if len(self.unexpected) < 5:
            self.unexpected.append(what[:2_000])


class _Client(asyncio.Protocol):
    """One connection. An answer must be 200 and contain the expected bytes."""

    def __init__(self, run: _Run, requests: Iterator[Request]) -> None:
        self._run = run
        self._requests = requests
        self._received = b""
        self._request = self._expected = b""
        self._last: tuple[bytes, bytes] | None = None
        self._sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._send_next()

    def _send_next(self) -> None:
        self._sent_at = time.perf_counter()
        if self._sent_at < self._run.deadline:
            self._request, self._expected = next(self._requests, (b"", b""))
            if self._request:
                self._transport.write(self._request)
                return
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data if self._received else data
        try:
            answer = find_answer(received)
        except ValueError as error:
            self._run.note_unexpected(str(error))
            self._transport.close()
            return
        if answer is not None:
            self._take(answer)

    def _take(self, answer: Answer) -> None:
        run, now = self._run, time.perf_counter()
        run.latencies_s.append(now - self._sent_at)
        run.ended_at.append(now)
        if answer.status != 200 or self._expected not in answer.body:
            run.note_unexpected(f"{answer.status} {answer.body.decode(errors='replace')}")
        if self._last is None:
            run.samples.append((self._request, answer.body))
        self._last = (self._request, answer.body)
        # One request is in flight, so nothing can follow its answer.
        self._received = b""
        self._send_next()

    def connection_lost(self, error: Exception | None) -> None:
        run = self._run
        run.unfinished_connections -= 1
        if self._last is not None:
            run.samples.append(self._last)
        if error is not None:
            run.note_unexpected(f"connection lost: {error!r}")
        if run.unfinished_connections == 0 and not run.finished.done():
            run.finished.set_result(None)


async def _drive(
    loads: Sequence[tuple[int, Sequence[Request]]],
    connections: int,
    seconds: float | None,
    repeat: bool,
    sources: Sequence[str],
) -> LoadResult | list[str]:
    loop = asyncio.get_running_loop()
    counts = [min(connections, len(requests)) for _, requests in loads]
    if not any(counts):
        return ["there is nothing to send"]
    started, cpu_before_s = time.perf_counter(), time.process_time()
    run = _Run(loop.create_future(), sum(counts), started + seconds if seconds else inf)
    taken = []
    for (port, requests), count, source in zip(loads, counts, sources or [""] * len(loads), strict=True):
        # Shared by the connections to one port: each takes the next that is left.
        taken.append(_Taken(itertools.cycle(requests) if repeat else iter(requests)))
        for _ in range(count):
            await loop.create_connection(
                partial(_Client, run, taken[-1]), "127.0.0.1", port, local_addr=(source, 0) if source else None
            )
    async with asyncio.timeout(STALL_TIMEOUT_S + (seconds or sum(len(requests) for _, requests in loads) / 100)):
        await run.finished
    sent = sum(each.count for each in taken)
    if run.unexpected or len(run.latencies_s) != sent:
        return [f"{len(run.latencies_s)} of {sent} answered", *run.unexpected]
    return LoadResult(
        time.perf_counter() - started,
        sorted(run.latencies_s),
        [at - started for at in run.ended_at],
        run.samples,
        time.process_time() - cpu_before_s,
    )


class _Taken(Iterator[Request]):
    """Counts what was taken from an iterator."""

    def __init__(self, requests: Iterator[Request]) -> None:
        self._requests = requests
        self.count = 0

    def __next__(self) -> Request:
        request = next(self._requests)
        self.count += 1
        return request


def _serve(
    answers: Connection,
    loads: Sequence[tuple[int, Sequence[Request]]],
    connections: int,
    seconds: float | None,
    repeat: bool,
    sources: Sequence[str],
) -> None:
    gc.freeze()
    gc.disable()
    answers.send(uvloop.run(_drive(loads, connections, seconds, repeat, sources)))


def run_load(
    port: int, requests: Sequence[Request], connections: int, seconds: float | None = None, *, repeat: bool = False
) -> LoadResult:
    """Send each request and expect 200 with its bytes in the answer. Raises `RuntimeError` on any other answer.

    With `seconds`, nothing is sent after so many; with `repeat`, the requests start over until then. What was sent are
    the first of the requests, as many as there are latencies.
    """
    return run_loads([(port, requests)], connections, seconds, repeat=repeat)


def run_loads(
    loads: Sequence[tuple[int, Sequence[Request]]],
    connections: int,
    seconds: float | None = None,
    *,
    repeat: bool = False,
    sources: Sequence[str] = (),
) -> LoadResult:
    """Several ports at once, each with its own requests over so many connections; or from one of `sources` each."""
    # Forked, so that the requests need not be copied; this process runs no threads.
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(theirs, loads, connections, seconds, repeat, sources))
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
