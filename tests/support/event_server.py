"""The event channel on a real socket, over a chain in memory whose blocks a test appends."""

import asyncio
import hashlib
import socket
import tempfile
from asyncio import Future
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

import msgspec
from starlette.routing import Router, WebSocketRoute

from cairn.api.chain_view import ChainView
from cairn.api.events.hub import EventHub
from cairn.api.events.socket import EventsEndpoint
from cairn.api.hot_routes import HotRoutes
from cairn.api.next_nonces import NextNonces
from cairn.api.rest.submissions import Submitter
from cairn.api.rpc.dispatch import Dispatcher
from cairn.api.server import websocket_deadlines
from cairn.api.server.access import HostList, OriginList, RateLimiter
from cairn.api.server.http_server import Server
from cairn.api.server.server_state import ServerState
from cairn.api.server.websocket_protocol import EventsProtocol
from cairn.config import Settings
from cairn.core.calls import Method
from cairn.core.gateway import Admission, CoreGateway, TxStatus
from cairn.domain.errors import Fatal, StoreUnavailable
from cairn.domain.transactions import encode_record
from cairn.domain.types import Address, BlockHash, Tx, TxHash
from cairn.store.history import Search, Step
from cairn.store.keys import Location
from cairn.time_shares import TimeShares
from tests.support.ticking_clock import TickingClock

_A = TypeVar("_A")
NOBODY = Address(bytes(20))


def tx_hash_of(number: int) -> TxHash:
    return TxHash(hashlib.sha256(b"tx %d" % number).digest())


def block_hash_of(height: int) -> BlockHash:
    return BlockHash(hashlib.sha256(b"block %d" % height).digest())


def hex_of(data: bytes) -> str:
    return "0x" + data.hex()


class MemoryChain:
    """A `BlockSource`. Block hashes follow from heights, so that a test can tell which one to expect."""

    def __init__(self, blocks: int = 1) -> None:
        self._blocks: list[list[Tx]] = [[] for _ in range(blocks)]
        self._locations: dict[TxHash, tuple[int, int]] = {}
        self.broken: StoreUnavailable | Fatal | None = None
        self.failures: list[Fatal] = []
        self.base = 0
        self.reads = 0
        """Of blocks with their transactions, and of histories."""

    @property
    def height(self) -> int:
        return len(self._blocks) - 1

    def append(self, txs: Sequence[TxHash | Tx] = ()) -> int:
        """A hash alone is that of a transfer between nobody and nobody."""
        self._blocks.append([])
        return self.replace(self.height, txs)

    def replace(self, height: int, txs: Sequence[TxHash | Tx]) -> int:
        block = [tx if isinstance(tx, Tx) else Tx(tx, NOBODY, NOBODY, 0, 0, 0, 0, bytes(65)) for tx in txs]
        self._blocks[height] = block
        self._locations.update((tx.hash, (height, position)) for position, tx in enumerate(block))
        return height

    def block(self, height: int) -> list[Tx]:
        return self._blocks[height]

    def cut(self, height: int) -> None:
        """Revert to this block."""
        del self._blocks[height + 1 :]

    def block_hash(self, height: int) -> BlockHash:
        if self.broken is not None:
            raise self.broken
        assert 0 <= height <= self.height
        return block_hash_of(height)

    def tx_hashes(self, height: int) -> bytes:
        return b"".join(tx.hash for tx in self._blocks[height])

    def tx_records(self, height: int) -> Iterator[bytes]:
        if self.broken is not None:
            raise self.broken
        assert self.base <= height
        self.reads += 1
        return map(encode_record, self._blocks[height])

    def tx_at(self, height: int, position: int) -> Tx:
        assert self.base <= height
        return self._blocks[height][position]

    def search_history(self, search: Search, after: Location | None) -> Iterator[Step]:
        """The newest first."""
        if self.broken is not None:
            raise self.broken
        self.reads += 1
        for height in range(min(self.height, search.last), max(self.base, search.first) - 1, -1):
            for position in range(len(self._blocks[height]) - 1, -1, -1):
                tx = self._blocks[height][position]
                if search.address in (tx.sender, tx.to):
                    yield Step((height, position), True)

    def find_location(self, tx_hash: TxHash) -> tuple[int, int] | None:
        if self.broken is not None:
            raise self.broken
        return self._locations.get(tx_hash)

    def fail(self, failure: Fatal) -> None:
        self.failures.append(failure)


class KnownStatuses(CoreGateway):
    """A core that only knows how transactions stand; it may be away, and counts what it is asked."""

    def __init__(self) -> None:
        self.statuses: dict[TxHash, TxStatus] = {}
        self.asked: list[TxHash] = []
        self.is_away = False

    async def find_tx(self, tx_hash: TxHash) -> TxStatus | None:
        self.asked.append(tx_hash)
        await asyncio.sleep(0)
        if self.is_away:
            raise StoreUnavailable("the core is away")
        return self.statuses.get(tx_hash)

    def submit(self, tx: Tx) -> "Future[Admission]":
        raise StoreUnavailable("not here")

    def watch_arrivals(self, on: bool) -> None:
        raise StoreUnavailable("not here")

    async def perform(self, method: Method[_A], request: msgspec.Struct) -> _A:
        raise StoreUnavailable("not here")


class EventServer:
    def __init__(self, chain: MemoryChain, settings: Settings, path: Path | None = None) -> None:
        """Listens on a port, or on a unix socket at `path`."""
        self.chain = chain
        self.core = KnownStatuses()
        # How much is written at once must not depend on how fast the machine is.
        self.hub = EventHub(chain, settings, TimeShares(TickingClock()))
        if path is None:
            self.listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        else:
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(str(path))
            self.listener.listen(4096)
        view = ChainView(Path("unused"), chain_id=1337)
        hosts, origins = HostList(settings), OriginList(settings)
        router = Router([WebSocketRoute("/events", EventsEndpoint(self.core, self.hub, origins, settings))])
        limiter = RateLimiter(settings, lambda: 0.0)
        intake, calls = Submitter(self.core, view), Dispatcher({}, view.fail)
        nonces = NextNonces(self.core, view)
        hot = HotRoutes(view, nonces, intake, calls, hosts, origins, limiter, self.hub.shares, settings)
        state = ServerState(view, router, hot, limiter, self.hub.shares, settings)
        self.server = Server(state, asyncio.get_running_loop().time)

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self.listener.getsockname()[1]}" if self.listener.family == socket.AF_INET else "127.0.0.1"

    def url(self, query: str = "") -> str:
        return f"ws://{self.authority}/events{query}"

    def dial(self, room_bytes: int | None = None) -> socket.socket:
        """A connection, with so much room for what the client has not read."""
        raw = socket.socket(self.listener.family)
        if room_bytes is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room_bytes)
        # The system takes it without the server, so this does not block.
        raw.connect(self.listener.getsockname())
        raw.setblocking(False)
        return raw

    @property
    def connections(self) -> list[EventsProtocol]:
        """The sockets that the server still holds."""
        return [held for held in self.server.connections if isinstance(held, EventsProtocol)]

    def commit(self, txs: Sequence[TxHash | Tx] = ()) -> int:
        height = self.chain.append(txs)
        self.hub.on_commit(height)
        return height


@asynccontextmanager
async def _serving(served: EventServer) -> AsyncIterator[EventServer]:
    # The socket listens already: whoever connects before the server runs waits in its backlog.
    serving = asyncio.create_task(served.server.serve(served.listener))
    try:
        yield served
    finally:
        served.server.stop()
        await serving


@asynccontextmanager
async def event_server(
    chain: MemoryChain | None = None, settings: Settings | None = None
) -> AsyncIterator[EventServer]:
    """A server in the event loop of the test, as a worker runs it: over TCP, and on uvloop if the test is marked so."""
    async with _serving(EventServer(chain or MemoryChain(), settings or Settings())) as served:
        yield served


@asynccontextmanager
async def virtual_event_server(
    chain: MemoryChain | None = None,
    settings: Settings | None = None,
    pong_timeout_s: float = websocket_deadlines.PONG_TIMEOUT_S,
) -> AsyncIterator[EventServer]:
    """A server in virtual time, for what clients have only so long to do.

    Over unix sockets: what is written to one can be read at once, where TCP has timers of its own.
    """
    with (
        tempfile.TemporaryDirectory(prefix="cairn-test-") as directory,
        patch.object(websocket_deadlines, "PONG_TIMEOUT_S", pong_timeout_s),
    ):
        path = Path(directory, "events.sock")
        async with _serving(EventServer(chain or MemoryChain(), settings or Settings(), path)) as served:
            yield served
