"""The ways through a node: what it does for a request, an event or a block, once with each way of counting.

A whole node runs here: the core process and a worker in one event loop, over real unix sockets, on a real disk. Time is
virtual, so no timer falls into a way that does not wait for it, and every run takes the same way.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from socket import AF_UNIX, socket
from tempfile import TemporaryDirectory
from types import FrameType, SimpleNamespace
from typing import Any, Generic, NamedTuple, TypeVar
from unittest.mock import patch

import msgspec
import structlog
from websockets.asyncio.client import unix_connect

import cairn
from cairn.api.worker import Worker
from cairn.board import Board
from cairn.core.process import CoreProcess
from cairn.domain.genesis import Genesis, dev_genesis, encode_genesis
from cairn.domain.rules import RULES_VERSION
from cairn.domain.transactions import encode_tx
from cairn.engine.abci.proto import abci_pb2 as pb
from tests.support.abci_node import GENESIS, VALIDATOR
from tests.support.core_fixtures import ACCOUNTS, CHAIN_ID, KEYS, settings, signed
from tests.support.pace import PATIENCE_S
from tests.support.rest_node import body_of, hash_of
from tests.support.ticking_clock import TickingClock
from tests.support.virtual_time import run_virtual

SOURCE = Path(cairn.__file__).parent
RUNS = 4
"""Each way is taken so often, and the shortest counts: later ones make nothing for the first time, and a machine that
stops in the middle of one makes others wait for their turn."""
SOON_S = 0.001
QUIET_S = 0.05
"""Longer than the store of a worker stays behind."""
MAX_READ_BYTES = 2**20
FIRST_TIME_S = 2_000_000_000
PROPOSER = VALIDATOR.engine_address

SUBMISSION = "POST /tx to its 200"
RAW_SUBMISSION = "eth_sendRawTransaction"
LOOKUP = "GET /tx/{hash} of a pending one"
CONFIRMED = "GET /tx/{hash} of a confirmed one"
ACCOUNT = "GET /account/{address}"
READ_BLOCK = "GET /block/{hash}"
BALANCE = "eth_getBalance"
TRANSACTION = "eth_getTransactionByHash"
RECEIPT = "eth_getTransactionReceipt"
FULL_BLOCK = "eth_getBlockByHash, full"
EVENT = "pending to txConfirmed"
MINING = "a block of 50, made here"
BLOCK = "a block from CometBFT"
MINED_TXS = 50
Counted = TypeVar("Counted")
Counting = Callable[[], AbstractContextManager[Counted]]
"""Counts something of what is done within it; what it gives is complete at its end."""


class Stop(NamedTuple):
    file: str
    """Below the source, as `core/link.py`."""
    function: str


@dataclass
class Trace:
    stops: list[Stop] = field(default_factory=list)
    all_calls: int = 0
    """Of functions of libraries and of C too, and of the client here; each time that a coroutine goes on is one."""
    bytecodes: int = 0
    """Instructions of Python, in the same functions."""
    allocations: int = 0
    """Small blocks of memory that are taken, and kept at least until the next call or return."""


class Way(NamedTuple):
    name: str
    stops: list[Stop]
    all_calls: int
    bytecodes: int
    allocations: int

    @property
    def files(self) -> list[str]:
        """In the order in which they are entered first."""
        return list(dict.fromkeys(stop.file for stop in self.stops))


@contextmanager
def traced() -> Iterator[Trace]:
    """Note every function of the source that begins meanwhile, in this thread, and count all others."""
    trace = Trace()
    blocks = sys.getallocatedblocks()

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal blocks
        code = frame.f_code
        before, blocks = blocks, sys.getallocatedblocks()
        trace.allocations += max(0, blocks - before)
        trace.all_calls += event in ("call", "c_call")
        # Going on after an `await` or a `yield` is told too, but is no call; nor is a list that a line makes.
        if event != "call" or code.co_code[frame.f_lasti + 1] or code.co_name in ("<listcomp>", "<dictcomp>"):
            return
        if code.co_filename.startswith(str(SOURCE)):
            trace.stops.append(Stop(str(Path(code.co_filename).relative_to(SOURCE)), code.co_qualname))

    def count(frame: FrameType, event: str, _: object) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        trace.bytecodes += event == "opcode"
        return count

    sys.setprofile(note)
    sys.settrace(count)
    try:
        yield trace
    finally:
        sys.settrace(None)
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
        params = pb.ConsensusParams(version=pb.VersionParams(app=RULES_VERSION))
        await self.call(
            init_chain=pb.RequestInitChain(
                validators=[key], app_state_bytes=genesis, initial_height=1, consensus_params=params
            )
        )

    async def decide(self, height: int, raw: bytes) -> None:
        """Propose a block of one transaction, agree on it and commit it."""
        block: dict[str, Any] = {"txs": [raw], "height": height, "proposer_address": PROPOSER}
        block["time"] = {"seconds": FIRST_TIME_S + height}
        await self.call(prepare_proposal=pb.RequestPrepareProposal(max_tx_bytes=MAX_READ_BYTES, **block))
        judged = await self.call(process_proposal=pb.RequestProcessProposal(**block))
        assert judged.process_proposal.status == pb.ResponseProcessProposal.ACCEPT
        await self.call(finalize_block=pb.RequestFinalizeBlock(**block))
        await self.call(commit=pb.RequestCommit())


class CountedNode(Generic[Counted]):
    def __init__(self, directory: Path, counting: Counting[Counted]) -> None:
        self._counting = counting
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

    async def count(self, take: Callable[[], Awaitable[object]], is_quiet: bool = True) -> Counted:
        """What it does until `take` returns; unless told that it has begun, once all else has come to rest."""
        if is_quiet:
            await asyncio.sleep(QUIET_S)
        with self._counting() as counted:
            await take()
        return counted


@asynccontextmanager
async def counted_node(
    counting: Counting[Counted], genesis: Genesis, **changes: object
) -> AsyncIterator[CountedNode[Counted]]:
    """A node that serves, until the end of the block."""
    with TemporaryDirectory(prefix="cairn-ways-") as name, socket(AF_UNIX) as listener:
        directory, chosen = Path(name), settings(**changes)
        node = CountedNode(directory, counting)
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

Counts = dict[str, list[Counted]]


def call(method: str, *params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def _submissions_and_lookups(counting: Counting[Counted]) -> Counts[Counted]:
    """Those that no block has a part in."""
    async with counted_node(counting, dev_genesis()) as node:
        client = await node.client()
        counts: Counts[Counted] = {SUBMISSION: [], LOOKUP: [], RAW_SUBMISSION: []}
        for nonce in range(0, 2 * RUNS, 2):
            tx, raw = signed(nonce), encode_tx(signed(nonce + 1), CHAIN_ID)
            sending = call("eth_sendRawTransaction", "0x" + raw.hex())
            counts[SUBMISSION].append(await node.count(partial(client.ask, "POST", "/tx", body_of(tx))))
            counts[LOOKUP].append(await node.count(partial(client.ask, "GET", f"/tx/{hash_of(tx)}")))
            counts[RAW_SUBMISSION].append(await node.count(partial(client.ask, "POST", "/rpc", sending)))
        return counts


async def _reads_and_mining(counting: Counting[Counted]) -> Counts[Counted]:
    """Blocks made on request, and reads of what they hold."""
    async with counted_node(counting, dev_genesis()) as node:
        client = await node.client()
        counts: Counts[Counted] = {}
        for run in range(RUNS):
            txs = [signed(nonce) for nonce in range(run * MINED_TXS, (run + 1) * MINED_TXS)]
            for tx in txs:
                await client.ask("POST", "/tx", body_of(tx))
            mining = partial(client.ask, "POST", "/rpc", call("evm_mine"))
            counts.setdefault(MINING, []).append(await node.count(mining))
            block = msgspec.json.decode((await client.answer("GET", "/block/latest"))[1])["hash"]
            account = "0x" + ACCOUNTS[0].hex()
            gets = {CONFIRMED: f"/tx/{hash_of(txs[0])}", ACCOUNT: f"/account/{account}", READ_BLOCK: f"/block/{block}"}
            calls = {
                # Nobody has asked for it since the block.
                BALANCE: call("eth_getBalance", "0x" + ACCOUNTS[1].hex(), "latest"),
                TRANSACTION: call("eth_getTransactionByHash", hash_of(txs[1])),
                RECEIPT: call("eth_getTransactionReceipt", hash_of(txs[2])),
                FULL_BLOCK: call("eth_getBlockByHash", block, True),
            }
            for name, path in gets.items():
                counts.setdefault(name, []).append(await node.count(partial(client.ask, "GET", path)))
            for name, asked in calls.items():
                counts.setdefault(name, []).append(await node.count(partial(client.ask, "POST", "/rpc", asked)))
        return counts


async def _events(counting: Counting[Counted]) -> Counts[Counted]:
    async with counted_node(counting, dev_genesis(), block_time_s=SOON_S) as node:
        client = await node.client()
        counts = []
        for nonce in range(RUNS):
            tx = signed(nonce)
            uri = f"ws://localhost/events?txConfirmed={hash_of(tx)}"
            async with unix_connect(str(node.public), uri, ping_interval=None) as events:
                await events.recv()
                await client.ask("POST", "/tx", body_of(tx))
                counts.append(await node.count(events.recv, is_quiet=False))
        return {EVENT: counts}


async def _blocks(counting: Counting[Counted]) -> Counts[Counted]:
    async with counted_node(counting, GENESIS, engine="cometbft", cometbft_rpc=f"unix://{os.devnull}") as node:
        client, cometbft = await node.client(), await node.cometbft()
        counts = []
        for nonce in range(RUNS):
            tx = signed(nonce)
            await client.ask("POST", "/tx", body_of(tx))
            raw = encode_tx(tx, CHAIN_ID)
            await cometbft.call(check_tx=pb.RequestCheckTx(tx=raw))
            counts.append(await node.count(partial(cometbft.decide, nonce + 1, raw)))
        return {BLOCK: counts}


def count_all(counting: Counting[Counted]) -> Counts[Counted]:
    """What each run of each way counted."""
    # As a node is started. To print what is below that would count as work.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    try:
        counts: Counts[Counted] = {}
        # Counting takes time, and work that takes long is done in more slices.
        with patch("cairn.time_shares.time", SimpleNamespace(perf_counter=TickingClock())):
            for take in (_submissions_and_lookups, _reads_and_mining, _events, _blocks):
                counts |= run_virtual(take(counting))
        return counts
    finally:
        structlog.reset_defaults()


def trace_all() -> list[Way]:
    """The ways, each at its shortest."""
    shortest = {name: min(traces, key=lambda each: each.all_calls) for name, traces in count_all(traced).items()}
    return [
        Way(name, trace.stops, trace.all_calls, trace.bytecodes, trace.allocations) for name, trace in shortest.items()
    ]
