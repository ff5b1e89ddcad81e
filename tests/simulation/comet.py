"""CometBFT, scripted: the calls that it makes to one node's application, in the order that it keeps to.

It starts when the application listens: handshake, replay of what the application lacks, then consensus. Its blocks and
state outlive its process; its mempool does not. After every commit it checks again what its mempool still holds.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cairn.domain.genesis import genesis_digest
from cairn.domain.rules import RULES_VERSION
from cairn.engine.abci import requests as m
from cairn.engine.network.commits import EngineCommit
from cairn.engine.network.rpc import CometBftRefusal, NodeStatus, RpcAway
from tests.simulation.disk import Crash
from tests.simulation.node import Node, Violation

CACHED = 1_000
VOTED_BLOCKS = 100
START_DELAY_S = 0.05


class Down(Exception):
    """The application is gone, or has failed: CometBFT ends with it."""


@dataclass
class Decided:
    """A block that the validators agreed on."""

    height: int
    raws: tuple[bytes, ...]
    time_ns: int
    proposer: bytes
    misbehavior: tuple[m.Misbehavior, ...] = ()
    absent: tuple[bytes, ...] = ()
    """Who did not vote on the block before, by address in CometBFT."""
    app_hash: bytes | None = None
    results: tuple[tuple[int, int, int], ...] | None = None
    """As the first node answered; every other one must answer the same."""

    def request(self, kind: Callable[..., Any]) -> Any:
        # The first block has no block before it that somebody voted on.
        more = {"absent": self.absent if self.height > 1 else None} if kind is m.FinalizeBlockRequest else {}
        return kind(
            txs=self.raws,
            height=self.height,
            time_ns=self.time_ns,
            proposer_address=self.proposer,
            misbehavior=self.misbehavior,
            **more,
        )


class AbciServer:
    """What the engine finds as its server: a way to its application without a socket."""

    listening: dict[Path, "Comet"] = {}

    def __init__(self, handler: Any, on_connected: Callable[[], None]) -> None:
        self._handler = handler
        self.on_connected = on_connected
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._comet: Comet | None = None
        self._unfinished: dict[asyncio.Future[Any], None] = {}
        self.is_closed = False

    async def listen(self, path: Path) -> None:
        self._comet = AbciServer.listening[path]
        self._comet.application_listens(self)

    async def close(self) -> None:
        self.is_closed = True
        self.abandon()
        if self._comet is not None:
            self._comet.application_left(self)

    async def call(self, name: str, *request: object) -> Any:
        """Call the application. Raises `Down` when it fails, as the connection's end tells CometBFT."""
        if self.is_closed or self.failed.done():
            raise Down
        try:
            answer = getattr(self._handler, name)(*request)
            if isinstance(answer, Awaitable):
                answer = await self._finish(answer)
        except Crash:
            raise Down from None
        except asyncio.CancelledError:
            raise Down from None
        except Exception as failure:
            if not self.failed.done():
                self.failed.set_result(failure)
            raise Down from failure
        return answer

    async def _finish(self, answer: Awaitable[Any]) -> Any:
        unfinished = asyncio.ensure_future(answer)
        self._unfinished[unfinished] = None
        try:
            return await unfinished
        finally:
            del self._unfinished[unfinished]

    def abandon(self) -> None:
        """The connections end: nobody waits any more for what is unfinished."""
        for answer in list(self._unfinished):
            answer.cancel()


class Rpc:
    """What the engine finds as CometBFT's RPC."""

    def __init__(self, address: str, timeout_s: float) -> None:
        self._comet = AbciServer.listening[Path(address)]

    async def status(self) -> NodeStatus:
        return await self._comet.rpc_status()

    async def peer_heights(self) -> list[int]:
        return self._comet.peer_heights()

    async def peer_names(self) -> dict[str, str]:
        return self._comet.peer_names()

    async def votes(self) -> list[list[str]]:
        return []

    async def broadcast(self, raw: bytes) -> CometBftRefusal | None:
        return await self._comet.rpc_broadcast(raw)

    async def commit(self, height: int | None = None) -> EngineCommit | None:
        return self._comet.rpc_commit(height)

    def close(self) -> None:
        pass


class Comet:
    """One node's CometBFT, through all its lives."""

    def __init__(
        self,
        node: Node,
        blocks: list[Decided],
        mempool_size: int,
        power_of: Callable[[Node, int], int],
        check_results: Callable[[Node, Decided, Any], None],
        commit_of: Callable[[int, bool], EngineCommit],
        violations: list[Violation],
    ) -> None:
        """`power_of` tells a node's part in deciding a height, 0 for none. `check_results` is shown what each block
        came to. `commit_of` gives the votes for a height, those in the next block or those that were seen. `violations`
        is where those of background work go."""
        self.node = node
        self._blocks = blocks
        """All that was ever decided; the first one, of height 0, is genesis."""
        self._mempool_size = mempool_size
        self._power_of = power_of
        self._check_results = check_results
        self._commit_of = commit_of
        self._violations = violations
        self.application: AbciServer | None = None
        self.is_running = False
        self.is_online = True
        """Whether its peers reach it."""
        self.state_syncs = False
        """It starts without blocks, and takes a snapshot from a peer before anything else."""
        self.height = 0
        """Of the newest block whose outcome it has."""
        self._stored = 0
        """Of the newest block that it has; its outcome may be yet to come."""
        self.base = 1
        """The oldest block that it keeps."""
        self.voted_from = 2
        """The first block that its application got with the votes on the one before."""
        self.mempool: dict[bytes, None] = {}
        self._cache: OrderedDict[bytes, None] = OrderedDict()
        self._lock = asyncio.Lock()
        self.tasks: set[asyncio.Task[None]] = set()
        self.starts_by_itself = True
        node.disk.on_death = self._disconnect

    @property
    def is_in_consensus(self) -> bool:
        return self.is_running and self.is_online and not self.state_syncs

    # Its process.

    def application_listens(self, application: AbciServer) -> None:
        self.application = application
        if self.starts_by_itself:
            asyncio.get_running_loop().call_later(START_DELAY_S, self._start_soon, application)

    def _start_soon(self, application: AbciServer) -> None:
        if self.application is application and not self.is_running:
            self.background(self.start())

    def application_left(self, application: AbciServer) -> None:
        if self.application is application:
            self.application = None
            self.end()

    def end(self) -> None:
        """Its process ends; its blocks and its state stay."""
        self._disconnect()
        self.is_running = False
        self.mempool.clear()
        self._cache.clear()
        self._lock = asyncio.Lock()

    def _disconnect(self) -> None:
        if self.application is not None:
            self.application.abandon()

    def wipe(self) -> None:
        self.end()
        self.height, self.base = 0, 1
        self._stored = 0
        self.voted_from = 2

    def background(self, work: Any) -> None:
        async def guarded() -> None:
            try:
                await work
            except Down:
                self.end()
            except Violation as violation:
                self._violations.append(violation)

        task = asyncio.get_running_loop().create_task(guarded())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def call(self, name: str, *request: object) -> Any:
        application = self.application
        if application is None or self._has_lost(application):
            raise Down
        answer = await application.call(name, *request)
        if self._has_lost(application):
            raise Down
        return answer

    def _has_lost(self, application: AbciServer) -> bool:
        return self.node.disk.is_dead or self.application is not application

    async def start(self) -> None:
        """The handshake, and the replay of what the application has not committed."""
        application = self.application
        if application is None:
            return
        application.on_connected()
        if self.state_syncs and self.height == 0:
            # State sync comes before any handshake; whoever runs it calls `synced`.
            self.is_running = True
            return
        info: m.InfoResponse = await self.call("info")
        height = info.last_block_height
        if height > self.height + 1 or height > len(self._blocks) - 1:
            raise Violation("ahead", f"{self.node.name} is at block {height}, CometBFT at {self.height}")
        if height + 1 < self.base:
            raise Violation(
                "behind", f"{self.node.name} lost block {height + 1}, which CometBFT was told it may forget"
            )
        if height == 0:
            await self._init_chain()
        elif info.last_block_app_hash != self._blocks[height].app_hash:
            raise Violation("app hash", f"{self.node.name} starts at block {height} with another app hash")
        last = max(height, self.height)
        self.height = height
        for missing in range(height + 1, last + 1):
            await self.apply(self._blocks[missing])
        self.is_running = True

    async def _init_chain(self) -> None:
        genesis = self.node.genesis
        validators = tuple(m.ValidatorPower(v.public_key, v.power) for v in genesis.validators)
        digest = f'"0x{genesis_digest(genesis).hex()}"'.encode()
        request = m.InitChainRequest(validators, digest, 1, RULES_VERSION)
        app_hash: bytes = await self.call("init_chain", request)
        genesis_block = self._blocks[0]
        if genesis_block.app_hash is None:
            genesis_block.app_hash = app_hash
        if app_hash != genesis_block.app_hash:
            raise Violation("app hash", f"{self.node.name} starts the chain with another genesis block")

    # Blocks.

    async def apply(self, block: Decided) -> None:
        """A block that was decided: the application makes it, then the mempool is looked through again."""
        self._stored = block.height
        response: m.FinalizeBlockResponse = await self.call("finalize_block", block.request(m.FinalizeBlockRequest))
        results = tuple((each.code, each.gas_wanted, each.gas_used) for each in response.tx_results)
        if block.results is None:
            block.results, block.app_hash = results, response.app_hash
        if results != block.results or response.app_hash != block.app_hash:
            raise Violation("agreement", f"{self.node.name} makes block {block.height} another one than its peers")
        self._check_results(self.node, block, response)
        async with self._lock:
            keep_from: int = await self.call("commit")
            self.height = block.height
            self._check_missed_votes()
            self.base = max(self.base, min(keep_from, self.height))
            for raw, (code, _, _) in zip(block.raws, results, strict=True):
                self.mempool.pop(raw, None)
                # What the block refused may be sent again, by anybody.
                if code:
                    self._cache.pop(raw, None)
                else:
                    self._remember(raw)
            for raw in list(self.mempool):
                checked: m.TxResult = await self.call("check_tx", m.CheckTxRequest(raw, True))
                if checked.code:
                    self.mempool.pop(raw, None)
                    self._cache.pop(raw, None)

    def _check_missed_votes(self) -> None:
        """Missing votes are counted in the latest 100 blocks, also across crashes and restarts."""
        core = self.node.core
        if core is None or core.failed.done() or core._chain.visible != self.height:
            return
        counted = self._blocks[max(self.voted_from, self.height - VOTED_BLOCKS + 1) : self.height + 1]
        votes = core._chain.missed_votes
        missed = Counter(address for block in counted for address in block.absent)
        if (votes.blocks, votes.by_validator()) != (len(counted), missed):
            raise Violation("missed votes", f"{self.node.name} counts other missing votes at block {self.height}")

    def synced(self, height: int) -> None:
        """A snapshot of this height was taken in."""
        self.height, self.base = height, height + 1
        self._stored = height
        self.voted_from = height + 1
        self.state_syncs = False

    def reap(self) -> list[bytes]:
        return list(self.mempool)

    # The mempool.

    async def check(self, raw: bytes) -> bool:
        """Something new from a peer or from RPC. Returns whether it is in the mempool now."""
        if raw in self._cache or len(self.mempool) >= self._mempool_size:
            return raw in self.mempool
        self._remember(raw)
        async with self._lock:
            result: m.TxResult = await self.call("check_tx", m.CheckTxRequest(raw, False))
        # Others may have taken the last place meanwhile; the application is not told.
        if result.code or (len(self.mempool) >= self._mempool_size and raw not in self.mempool):
            self._cache.pop(raw, None)
            return False
        self.mempool[raw] = None
        return True

    def _remember(self, raw: bytes) -> None:
        self._cache[raw] = None
        if len(self._cache) > CACHED:
            self._cache.popitem(last=False)

    # RPC.

    async def rpc_status(self) -> NodeStatus:
        if not self.is_running:
            raise RpcAway("simulated")
        behind = self.is_online and self.height < len(self._blocks) - 2
        return NodeStatus(behind, self._power_of(self.node, self.height + 1) > 0, "", b"")

    def peer_heights(self) -> list[int]:
        if not self.is_running:
            raise RpcAway("simulated")
        return [len(self._blocks) - 1] if self.is_online else []

    def peer_names(self) -> dict[str, str]:
        if not self.is_running:
            raise RpcAway("simulated")
        return {"ab": "network"} if self.is_online else {}

    async def rpc_broadcast(self, raw: bytes) -> CometBftRefusal | None:
        if not self.is_running:
            raise RpcAway("simulated")
        if raw in self._cache:
            return CometBftRefusal(-32603, "Internal error", "tx already exists in cache")
        if len(self.mempool) >= self._mempool_size:
            return CometBftRefusal(-32603, "Internal error", "mempool is full: number of txs")
        self.background(self._check_broadcast(raw))
        return None

    def rpc_commit(self, height: int | None) -> EngineCommit | None:
        if not self.is_running:
            raise RpcAway("simulated")
        wanted = self._stored if height is None else height
        # A snapshot brings the state after its block, but not the block.
        if not self.base <= wanted <= self._stored:
            return None
        return self._commit_of(wanted, wanted < self._stored)

    async def _check_broadcast(self, raw: bytes) -> None:
        await self.check(raw)


def snapshot_requests(snapshot: m.Snapshot) -> Sequence[m.LoadSnapshotChunkRequest]:
    return [m.LoadSnapshotChunkRequest(snapshot.height, snapshot.format, index) for index in range(snapshot.chunks)]
