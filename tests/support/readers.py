"""Clients of a balancer, each at an address of its own: some read all the time, some follow the blocks on a socket."""

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.support.balancers import SERVED_BY
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S

PATHS = ("/block/latest", "/chain", "/account/0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "/blocks?limit=5")
PAUSE_S = 0.02
"""Between two requests of a client: they are there all the time, and leave the machine to the nodes."""
KEPT_S = 9.0
"""A client that rested for longer may find its connection closed: HAProxy's `timeout http-request` is 10 s."""
_RECEIVE_S = 0.2
ADDRESSES = [f"127.0.1.{number}" for number in range(1, 201)]
"""Of loopback: so many clients a balancer can tell apart."""


@dataclass(frozen=True)
class Spread:
    """Whom a balancer sends to which node."""

    clients: list[list[str]]
    """Some addresses for each node."""
    shares: list[float]
    """Of all addresses, by node."""


def spread_of(url: str, nodes: int, each: int) -> Spread:
    """Asks once from every address; returns so many addresses for each node."""
    found: list[list[str]] = [[] for _ in range(nodes)]
    for address in ADDRESSES:
        connection = _connection(url, address)
        connection.request("GET", "/health")
        answer = connection.getresponse()
        answer.read()
        connection.close()
        found[int(answer.headers[SERVED_BY])].append(address)
    shares = [len(clients) / len(ADDRESSES) for clients in found]
    assert min(map(len, found)) >= each, f"clients are not spread over the nodes: {shares}"
    return Spread([clients[:each] for clients in found], shares)


def _connection(url: str, address: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_S, source_address=(address, 0))


@dataclass
class _Client:
    """One address of loopback, and a thread that works until the end."""

    url: str
    address: str
    is_ended: threading.Event = field(default_factory=threading.Event)
    failures: list[str] = field(default_factory=list)

    def work(self) -> None:
        raise NotImplementedError

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:
            self.failures.append(f"{self.address}: {error!r}")


@dataclass
class Reader(_Client):
    """Reads over one connection, and ends at the first answer that is no 200 or does not come."""

    served: Counter[str] = field(default_factory=Counter)
    """How many answers are from which node."""
    latencies_s: list[float] = field(default_factory=list)

    def work(self) -> None:
        connection = _connection(self.url, self.address)
        try:
            while not self.is_ended.is_set():
                rests_since = time.monotonic()
                self.is_ended.wait(PAUSE_S)
                rested_s = time.monotonic() - rests_since
                try:
                    self._read(connection, PATHS[len(self.latencies_s) % len(PATHS)])
                except ConnectionError:
                    if rested_s < KEPT_S:
                        raise
                    connection.close()
        finally:
            connection.close()

    def _read(self, connection: http.client.HTTPConnection, path: str) -> None:
        begun = time.monotonic()
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        self.latencies_s.append(time.monotonic() - begun)
        self.served[answer.headers[SERVED_BY]] += 1
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {body.decode()}")


@dataclass
class Follower(_Client):
    """Follows the blocks as docs/events.md says: after a lost connection, from one above the last height on."""

    heights: list[int] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    """Which node each connection was to."""
    gaps_s: list[float] = field(default_factory=list)
    """From the end of each lost connection until the next one is subscribed."""

    def work(self) -> None:
        lost_at = None
        while not self.is_ended.is_set():
            place = f"&fromHeight={self.heights[-1] + 1}" if self.heights else ""
            url = f"ws{self.url.removeprefix('http')}/events?newBlock{place}"
            with connect(url, source_address=(self.address, 0), open_timeout=PATIENCE_S, proxy=None) as socket:
                try:
                    json.loads(socket.recv(PATIENCE_S))
                    assert socket.response is not None
                    self.nodes.append(socket.response.headers[SERVED_BY])
                    if lost_at is not None:
                        self.gaps_s.append(time.monotonic() - lost_at)
                    self._take(lambda: socket.recv(_RECEIVE_S))
                except ConnectionClosed:
                    lost_at = time.monotonic()

    def _take(self, receive: Callable[[], str | bytes]) -> None:
        while not self.is_ended.is_set():
            try:
                self.heights.append(json.loads(receive())["blockHeight"])
            except TimeoutError:
                continue


class Crowd:
    """A reader and a follower at each address, before one balancer. Leaving the `with` block ends them."""

    def __init__(self, url: str, addresses: Sequence[str]) -> None:
        self.readers = [Reader(url, address) for address in addresses]
        self.followers = [Follower(url, address) for address in addresses]
        self._clients: Sequence[_Client] = [*self.readers, *self.followers]
        self._threads = [threading.Thread(target=client.run) for client in self._clients]

    def __enter__(self) -> "Crowd":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            client.is_ended.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    @property
    def failures(self) -> list[str]:
        return [failure for client in self._clients for failure in client.failures]

    def await_reads(self, each: int = 3) -> None:
        """Return once every reader has got so many more answers."""
        before = [len(reader.latencies_s) for reader in self.readers]
        wait_until(
            lambda: all(len(reader.latencies_s) >= count + each for reader, count in self._since(before)),
            PATIENCE_S,
            f"more answers; failures: {self.failures}",
        )

    def await_served_by(self, node: int) -> None:
        """Return once a reader has another answer from this node."""
        before = self.served()[str(node)]
        wait_until(
            lambda: self.served()[str(node)] > before or bool(self.failures), PATIENCE_S, f"an answer of node {node}"
        )
        assert not self.failures, self.failures

    def await_height(self, height: int) -> None:
        """Return once every follower has heard of that block."""
        wait_until(
            lambda: all(follower.heights[-1:] >= [height] or follower.failures for follower in self.followers),
            PATIENCE_S,
            f"block {height} to be told",
        )

    def served(self) -> Counter[str]:
        return sum((reader.served for reader in self.readers), Counter())

    def _since(self, before: Sequence[int]) -> list[tuple[Reader, int]]:
        return [(reader, count) for reader, count in zip(self.readers, before, strict=True) if not reader.failures]
