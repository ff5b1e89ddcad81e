"""A worker's view of the chain: its own reader of the store, kept up to date by the core's notices."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import structlog

from cairn.api.chain_reads import ChainReads, reverted_meanwhile
from cairn.api.pending_answers import PendingAnswers
from cairn.board import Board
from cairn.core.gateway import ChainInfo
from cairn.domain.errors import (
    BlockNotFound,
    Fatal,
    Reverting,
    ShuttingDown,
    Starting,
    StoreUnavailable,
    Unavailable,
)
from cairn.domain.types import DropReason, Phase, SealedBlock, Tx, TxHash
from cairn.store.follower import FollowerStore
from cairn.store.keys import split_hashes
from cairn.time_shares import in_slices

RETRY_S = 0.05
LAG_S = 0.02
"""How long the store may stay behind the blocks that were sent, unless somebody reads more of them."""
PRESENCE_INTERVAL_S = 5.0
"""How often a waiting request checks that its client is still connected."""

_T = TypeVar("_T")

log = structlog.get_logger("cairn.view")


class ViewListener(Protocol):
    """Called after the view is up to date, so that what is announced can be read."""

    def on_commit(self, height: int) -> None: ...

    def on_dropped(self, tx_hash: TxHash, reason: DropReason) -> None: ...

    def on_phase(self, phase: Phase, reason: str) -> None: ...

    def on_reverted(self, height: int) -> None:
        """A dev chain was reverted to `height`: later blocks are void."""


class ChainView(ChainReads):
    """A `CoreListener`. Reads answer for every height up to `height`.

    What is confirmed never changes, except when a dev chain is reverted. `reverts` counts that, so that code that
    awaits between two reads can see whether they are of the same chain.
    """

    def __init__(
        self,
        scratch_dir: Path,
        chain_id: int | None = None,
        on_fatal: Callable[[Fatal], None] | None = None,
        genesis_file: bytes = b"",
        board: Board | None = None,
    ) -> None:
        """`chain_id` is for answers before the core has announced it. `board` is that of the node's cores."""
        super().__init__()
        self.board = board or Board()
        self.pending = PendingAnswers(self.board)
        self.genesis_file = genesis_file
        """The canonical genesis.json: all that whoever checks a proof needs besides the proof."""
        self._scratch_dir = scratch_dir
        self._on_fatal = on_fatal
        self.announced = -1
        """The newest height that the core has announced or the disk has."""
        self._retry: asyncio.TimerHandle | None = None
        """The next attempt to catch up, if one is due."""
        self._listeners: list[ViewListener] = []
        self._arrival_listener: Callable[[Sequence[Tx]], None] = lambda txs: None
        self._reaching: list[tuple[int, asyncio.Future[None]]] = []
        self._waiting: dict[TxHash, set[asyncio.Future[None]]] = {}
        self.chain_id = chain_id
        self.info: ChainInfo | None = None
        self.generation = -1
        """The board's, while it shows the chain that this worker reads."""
        self._minted = (0, 0)
        """Of a dev chain: a height, and what the blocks up to it added to the balances in genesis."""
        self.reverts = 0
        """How often the chain was reverted, as far as this worker knows."""
        self.phase: Phase = "starting"
        self.reason = "the core is starting"

    def subscribe(self, listener: ViewListener) -> None:
        self._listeners.append(listener)

    def fail(self, failure: Fatal) -> None:
        """The disk returns other bytes than were written: the worker must end."""
        log.error("the store is damaged", kind=type(failure).__name__, reason=failure.detail)
        if self._on_fatal is not None:
            self._on_fatal(failure)

    def close(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._recent.clear()
        if self._store is not None:
            self._store.close()
            self._store = None

    # Notices of the core.

    def on_info(self, info: ChainInfo) -> None:
        """The core has opened the store: open a new reader."""
        self.close()
        is_reverted = self.info is not None and info.reverts != self.reverts
        self.info, self.chain_id, self.reverts = info, info.chain_id, info.reverts
        self.pending.clear()
        self._minted = (0, 0)
        self.generation = info.generation if info.generation % 2 else -1
        # The core announces its head next; earlier announcements may be of blocks that were reverted.
        self.announced = -1
        if is_reverted:
            self._forget_all()
        self._advance()

    def on_phase(self, phase: Phase, reason: str) -> None:
        self.phase, self.reason = phase, reason
        if phase == "draining":
            self._release_waiting()
        elif phase == "unavailable" and not self.is_reverting and self._store and self._store.watermark.is_in_place():
            # The core may wait for the space of files that it has deleted, and that only this worker still has.
            self._advance()
        for listener in self._listeners:
            listener.on_phase(phase, reason)

    def on_commit(self, height: int, block: SealedBlock | None = None) -> None:
        self.announced = max(self.announced, height)
        if block is not None and self._may_show(block):
            self._recent.add(block)
            self.height = height
            self._show(height - 1)
            # One catch-up for several blocks, and none between a block and its events.
            if self._retry is None:
                self._retry = asyncio.get_running_loop().call_later(LAG_S, self._advance)
        # Several notices may come together; one catch-up is enough for all. The same height again means other files.
        elif height >= self.height:
            self._advance()

    def _may_show(self, block: SealedBlock) -> bool:
        """Whether the store, and the blocks that were sent since, show all before this one."""
        store = self._store
        if store is None or self._recent.is_full or block.header.height != self.height + 1:
            return False
        # A store that prunes removes what a reader may be about to look for: it is always caught up with.
        return store.base == 0 and store.visible <= self.height

    def on_dropped(self, tx_hash: TxHash, reason: DropReason) -> None:
        self._wake(tx_hash)
        for listener in self._listeners:
            listener.on_dropped(tx_hash, reason)

    def _forget_all(self) -> None:
        """The chain was reverted: forget everything that was read."""
        self.height = -1
        self._forget_answers()
        reaching, self._reaching = self._reaching, []
        for _, future in reaching:
            if not future.done():
                future.set_exception(reverted_meanwhile())
        for listener in self._listeners:
            listener.on_reverted(self.get_info().reverted_to)

    def on_arrived(self, txs: Sequence[Tx]) -> None:
        self._arrival_listener(txs)

    def on_arrivals(self, listener: Callable[[Sequence[Tx]], None]) -> None:
        """The listener for new pending transactions; the core announces them only on request."""
        self._arrival_listener = listener

    def _advance(self) -> None:
        """Catch up with the announced height; when the files are not there yet, try again soon."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        before = self.height
        try:
            if self._store is None:
                self._store = self._open()
            self.height = max(before, self._store.catch_up())
            self._recent.clear()
            if self.height > before:
                self._show(before)
        except Unavailable as failure:
            if self.phase == "ready":
                log.warning("the store cannot be read yet", reason=failure.detail)
        except Fatal as failure:
            # While no core has the files open, they may be about to change: wait for the next core.
            if self.phase != "unavailable":
                self.fail(failure)
                return
        if self.height < self.announced or self._store is None or self._recent:
            self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._advance)

    def _open(self) -> FollowerStore:
        if self.info is None or not self.info.store_path:
            raise Starting("the core has not opened the store yet")
        return FollowerStore.open(Path(self.info.store_path), self._scratch_dir)

    def _show(self, before: int) -> None:
        reached = [future for height, future in self._reaching if height <= self.height]
        self._reaching = [(height, future) for height, future in self._reaching if height > self.height]
        for future in reached:
            if not future.done():
                future.set_result(None)
        if self._waiting and before >= 0:
            for height in range(max(before + 1, self.base), self.height + 1):
                for tx_hash in split_hashes(self.tx_hashes(height)):
                    self._wake(tx_hash)
        elif self._waiting:
            # It is another chain now, and what they wait for may never come: let them look again.
            self._release_waiting()
        for listener in self._listeners:
            listener.on_commit(self.height)

    # Waiting.

    async def reach_head(self) -> int:
        """Return the newest height on disk, once reads show it. No block above it has been announced.

        It is not asked of the core, so that reads work whatever the core is doing.
        """
        if self._store is None and self.phase == "ready":
            # It could not be opened yet; it will be tried again.
            await self.reach(0)
        try:
            newest = self.board.head if self.is_live else self._opened().watermark.height()
        except Fatal:
            if self.phase != "unavailable":
                raise
            # The files may be about to come back: wait for the next core that opens them.
            newest = self.height
        if newest > self.height:
            self.on_commit(newest)
            await self.reach(newest)
        return self.height

    def is_at_head(self) -> bool:
        """Whether reads show the newest block without waiting for anything. Catches up first, if need be.

        Then whatever was read from the board before is of the chain that is read now, or of an earlier block of it.
        """
        newest = self.board.head_of(self.generation) if self.phase == "ready" else None
        if newest is None:
            return False
        if newest > self.height:
            self.on_commit(newest)
        return self.height >= newest

    async def reach(self, height: int, timeout_s: float = 5.0) -> None:
        """Return once reads show `height`. Raises `StoreUnavailable` if that never happens."""
        if self.height >= height:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        reaching = (height, future)
        self._reaching.append(reaching)
        try:
            await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            raise StoreUnavailable(f"this worker cannot read block {height} yet") from None
        finally:
            if reaching in self._reaching:
                self._reaching.remove(reaching)

    async def check_height(self, height: int) -> None:
        """Catch up with a block, if need be. Raises `BlockNotFound` if there is none, or it is not kept."""
        if height > self.height:
            await self.reach_head()
        if height > self.height:
            raise BlockNotFound(f"there is no block of that height yet; the latest is {self.height}")
        self.reader_at(height)

    def check_streaming(self, reverts: int) -> None:
        """Raise why a stream that began after so many reverts cannot go on. Its client can continue it elsewhere."""
        if self.reverts != reverts:
            raise reverted_meanwhile()
        if self.phase == "draining":
            raise ShuttingDown(self.reason)

    async def in_slices(self, items: Iterable[_T], reverts: int | None = None) -> AsyncIterator[_T]:
        """The items, one by one, with others' turns in between. Raises `Reverting` if the chain is reverted there.

        `reverts` is the count when the caller began to read, if that was earlier.
        """
        reverts = self.reverts if reverts is None else reverts
        async for item in in_slices(items):
            if self.reverts != reverts:
                raise reverted_meanwhile()
            yield item

    @contextmanager
    def watching(self, tx_hash: TxHash) -> Iterator["asyncio.Future[None]"]:
        """A future that is done once the transaction is confirmed or dropped, or the node stops."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.phase == "draining":
            ended.set_result(None)
        self._waiting.setdefault(tx_hash, set()).add(ended)
        try:
            yield ended
        finally:
            futures = self._waiting[tx_hash]
            futures.discard(ended)
            if not futures:
                del self._waiting[tx_hash]

    def _wake(self, tx_hash: TxHash) -> None:
        for future in self._waiting.get(tx_hash, ()):
            if not future.done():
                future.set_result(None)

    def _release_waiting(self) -> None:
        for tx_hash in self._waiting:
            self._wake(tx_hash)

    # Whether there is anything to read.

    @property
    def is_live(self) -> bool:
        """Whether the board is that of the core which this worker is connected to, and the core is ready.

        Without one the watermark tells what is on disk, even if the core was killed before it told anybody.
        """
        return self.phase == "ready" and self.board.generation == self.generation

    def get_info(self) -> ChainInfo:
        """What the core has announced of the chain. Raises `Unavailable` until then."""
        if self.info is None:
            raise self.why_unavailable()
        return self.info

    def supply(self) -> int | None:
        """The sum of all balances after the block that is shown. None on a dev chain that has removed old blocks."""
        info = self.get_info()
        if not info.can_set_balances:
            return info.first_supply
        if self.base:
            return None
        seen, minted = self._minted
        if seen < self.height:
            minted += self.reader_at(self.height).minted_in(seen + 1, self.height)
            self._minted = (self.height, minted)
        return info.first_supply + minted

    @property
    def is_reverting(self) -> bool:
        """Whether a revert is in progress; it takes some tens of milliseconds."""
        return self.info is not None and not self.info.store_path

    def why_unavailable(self) -> Unavailable:
        if self.phase == "draining":
            return ShuttingDown(self.reason)
        if self.phase == "unavailable":
            return Reverting(self.reason) if self.is_reverting else StoreUnavailable(self.reason)
        return Starting(self.reason)


async def wait_until(ended: "asyncio.Future[None]", wait_s: float, has_left: Callable[[], bool]) -> None:
    """Wait until `ended` is done, the time is over, or the client has disconnected."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    while not ended.done() and (left_s := deadline - loop.time()) > 0:
        await asyncio.wait([ended], timeout=min(left_s, PRESENCE_INTERVAL_S))
        if not ended.done() and has_left():
            return
