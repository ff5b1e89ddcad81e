"""The worker's end of the link: `CoreGateway` over a unix socket, pipelined, reconnecting."""

import asyncio
import math
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from cairn.core import link_frames as wire
from cairn.core.calls import Method
from cairn.core.gateway import Admission, ChainInfo, CoreGateway, CoreListener
from cairn.domain.errors import Starting, StoreUnavailable, Unavailable
from cairn.domain.transactions import decode_records, encode_record
from cairn.domain.types import Phase, Tx, TxHash
from cairn.running_clock import RunningClock

RETRY_S = 0.05
SILENCE_S = 10.0
"""If the core does not answer within this time, it or its disk hangs: the request fails and may be repeated."""
QUESTION_SILENCE_S = 5.0
"""The time limit of a read, which changes nothing and is quick."""
WATCH_S = 0.5
"""How often a connection looks for requests that were not answered."""

_A = TypeVar("_A")
log = structlog.get_logger("cairn.link")


class LinkClient(CoreGateway):
    """Passes a worker's calls to the core. While the core is not connected, every call raises `Unavailable`."""

    def __init__(self, path: Path, listener: CoreListener) -> None:
        self._path = path
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._connection: _CoreConnection | None = None
        self._met = False
        self._watches_arrivals = False

    async def run(self) -> None:
        """Keep a connection to the core until cancelled."""
        while True:
            try:
                _, connection = await self._loop.create_unix_connection(
                    lambda: _CoreConnection(self._listener), str(self._path)
                )
            except OSError:
                await asyncio.sleep(RETRY_S)
                continue
            self._connection, self._met = connection, True
            if self._watches_arrivals:
                connection.watch_arrivals(True)
            try:
                while not connection.lost.done():
                    await asyncio.wait([connection.lost], timeout=WATCH_S)
                    connection.give_up()
            finally:
                self._connection = None
                connection.close()
            self._listener.on_phase("unavailable", "the core process is gone")

    def submit(self, tx: Tx) -> asyncio.Future[Admission]:
        connection = self._connection
        # A connection may be lost before `run` notices; a request that it accepts then would never be answered.
        if connection is None or connection.lost.done():
            raise self._why_away()
        return connection.submit(tx)

    async def perform(self, method: Method[_A], request: msgspec.Struct) -> _A:
        connection = self._connection
        if connection is None or connection.lost.done():
            raise self._why_away()
        silence_s = QUESTION_SILENCE_S if method.is_question else SILENCE_S
        return method.answer.decode(await connection.call(request, silence_s))

    def _why_away(self) -> Unavailable:
        if not self._met:
            return Starting("the core is starting")
        return StoreUnavailable("the core process is gone; it is being restarted")

    def watch_arrivals(self, on: bool) -> None:
        self._watches_arrivals = on
        if self._connection is not None and not self._connection.lost.done():
            self._connection.watch_arrivals(on)


class _CoreConnection(wire.LinkProtocol):
    """One connection: requests in flight by id."""

    def __init__(self, listener: CoreListener) -> None:
        super().__init__(gathers=wire.SUBMIT)
        self._listener = listener
        self._calls_made = 0
        self._submissions = 0
        # While this worker is paused, the core's time stands still, too.
        self._clock = RunningClock(self._loop.time(), WATCH_S)
        # Both in the order of the requests: the oldest is first.
        self._admissions: dict[int, tuple[TxHash, asyncio.Future[Admission], float]] = {}
        """With the time at which each is given up."""
        self._calls: dict[int, tuple[asyncio.Future[bytes], float]] = {}
        """With the time at which each is given up."""
        self.lost: asyncio.Future[None] = self._loop.create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail_due_by(math.inf, "the core process went away")
        if not self.lost.done():
            self.lost.set_result(None)

    def close(self) -> None:
        self._transport.close()

    def give_up(self) -> None:
        """Fail requests that have waited too long. An answer that still comes is ignored."""
        self._fail_due_by(self._clock.look(self._loop.time()), "the core does not answer")

    def _fail_due_by(self, time: float, why: str) -> None:
        unsure = StoreUnavailable(f"{why}; the transaction may be on disk: submit it again")
        late = [(request_id, future) for request_id, (_, future, due_at) in self._admissions.items() if due_at < time]
        for request_id, admission in late:
            del self._admissions[request_id]
            if not admission.done():
                admission.set_exception(unsure)
        for request_id, (answer, due_at) in list(self._calls.items()):
            if due_at < time:
                del self._calls[request_id]
                if not answer.done():
                    answer.set_exception(StoreUnavailable(f"{why}: try again"))

    def _due_after(self, silence_s: float) -> float:
        # The last look may be one interval ago.
        return self._clock.now + WATCH_S + silence_s

    def submit(self, tx: Tx) -> asyncio.Future[Admission]:
        self._gathered.append(encode_record(tx))
        self._submissions += 1
        future: asyncio.Future[Admission] = self._loop.create_future()
        self._admissions[self._submissions] = (tx.hash, future, self._due_after(SILENCE_S))
        self._flush_soon()
        return future

    def call(self, request: msgspec.Struct, silence_s: float) -> asyncio.Future[bytes]:
        self._calls_made += 1
        future: asyncio.Future[bytes] = self._loop.create_future()
        self._calls[self._calls_made] = (future, self._due_after(silence_s))
        if self._gathered:
            # What was submitted before is handed over before: a draft's nonce may depend on it.
            self._flush()
        self.write(wire.frame_of(self._calls_made, wire.CALL, request))
        return future

    def watch_arrivals(self, on: bool) -> None:
        self.write(wire.frame(0, wire.WATCH, b"\1" if on else b"\0"))

    def take_frame(self, request_id: int, kind: int, payload: bytes) -> None:
        if kind == wire.ADMITTED:
            # As `_admitted` does, without a call for each: these are most of what comes.
            waiting_for = self._admissions
            for (admitted_id,) in wire.ID.iter_unpack(payload):
                waiting = waiting_for.pop(admitted_id, None)
                if waiting is not None and not waiting[1].done():
                    waiting[1].set_result(Admission(waiting[0]))
        elif kind == wire.CONFIRMED:
            self._admitted(request_id, confirmed=True)
        elif kind == wire.KNOWN or kind == wire.QUEUED:
            missing = wire.ID.unpack(payload)[0] if payload else None
            self._admitted(request_id, known=kind == wire.KNOWN, waits_for_nonce=missing)
        elif kind == wire.REFUSED:
            self._refused(request_id, payload)
        elif request_id == 0:
            self._notice(kind, payload)
        else:
            self._answered(request_id, kind, payload)

    def _admitted(
        self, request_id: int, confirmed: bool = False, known: bool = False, waits_for_nonce: int | None = None
    ) -> None:
        # None: the request timed out, or its client has gone.
        waiting = self._admissions.pop(request_id, None)
        if waiting is not None and not waiting[1].done():
            waiting[1].set_result(Admission(waiting[0], confirmed, known, waits_for_nonce))

    def _refused(self, request_id: int, payload: bytes) -> None:
        waiting = self._admissions.pop(request_id, None)
        if waiting is not None and not waiting[1].done():
            waiting[1].set_exception(wire.decode_error(payload))

    def _answered(self, request_id: int, kind: int, payload: bytes) -> None:
        waiting = self._calls.pop(request_id, None)
        if waiting is None or waiting[0].done():
            return
        if kind == wire.ERROR:
            waiting[0].set_exception(wire.decode_error(payload))
        else:
            waiting[0].set_result(payload)

    def _notice(self, kind: int, payload: bytes) -> None:
        if kind == wire.COMMIT:
            self._listener.on_commit(*wire.decode_commit(payload))
        elif kind == wire.DROPPED:
            drop = wire.decode_as(payload, wire.DropNotice)
            self._listener.on_dropped(drop.tx_hash, drop.reason)
        elif kind == wire.ARRIVED:
            self._listener.on_arrived(list(decode_records(payload)))
        elif kind == wire.PHASE:
            notice = wire.decode_as(payload, wire.PhaseNotice)
            phase: Phase = notice.phase
            self._listener.on_phase(phase, notice.reason)
        elif kind == wire.INFO:
            self._listener.on_info(wire.decode_as(payload, ChainInfo))
        elif kind == wire.SETTLE:
            self.write(wire.frame(0, wire.SETTLED))
