"""The ways through a node, traced: which functions of the source a real request enters, in their order.

A whole node runs here: the core process and a worker in one event loop, over real unix sockets, on a real disk. Time is
virtual, so no timer falls into a way that does not wait for it, and every run takes the same way.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from socket import AF_UNIX, socket
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, NamedTuple

import msgspec
import structlog
from websockets.asyncio.client import unix_connect

import cairn
from cairn.api.worker import Worker
from cairn.board import Board
from cairn.core.process import CoreProcess
from cairn.domain.genesis import Genesis, dev_genesis, encode_genesis
from cairn.domain.transactions import encode_tx
from cairn.engine.abci.proto import abci_pb2 as pb
from tests.support.abci_node import GENESIS, VALIDATOR
from tests.support.core_fixtures import ACCOUNTS, CHAIN_ID, KEYS, settings, signed
from tests.support.pace import PATIENCE_S
from tests.support.rest_node import body_of, hash_of
from tests.support.ticking_clock import TickingClock
from tests.support.virtual_time import run_virtual

SOURCE = Path(cairn.__file__).parent
RUNS = 6
"""Each way is taken so often, and the shortest counts: later ones make nothing for the first time, and a machine that
stops in the middle of one makes others wait for their turn."""
SOON_S = 0.001
QUIET_S = 0.01
MAX_READ_BYTES = 2**20
FIRST_TIME_S = 2_000_000_000
PROPOSER = VALIDATOR.engine_address

SUBMISSION = "POST /tx to its 200"
LOOKUP = "GET /tx/{hash} of a pending one"
BALANCE = "eth_getBalance"
EVENT = "pending to txConfirmed"
BLOCK = "a block from CometBFT"


class Stop(NamedTuple):
    file: str
    """Below the source, as `core/link.py`."""
    function: str


@dataclass
class Trace:
    stops: list[Stop] = field(default_factory=list)
    all_calls: int = 0
    """Of functions of libraries and of C too, and of the client here; each time that a coroutine goes on is one."""


class Way(NamedTuple):
    name: str
    stops: list[Stop]
    all_calls: int

    @property
    def files(self) -> list[str]:
        """In the order in which they are entered first."""
        return list(dict.fromkeys(stop.file for stop in self.stops))


@contextmanager
def traced(trace: Trace) -> Iterator[None]:
    """Note every function of the source that begins meanwhile, in this thread, and count all others."""

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        trace.all_calls += event in ("call", "c_call")
        # Going on after an `await` or a `yield` is told too, but is no call; nor is a list that a line makes.
        if event != "call" or code.co_code[frame.f_lasti + 1] or code.co_name in ("<listcomp>", "<dictcomp>"):
            return
        if code.co_filename.startswith(str(SOURCE)):
            trace.stops.append(Stop(str(Path(code.co_filename).relative_to(SOURCE)), code.co_qualname))

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


class Client:
    """One HTTP connection that stays open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, method: str, path: str, body: object = None) -> None:
        status, answer = await self.answer(method, path, body)
        assert status == 200, answer
        assert b'"error"' not in answer, answer

    async def answer(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        sent = b"" if body is None else msgspec.json.encode(body)
        declared = f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n" if sent else ""
        self._writer.write(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{declared}\r\n".encode() + sent)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return int(head.split()[1]), await self._reader.readexactly(length)


class CometBft:
    """CometBFT's end of an ABCI connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def call(self, **request: Any) -> pb.Response:
        self._write(pb.Request(**request))
        self._write(pb.Request(flush=pb.RequestFlush()))
        answer, _ = await self._read(), await self._read()
        assert answer.WhichOneof("value") in request, answer
        return answer

    # Not with the node's own framing: that would count as part of the way.

    def _write(self, request: pb.Request) -> None:
        message = request.SerializeToString()
        low, high = len(message) & 0x7F, len(message) >> 7
        self._writer.write((bytes((low | 0x80, high)) if high else bytes((low,))) + message)

    async def _read(self) -> pb.Response:
        length = shift = 0
        byte = 0x80
        while byte >= 0x80:
            byte = (await self._reader.readexactly(1))[0]
            length |= (byte & 0x7F) << shift
            shift += 7
        return pb.Response.FromString(await self._reader.readexactly(length))

    async def start_chain(self) -> None:
        await self.call(info=pb.RequestInfo())
        key = pb.ValidatorUpdate(pub_key=pb.PublicKey(ed25519=VALIDATOR.public_key), power=VALIDATOR.power)
        genesis = encode_genesis(GENESIS)
        await self.call(init_chain=pb.RequestInitChain(validators=[key], app_state_bytes=genesis, initial_height=1))

    async def decide(self, height: int, raw: bytes) -> None:
        """Propose a block of one transaction, agree on it and commit it."""
        block: dict[str, Any] = {"txs": [raw], "height": height, "proposer_address": PROPOSER}
        block["time"] = {"seconds": FIRST_TIME_S + height}
        await self.call(prepare_proposal=pb.RequestPrepareProposal(max_tx_bytes=MAX_READ_BYTES, **block))
        judged = await self.call(process_proposal=pb.RequestProcessProposal(**block))
        assert judged.process_proposal.status == pb.ResponseProcessProposal.ACCEPT
        await self.call(finalize_block=pb.RequestFinalizeBlock(**block))
        await self.call(commit=pb.RequestCommit())


class TracedNode:
    def __init__(self, directory: Path) -> None:
        self.public = directory / "public.sock"
        self.abci = directory / "abci.sock"
        self._writers: list[asyncio.StreamWriter] = []

    async def client(self) -> Client:
        return Client(*await self._connect(self.public))

    async def cometbft(self) -> CometBft:
        cometbft = CometBft(*await self._connect(self.abci))
        await cometbft.start_chain()
        return cometbft

    async def _connect(self, path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_unix_connection(str(path))
        self._writers.append(writer)
        return reader, writer

    async def disconnect(self) -> None:
        for writer in self._writers:
            writer.close()
            await writer.wait_closed()

    async def ready(self) -> None:
        client = await self.client()
        async with asyncio.timeout(PATIENCE_S):
            while (await client.answer("GET", "/startup"))[0] != 200:
                await asyncio.sleep(QUIET_S)

    async def trace(self, take: Callable[[], Awaitable[object]], is_quiet: bool = True) -> Trace:
        """What it enters until `take` returns; unless told that it has begun, once all else has come to rest."""
        if is_quiet:
            await asyncio.sleep(QUIET_S)
        trace = Trace()
        with traced(trace):
            await take()
        return trace


@asynccontextmanager
async def traced_node(genesis: Genesis, **changes: object) -> AsyncIterator[TracedNode]:
    """A node that serves, until the end of the block."""
    with TemporaryDirectory(prefix="cairn-ways-") as name, socket(AF_UNIX) as listener:
        directory, chosen = Path(name), settings(**changes)
        node = TracedNode(directory)
        listener.bind(str(node.public))
        listener.listen()
        scratch, core_socket = directory / "scratch", directory / "core.sock"
        scratch.mkdir()
        (worker_lifeline, worker_keep), (core_lifeline, core_keep) = os.pipe(), os.pipe()
        board = Board()
        serving = Worker(chosen, scratch, CHAIN_ID, board=board)
        # A step that takes long on a busy machine would be followed by a round of its own.
        serving._hub.shares.clock = TickingClock()
        worker = serving.run(listener, core_socket, worker_lifeline)
        process = CoreProcess(genesis, directory / "data", chosen, KEYS, node.abci, board=board)
        core = process.run(core_socket, core_lifeline)
        parts = [asyncio.create_task(worker), asyncio.create_task(core)]
        await node.ready()
        try:
            yield node
        finally:
            await node.disconnect()
            # The worker stops as if the supervisor had ended; the core, which took the signal last, once it has gone.
            os.close(worker_keep)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.gather(*parts)
            asyncio.get_running_loop().remove_reader(core_lifeline)
            for end in (worker_lifeline, core_lifeline, core_keep):
                os.close(end)


# The ways.


async def _ways_of_requests() -> list[Way]:
    """Those that no block has a part in."""
    async with traced_node(dev_genesis()) as node:
        client = await node.client()
        asked = {"jsonrpc": "2.0", "id": 1, "method": "eth_getBalance", "params": ["0x" + ACCOUNTS[0].hex(), "latest"]}
        submissions, lookups, balances = [], [], []
        for nonce in range(RUNS):
            tx = signed(nonce)
            submissions.append(await node.trace(partial(client.ask, "POST", "/tx", body_of(tx))))
            lookups.append(await node.trace(partial(client.ask, "GET", f"/tx/{hash_of(tx)}")))
            balances.append(await node.trace(partial(client.ask, "POST", "/rpc", asked)))
        return [_shortest(SUBMISSION, submissions), _shortest(LOOKUP, lookups), _shortest(BALANCE, balances)]


async def _way_of_event() -> Way:
    async with traced_node(dev_genesis(), block_time_s=SOON_S) as node:
        client = await node.client()
        traces = []
        for nonce in range(RUNS):
            tx = signed(nonce)
            uri = f"ws://localhost/events?txConfirmed={hash_of(tx)}"
            async with unix_connect(str(node.public), uri, ping_interval=None) as events:
                await events.recv()
                await client.ask("POST", "/tx", body_of(tx))
                traces.append(await node.trace(events.recv, is_quiet=False))
        return _shortest(EVENT, traces)


async def _way_of_block() -> Way:
    async with traced_node(GENESIS, engine="cometbft", cometbft_rpc=f"unix://{os.devnull}") as node:
        client, cometbft = await node.client(), await node.cometbft()
        traces = []
        for nonce in range(RUNS):
            tx = signed(nonce)
            await client.ask("POST", "/tx", body_of(tx))
            raw = encode_tx(tx, CHAIN_ID)
            await cometbft.call(check_tx=pb.RequestCheckTx(tx=raw))
            traces.append(await node.trace(partial(cometbft.decide, nonce + 1, raw)))
        return _shortest(BLOCK, traces)


def _shortest(name: str, traces: list[Trace]) -> Way:
    trace = min(traces, key=lambda each: each.all_calls)
    return Way(name, trace.stops, trace.all_calls)


def trace_all() -> list[Way]:
    # As a node is started. To print what is below that would count as work.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    try:
        return [*run_virtual(_ways_of_requests()), run_virtual(_way_of_event()), run_virtual(_way_of_block())]
    finally:
        structlog.reset_defaults()
