"""The load generator against a server of answers that are right, wrong, or missing."""

import asyncio
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import cast

import pytest

from bench import load
from bench.load import run_load
from bench.peers.yardstick import bare_requests_per_s
from tests.support.ticking_clock import TickingClock

CONNECTIONS = 3


@pytest.fixture
def _ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes a hundredth of a second: a busy machine leaves time for requests, too."""
    clocks = SimpleNamespace(perf_counter=TickingClock(0.01), process_time=time.process_time)
    monkeypatch.setattr(load, "time", clocks)


class _Echo(asyncio.Protocol):
    """Answers with the path that was asked for; /close closes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        path = data.split()[1]
        if path == b"/close":
            self._transport.close()
            return
        status = b"500 Failed" if path == b"/fail" else b"200 OK"
        self._transport.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(path), path))


def _serve(ports: Connection) -> None:
    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(_Echo, "127.0.0.1", 0)
        ports.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


@contextmanager
def echo() -> Iterator[int]:
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(theirs,))
    process.start()
    try:
        yield mine.recv()
    finally:
        process.terminate()
        process.join()


def get(path: str, expected: str = "") -> tuple[bytes, bytes]:
    return f"GET {path} HTTP/1.1\r\n\r\n".encode(), (expected or path).encode()


def test_each_request_is_sent_once_and_a_sample_is_kept() -> None:
    requests = [get(f"/{number}") for number in range(10)]
    with echo() as port:
        result = run_load(port, requests, CONNECTIONS)
    assert len(result.latencies_s) == len(result.ended_s) == 10
    assert result.ended_s == sorted(result.ended_s)
    asked = dict(requests)
    assert result.samples
    assert all(body == asked[request] for request, body in result.samples)


@pytest.mark.usefixtures("_ticking")
def test_a_load_of_some_seconds_repeats_its_requests_and_ends() -> None:
    with echo() as port:
        result = run_load(port, [get("/a")], 1, 0.5, repeat=True)
    # For each there are two looks: when it is sent, and when its answer is there.
    assert 20 < len(result.latencies_s) <= 25
    assert 0.5 <= result.seconds < 0.6


def test_without_repeating_it_ends_when_all_is_sent() -> None:
    with echo() as port:
        result = run_load(port, [get("/a")] * 4, CONNECTIONS, 60)
    assert len(result.latencies_s) == 4
    assert result.seconds < 60


@pytest.mark.parametrize(
    ("wrong", "told"), [(get("/a", "/b"), "200 /a"), (get("/fail"), "500 /fail"), (get("/close"), "9 of 10 answered")]
)
def test_one_wrong_answer_fails_the_load(wrong: tuple[bytes, bytes], told: str) -> None:
    requests = [get(f"/{number}") for number in range(9)]
    requests.insert(5, wrong)
    with echo() as port, pytest.raises(RuntimeError, match=told):
        run_load(port, requests, CONNECTIONS)


def test_a_load_of_nothing_fails_at_once() -> None:
    with pytest.raises(RuntimeError, match="nothing to send"):
        run_load(1, [], CONNECTIONS)


@pytest.mark.usefixtures("_ticking")
def test_the_bare_server_answers() -> None:
    assert bare_requests_per_s(0.1, CONNECTIONS) > 0
