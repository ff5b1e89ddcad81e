"""The checks that CometBFT asks for, answered in order, so that no peer can hold up a block with them.

CometBFT commits a block only when every earlier check is answered, and while its queue of checks is full it reads no
votes from the peers in that queue. The cost of a check is reading the transaction, that is, recovering its sender. So

- a bundle is read in growing parts, and refused as soon as too little of what was read can be mined;
- nothing is read while CometBFT waits for a proposal or for a block's result;
- an unknown transaction is refused unread while the budget for refused transactions is used up, while too many bytes
  wait, or when a block has waited for its commit long enough.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import NamedTuple

import structlog

from cairn.domain.errors import MempoolFull, Rejected
from cairn.domain.types import Tx
from cairn.engine.abci import requests as m
from cairn.engine.abci.requests import refusal_result
from cairn.engine.network.bundle import first_in, is_bundle, open_bundle
from cairn.engine.network.mempool_admission import MempoolAdmission
from cairn.engine.network.parsed_txs import Parsed, ParsedTxs, Single, gather

READ_PER_S = 1_000
"""Signatures, on average: about a tenth of a processor core."""
READ_AT_ONCE = 4_096
"""So many more in a burst: after a disconnection, peers may send many outdated transactions."""
NOTICED = 50
"""So many refusals within `NOTICE_INTERVAL_S` are logged; a few are normal."""
NOTICE_INTERVAL_S = 10.0

log = structlog.get_logger("cairn.network")


class Refusals:
    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` is monotonic."""
        self._clock = clock
        self._left = float(READ_AT_ONCE)
        self._counted_at = clock()
        self._next_notice_at = self._counted_at
        self._since = self._counted_at
        self._refused = self._read = self._unread = 0
        """Since that moment."""

    @property
    def is_over_budget(self) -> bool:
        self._refill()
        return self._left <= 0

    def _refill(self) -> None:
        now = self._clock()
        self._left = min(READ_AT_ONCE, self._left + (now - self._counted_at) * READ_PER_S)
        self._counted_at = now

    def add(self, signatures: int) -> None:
        """One was refused after so many signatures were read. It costs at least one."""
        self._refill()
        self._left -= max(1, signatures)
        self._count(refused=1, read=signatures)

    def add_unread(self) -> None:
        """One was refused unread."""
        self._count(unread=1)

    def _count(self, refused: int = 0, read: int = 0, unread: int = 0) -> None:
        now = self._clock()
        if not self._is_news and now - self._since >= NOTICE_INTERVAL_S:
            self._begin(now)
        self._refused += refused
        self._read += read
        self._unread += unread
        if self._is_news and now >= self._next_notice_at:
            self._next_notice_at = now + NOTICE_INTERVAL_S
            log.warning(
                "peers send transactions that are refused",
                refused=self._refused,
                signatures_read=self._read,
                turned_away_unread=self._unread,
            )
            self._begin(now)

    @property
    def _is_news(self) -> bool:
        return self._refused + self._unread >= NOTICED

    def _begin(self, now: float) -> None:
        self._refused = self._read = self._unread = 0
        self._since = now


FIRST_PART = 2
"""Transfers of a bundle that are read first."""
GROWTH = 4
"""By how many times each next part is larger."""
READ_TOGETHER_BYTES = 64 * 1024
"""Some hundred transfers that came one by one."""
ANSWERED_TOGETHER = 256
MOST_WAITING_BYTES = 8 * 1024 * 1024
"""Half of what the ABCI server reads ahead, so that CometBFT's own queue of checks is never full."""
READ_BEFORE_COMMIT = 8_192
"""Signatures that are read while a block waits for its commit: half a second of a processor core."""


class _Check(NamedTuple):
    request: m.CheckTxRequest
    answer: "asyncio.Future[m.TxResult]"


class _Reading:
    """A bundle that is read part by part."""

    def __init__(self) -> None:
        self.opened: Sequence[bytes] = ()
        self.singles: dict[bytes, Single | Rejected] = {}
        """A copy, since the cache may forget them meanwhile."""
        self.unread: list[bytes] = []
        self.new: list[bytes] = []
        """The transactions that had to be read."""

    def open(self, raws: Sequence[bytes], parsed_txs: ParsedTxs) -> None:
        self.opened = raws
        self.singles = parsed_txs.known(raws) | self.singles
        self.unread = [raw for raw in raws if raw not in self.singles]


class CheckQueue:
    def __init__(self, parsed_txs: ParsedTxs, judge: MempoolAdmission, refusals: Refusals) -> None:
        self._parsed_txs = parsed_txs
        self._judge = judge
        self._refusals = refusals
        self._waiting: deque[_Check] = deque()
        """The checks that must wait: one that has to be read, and all after it."""
        self._waiting_bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._holds = 0
        self._resumed: asyncio.Future[None] | None = None
        """Done when the checks are no longer held."""
        self._left_before_commit: int | None = None
        """Signatures that may still be read; None while no block waits for its commit."""

    def check(self, request: m.CheckTxRequest) -> "m.TxResult | asyncio.Future[m.TxResult]":
        if not self._waiting:
            known = self._parsed_txs.find(request.tx)
            if known is not None:
                return self._judge.check(request, known)
            if self._is_turned_away(request):
                return self._turn_away()
        loop = asyncio.get_running_loop()
        check = _Check(request, loop.create_future())
        self._waiting.append(check)
        self._waiting_bytes += len(request.tx)
        if self._task is None:
            self._task = loop.create_task(self._answer_all())
        return check.answer

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the checks: CometBFT waits for something more important."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            if self._holds == 0 and self._resumed is not None and not self._resumed.done():
                self._resumed.set_result(None)

    def block_waits(self) -> None:
        """CometBFT has the result of a block, and will commit it once all of its checks are answered."""
        self._left_before_commit = READ_BEFORE_COMMIT

    def block_committed(self) -> None:
        self._left_before_commit = None

    def close(self) -> None:
        """Cancel the checks that are not answered."""
        if self._task is not None:
            self._task.cancel()
        while self._waiting:
            self._pop().answer.cancel()

    # Answering.

    async def _answer_all(self) -> None:
        try:
            while self._waiting:
                await self._until_free()
                if self._answer_front():
                    await self._read_or_fail()
        finally:
            self._task = None

    async def _until_free(self) -> None:
        # Let other tasks run, even if nothing below awaits.
        await asyncio.sleep(0)
        while self._holds:
            self._resumed = asyncio.get_running_loop().create_future()
            await self._resumed

    def _answer_front(self) -> bool:
        """Answer from the front what needs no reading. Returns whether the next one does."""
        for _ in range(ANSWERED_TOGETHER):
            if not self._waiting:
                return False
            check = self._waiting[0]
            # It is cancelled when the connection is lost, and CometBFT's mempool with it.
            if not check.answer.cancelled():
                known = self._parsed_txs.find(check.request.tx)
                if known is not None:
                    self._settle(check, known)
                elif self._is_turned_away(check.request):
                    check.answer.set_result(self._turn_away())
                else:
                    return True
            self._pop()
        return False

    def _pop(self) -> _Check:
        check = self._waiting.popleft()
        self._waiting_bytes -= len(check.request.tx)
        return check

    def _is_turned_away(self, request: m.CheckTxRequest) -> bool:
        if request.recheck:
            return False
        has_time = self._left_before_commit is None or self._left_before_commit > 0
        return not has_time or self._waiting_bytes > MOST_WAITING_BYTES or self._refusals.is_over_budget

    def _turn_away(self) -> m.TxResult:
        self._refusals.add_unread()
        return _BUSY

    # Reading.

    async def _read_or_fail(self) -> None:
        """Every failure must be answered: otherwise CometBFT would wait forever."""
        try:
            await self._read_front()
        except Exception as failure:
            check = self._pop()
            if not check.answer.cancelled():
                check.answer.set_exception(failure)

    async def _read_front(self) -> None:
        request = self._waiting[0].request
        if is_bundle(request.tx):
            parsed, read = await self._read_bundle(request.tx, request.recheck)
            self._judge_next(parsed, read)
            return
        raws = [check.request.tx for check in self._next_singles()]
        known = self._parsed_txs.known(raws)
        new = await self._read([raw for raw in dict.fromkeys(raws) if raw not in known])
        for raw in raws:
            self._judge_next(new.get(raw) or known[raw], int(raw in new))

    def _next_singles(self) -> Iterator[_Check]:
        size_bytes = 0
        for check in takewhile(lambda check: not is_bundle(check.request.tx), self._waiting):
            yield check
            size_bytes += len(check.request.tx)
            if size_bytes >= READ_TOGETHER_BYTES:
                return

    async def _read_bundle(self, raw: bytes, wholly: bool) -> tuple[Parsed, int]:
        """Read it, and count the signatures. Unless `wholly`, stop when it is not worth reading on."""
        bundle = _Reading()
        try:
            # A worthless bundle mostly shows it in its first transfers: then the rest need not be unpacked.
            first = first_in(raw, FIRST_PART + 1)
            if len(first) > FIRST_PART and not wholly:
                bundle.open(first[:FIRST_PART], self._parsed_txs)
                await self._read_part(bundle, FIRST_PART)
                self._check_sample(bundle)
            bundle.open(open_bundle(raw), self._parsed_txs)
            part = len(bundle.unread) if wholly else FIRST_PART * GROWTH if bundle.new else FIRST_PART
            while bundle.unread:
                await self._until_free()
                await self._read_part(bundle, part)
                if bundle.unread:
                    self._check_sample(bundle)
                part *= GROWTH
            return gather(bundle.opened, bundle.singles), len(bundle.new)
        except Rejected as refusal:
            return refusal, len(bundle.new)

    async def _read_part(self, bundle: "_Reading", count: int) -> None:
        part, bundle.unread = bundle.unread[:count], bundle.unread[count:]
        bundle.singles |= await self._read(part)
        bundle.new += part

    def _check_sample(self, bundle: "_Reading") -> None:
        new = {tx.hash for tx in _transfers(bundle.new, bundle.singles)}
        self._judge.check_sample(_transfers(bundle.opened, bundle.singles), new)

    async def _read(self, raws: list[bytes]) -> dict[bytes, Single | Rejected]:
        singles = await self._parsed_txs.read(raws)
        if self._left_before_commit is not None:
            self._left_before_commit -= len(raws)
        return singles

    def _judge_next(self, parsed: Parsed, read: int) -> None:
        check = self._pop()
        if check.answer.cancelled():
            return
        result = self._settle(check, parsed)
        if result is None:
            return
        if result.code:
            # A recheck of CometBFT's own: no peer caused it.
            if not check.request.recheck:
                self._refusals.add(read)
        elif not isinstance(parsed, Rejected):
            self._parsed_txs.keep(check.request.tx, parsed)

    def _settle(self, check: _Check, parsed: Parsed) -> m.TxResult | None:
        """Judge it and answer; None for a bug of the node."""
        try:
            result = self._judge.check(check.request, parsed)
        except Exception as failure:
            check.answer.set_exception(failure)
            return None
        check.answer.set_result(result)
        return result


_BUSY = refusal_result(
    MempoolFull("too much of what peers send is refused, or too much waits: nothing unknown is read just now")
)


def _transfers(raws: Sequence[bytes], singles: Mapping[bytes, Single | Rejected]) -> list[Tx]:
    """The parsed ones before the first that is unread. Raises the `Rejected` of an invalid one."""
    txs = []
    for raw in takewhile(singles.__contains__, raws):
        single = singles[raw]
        if isinstance(single, Rejected):
            raise single
        if isinstance(single, Tx):
            txs.append(single)
    return txs
