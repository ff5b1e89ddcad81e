"""The core's end of the link: passes submissions on, and answers calls in the order of arrival."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import count

import msgspec
import structlog

from cairn.core import link_frames as wire
from cairn.core.admission import Admissions
from cairn.core.calls import Method
from cairn.core.gateway import Admission, ChainInfo, CoreCalls
from cairn.domain.errors import NodeError, Unavailable
from cairn.domain.transactions import decode_record, encode_record, split_records
from cairn.domain.types import DropReason, Phase, SealedBlock, Tx, TxHash
from cairn.time_shares import TimeShares

SETTLE_TIMEOUT_S = 5.0
LONG_ANSWER_BYTES = 16 * 1024

log = structlog.get_logger("cairn.link")


class LinkedCore(CoreCalls, ABC):
    """The core as the link sees it, in whatever phase it is."""

    admissions: Admissions | None = None
    """Accepts submissions; None while none are accepted."""

    @abstractmethod
    def why_not(self) -> Unavailable:
        """Why submissions are not accepted."""

    @abstractmethod
    def watch_arrivals(self, on: bool) -> None: ...

    @abstractmethod
    def answered_with(self, error: NodeError) -> None:
        """Called for every failed call, so that a bug is not hidden in an answer."""

    @abstractmethod
    def greeting(self) -> tuple[Phase, str, ChainInfo | None, int]:
        """The phase and its reason; once the store is open, the chain's rules and head as well."""


class LinkServer:
    """The connections of all workers; notices go to all of them."""

    def __init__(self, core: LinkedCore) -> None:
        self._core = core
        self._connections: set[_WorkerConnection] = set()
        self.names = count()
        self.shares = TimeShares()
        """Shares of the core's time, one per worker."""
        self._watching: set[_WorkerConnection] = set()
        """Those that are told of arrivals."""
        self.idle = asyncio.Event()
        """Set while no worker is connected."""
        self.idle.set()

    async def listen(self, path: str) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        return await loop.create_unix_server(lambda: _WorkerConnection(self, self._core), path)

    def joined(self, connection: "_WorkerConnection") -> None:
        self._connections.add(connection)
        self.idle.clear()
        phase, reason, info, head = self._core.greeting()
        if info is not None:
            connection.write(wire.frame_of(0, wire.INFO, info))
        # During a revert the head is still that of the old chain, which a worker must not get any more.
        if info is not None and info.store_path:
            connection.write(wire.commit_frame(head))
        connection.write(wire.frame_of(0, wire.PHASE, wire.PhaseNotice(phase, reason)))

    def left(self, connection: "_WorkerConnection") -> None:
        self._connections.discard(connection)
        self.watch_arrivals(connection, on=False)
        if not self._connections:
            self.idle.set()

    def on_info(self, info: ChainInfo) -> None:
        self._broadcast(wire.frame_of(0, wire.INFO, info))

    def on_phase(self, phase: Phase, reason: str) -> None:
        self._broadcast(wire.frame_of(0, wire.PHASE, wire.PhaseNotice(phase, reason)))

    def on_commit(self, height: int, block: SealedBlock | None = None) -> None:
        self._broadcast(wire.commit_frame(height, block))

    def on_dropped(self, tx_hash: TxHash, reason: DropReason) -> None:
        self._broadcast(wire.frame_of(0, wire.DROPPED, wire.DropNotice(tx_hash, reason)))

    def watch_arrivals(self, connection: "_WorkerConnection", on: bool) -> None:
        """The core is asked for them while at least one worker wants them."""
        before = bool(self._watching)
        (self._watching.add if on else self._watching.discard)(connection)
        if before != bool(self._watching):
            self._core.watch_arrivals(bool(self._watching))

    def on_arrived(self, txs: Sequence[Tx]) -> None:
        frame = wire.frame(0, wire.ARRIVED, b"".join(map(encode_record, txs)))
        for connection in self._watching:
            connection.write(frame)

    async def settle(self) -> None:
        """Wait until every worker has processed all notices so far. One that does not is disconnected."""
        settling = {connection.settle(): connection for connection in self._connections}
        if settling:
            _, late = await asyncio.wait(settling, timeout=SETTLE_TIMEOUT_S)
            for answer in late:
                log.warning("a worker does not take in what it is told")
                settling[answer].abort()

    def _broadcast(self, frame: bytes) -> None:
        for connection in self._connections:
            connection.write(frame)


class _WorkerConnection(wire.LinkProtocol):
    def __init__(self, server: LinkServer, core: LinkedCore) -> None:
        super().__init__(gathers=wire.ADMITTED)
        self._server = server
        self._core = core
        self._name = str(next(server.names))
        self._submissions = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._settling: deque[asyncio.Future[None]] = deque()
        self._writable = asyncio.Event()
        """Set while the worker reads what it is sent."""
        self._writable.set()
        self._next_question = asyncio.Lock()
        """So that questions go on one by one, in their order, once the worker reads again."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.left(self)
        while self._settling:
            self._settling.popleft().set_result(None)
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def abort(self) -> None:
        self._transport.abort()

    def settle(self) -> "asyncio.Future[None]":
        """Done once the worker has processed everything that was sent so far, or has disconnected."""
        settled: asyncio.Future[None] = self._loop.create_future()
        self._settling.append(settled)
        self.write(wire.frame(0, wire.SETTLE))
        return settled

    def take_frame(self, request_id: int, kind: int, payload: bytes) -> None:
        if kind == wire.SUBMIT:
            self._submit(payload)
        elif kind == wire.WATCH:
            self._server.watch_arrivals(self, on=payload == b"\1")
        elif kind == wire.SETTLED:
            self._settling.popleft().set_result(None)
        else:
            # In turns with the other workers' calls, and so that submissions are admitted in between.
            answering = self._answer(request_id, *wire.decode_call(payload))
            task = self._loop.create_task(self._server.shares.run(self._name, answering))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _submit(self, records: bytes) -> None:
        admissions = self._core.admissions
        for record in split_records(records):
            self._submissions += 1
            if admissions is None:
                self._admitted(self._submissions, self._core.why_not())
            else:
                admissions.enqueue(decode_record(record), record, partial(self._admitted, self._submissions))

    def _admitted(self, request_id: int, result: Admission | NodeError) -> None:
        if isinstance(result, NodeError):
            self.write(wire.error_frame(request_id, wire.REFUSED, result))
        elif result.confirmed:
            self.write(wire.frame(request_id, wire.CONFIRMED))
        elif result.known:
            missing = result.waits_for_nonce
            self.write(wire.frame(request_id, wire.KNOWN, b"" if missing is None else wire.ID.pack(missing)))
        elif result.waits_for_nonce is not None:
            self.write(wire.frame(request_id, wire.QUEUED, wire.ID.pack(result.waits_for_nonce)))
        else:
            self._gathered.append(wire.ID.pack(request_id))
            self._flush_soon()

    async def _answer(self, request_id: int, method: Method[object], request: msgspec.Struct) -> None:
        if method.is_question:
            # Answers that the worker has not read yet are before those to submissions: a hundred pages of the mempool
            # are megabytes.
            async with self._next_question:
                await self._writable.wait()
        try:
            result = await method.ask(self._core, request)
        except NodeError as error:
            self._core.answered_with(error)
            self.write(wire.error_frame(request_id, wire.ERROR, error))
        else:
            frame = wire.frame_of(request_id, wire.RESULT, result)
            self.write(frame)
            if len(frame) > LONG_ANSWER_BYTES:
                # Not at the end of the turn: the next question may have to wait.
                self._flush()
