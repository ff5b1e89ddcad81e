"""Reads: of the committed chain from a worker's own store, up to the height that it shows; of the mempool in parts."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from cairn.api.chain_json import block_json, confirmed_json
from cairn.api.recent_blocks import RecentBlocks
from cairn.core.gateway import CoreGateway, PendingPage, PendingTx
from cairn.domain.errors import BlockNotFound, BlockNotKept, Corrupt, NodeError, Reverting, Unavailable
from cairn.domain.lru_cache import LruCache
from cairn.domain.merkle import grow_above, grow_tree
from cairn.domain.transactions import decode_record
from cairn.domain.types import EMPTY_ACCOUNT, Account, Address, BlockHash, BlockHeader, Tx, TxHash
from cairn.store.follower import FollowerStore
from cairn.store.history import Search, Step, count_sent, search_history
from cairn.store.keys import HASH_SIZE, NEVER, BlockMark, Location, Version, mark_of, split_hashes
from cairn.time_shares import in_slices

TX_CACHE_BYTES = 4 * 1024 * 1024
BLOCK_CACHE_BYTES = 8 * 1024 * 1024
TREE_CACHE_BYTES = 8 * 1024 * 1024
"""Some dozen blocks of 10,000 transactions."""
CACHED_MARKS = 16_384
"""About 4 MB when full. Every answer about a transaction names its block's hash, and one of JSON-RPC the time, too."""
CACHED_HEADERS = 1_024
"""About a megabyte."""
CACHED_ACCOUNTS = 10_000
"""About four megabytes."""
ASKED_AT_ONCE = 200
"""Transactions in one answer of the core: about a millisecond of its time."""
CHANGES_OF = b"changes"
"""In front of a block's hash: the key of the tree over the accounts that it touches."""
COUNT_BYTES = 4
MOST_BEGUN = 8
"""Pieces of common work that are kept while they are done."""
ENTRY_OVERHEAD_BYTES = 200
"""About what the dictionary, the key and the object headers of one entry take."""


class AnswerCache(LruCache[bytes, bytes]):
    """Ready answers, up to a number of bytes. Only for what never changes: nothing here is ever invalidated."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes, weigh=lambda answer: len(answer) + ENTRY_OVERHEAD_BYTES)


@dataclass(slots=True)
class _Begun:
    rest: Iterator[bytes]
    pieces: list[bytes] = field(default_factory=list)
    failure: Exception | None = None


class CommonWork:
    """Work whose result several requests need at the same time: they do it together, and only once.

    Each request continues where the others are, in its client's own turns: none of them waits for another.
    """

    def __init__(self) -> None:
        self._begun: dict[bytes, _Begun] = {}

    async def do(self, key: bytes, begin: Callable[[], Iterator[bytes]]) -> list[bytes]:
        """All pieces of the work that `begin` begins, unless it has begun already. If it fails, it fails for all."""
        work = self._begun.get(key)
        if work is None:
            work = self._begun[key] = _Begun(begin())
            if len(self._begun) > MOST_BEGUN:
                # Everybody who wanted the oldest may have left. Those who have not still have it.
                del self._begun[next(iter(self._begun))]
        try:
            async for piece in in_slices(work.rest):
                work.pieces.append(piece)
        except Exception as failure:
            # A defect is logged with its traceback; of the others nobody needs it.
            work.failure = failure.with_traceback(None) if isinstance(failure, NodeError) else failure
        self._begun.pop(key, None)
        if work.failure is not None:
            # For the others it has only ended, as if it were complete.
            raise work.failure
        return work.pieces


class ChainReads(ABC):
    """The subclass opens the store, keeps it up to date with the core, and increases `height`."""

    def __init__(self) -> None:
        self._store: FollowerStore | None = None
        self._recent = RecentBlocks()
        """The newest blocks, as far as the core has sent them and the store does not show them yet."""
        self.height = -1
        """The latest height that reads show; -1 until the store is open."""
        self._forget_answers()

    def _forget_answers(self) -> None:
        """Forget everything that was read so far."""
        self._txs = AnswerCache(TX_CACHE_BYTES)
        self._blocks = AnswerCache(BLOCK_CACHE_BYTES)
        self._trees = AnswerCache(TREE_CACHE_BYTES)
        self._accounts: LruCache[Address, tuple[int, Account]] = LruCache(CACHED_ACCOUNTS)
        """As of the latest height that was shown when they were read, which is with them."""
        self._headers: LruCache[int, tuple[BlockHash, BlockHeader]] = LruCache(CACHED_HEADERS)
        self._growing = CommonWork()
        self._mark = lru_cache(CACHED_MARKS)(self._read_mark)

    @abstractmethod
    def why_unavailable(self) -> Unavailable:
        """Why the store is not open."""

    def _opened(self) -> FollowerStore:
        """The store, which may not show the recent blocks yet."""
        if self._store is None:
            raise self.why_unavailable()
        return self._store

    def _reader(self) -> FollowerStore:
        """The store, which shows every block up to `height`. Raises `Unavailable` or `Fatal`."""
        store = self._opened()
        if self._recent:
            store.catch_up()
            self._recent.clear()
        return store

    @property
    def base(self) -> int:
        """The oldest height that is kept here; it may rise whenever this worker catches up."""
        return self._opened().base

    def reader_at(self, height: int) -> FollowerStore:
        """The reader for `height`. Raises `BlockNotKept` if this node does not keep it."""
        store = self._opened()
        if height > store.visible:
            store = self._reader()
        if height < store.base:
            raise BlockNotKept(f"block {height} is not kept by this node; the oldest it has is {store.base}")
        return store

    def _shown_reader_at(self, height: int) -> FollowerStore:
        """The reader for a height that is shown. Raises `BlockNotFound` also for one that a revert has removed."""
        if height > self.height:
            raise BlockNotFound(f"there is no block {height} any more; the latest is {self.height}")
        return self.reader_at(height)

    def get_header(self, height: int) -> tuple[BlockHash, BlockHeader]:
        """The header at a height that is known to exist. Raises `BlockNotFound` if it is not kept."""
        recent = self._recent.find(height)
        if recent is not None:
            return recent.hash, recent.header
        store = self._shown_reader_at(height)
        found = self._headers.use(height)
        if found is None:
            found = store.find_header(height)
            if found is None:
                raise _missing(height)
            self._headers.keep(height, found)
        return found

    def block_hash(self, height: int) -> BlockHash:
        return self._mark(height).hash

    def block_mark(self, height: int) -> BlockMark:
        """What to tell of a block that is known to exist. May raise `BlockNotFound` if it is not kept any more."""
        return self._mark(height)

    def _read_mark(self, height: int) -> BlockMark:
        recent = self._recent.find(height)
        if recent is not None:
            return mark_of(recent.hash, recent.header)
        found = self._shown_reader_at(height).find_mark(height)
        if found is None:
            raise _missing(height)
        return found

    def find_height(self, block_hash: BlockHash) -> int | None:
        height = self._recent.find_height(block_hash)
        if height is None:
            height = self._opened().find_height(block_hash)
        # The store may show a block more: what the core has not announced yet.
        return None if height is None or height > self.height else height

    def tx_hashes(self, height: int) -> bytes:
        """The hashes of the block's transactions, 32 bytes each, in their order. Raises `BlockNotFound`."""
        recent = self._recent.find(height)
        if recent is not None:
            return b"".join([tx.hash for tx in recent.txs])
        return self._shown_reader_at(height).tx_hashes(height)

    async def tx_tree(self, height: int) -> bytes:
        """All nodes of the Merkle tree of the block's transactions, as `tree_nodes` gives them."""
        block_hash, trees = self.block_hash(height), self._trees
        nodes = trees.use(block_hash)
        if nodes is None:
            pieces = await self._growing.do(block_hash, lambda: grow_tree(list(split_hashes(self.tx_hashes(height)))))
            nodes = b"".join(pieces)
            trees.keep(block_hash, nodes)
        return nodes

    async def changes_tree(self, height: int) -> tuple[bytes, int]:
        """All nodes of the tree over the accounts that the block touches, and how many those are."""
        key, trees = CHANGES_OF + self.block_hash(height), self._trees
        nodes = trees.use(key)
        if nodes is None:
            leaves = self._shown_reader_at(height).change_leaves(height)
            above = await self._growing.do(key, lambda: grow_above(list(split_hashes(leaves))))
            # Behind all nodes, where no path leads.
            count = (len(leaves) // HASH_SIZE).to_bytes(COUNT_BYTES, "big")
            nodes = b"".join((leaves, *above, count))
            trees.keep(key, nodes)
        return nodes, int.from_bytes(nodes[-COUNT_BYTES:], "big")

    def history_node(self, level: int, index: int) -> bytes:
        """A node of the tree over the hashes of all blocks. Raises `BlockNotKept`."""
        store = self._reader()
        # One that began with a snapshot has only those of older blocks that it needs to continue.
        if index << level < store.base and store.find_history_node(level, index) is None:
            raise BlockNotKept(f"the history before block {store.base} is not kept by this node")
        return store.read_history_node(level, index)

    def find_location(self, tx_hash: TxHash) -> tuple[int, int] | None:
        location = self._recent.find_location(tx_hash)
        if location is None:
            location = self._opened().find_location(tx_hash)
        return None if location is None or location[0] > self.height else location

    def tx_at(self, height: int, position: int) -> Tx:
        """A transaction that is known to exist. Raises `BlockNotFound` when its block is not kept."""
        recent = self._recent.find(height)
        if recent is not None:
            return recent.txs[position]
        record = self._shown_reader_at(height).find_record(height, position)
        if record is None:
            raise Corrupt(f"transaction {position} of block {height} is not in the store, though its index is")
        return decode_record(record)

    def tx_records(self, height: int) -> Iterator[bytes]:
        """The records of the block's transactions, in their order. Raises `BlockNotFound`.

        They are read as far as they are taken. If others are served in between, the block may be pruned meanwhile, or
        the chain reverted: then the next one raises `BlockNotFound` or `Reverting`.
        """
        return self._read_records(self._shown_reader_at(height), height)

    def _read_records(self, store: FollowerStore, height: int) -> Iterator[bytes]:
        chunks = store.chunks(height)
        while self._shown_reader_at(height) is store:
            chunk = next(chunks, None)
            if chunk is None:
                return
            yield from chunk
        raise reverted_meanwhile()

    def account(self, address: Address) -> Account:
        # The store may show a block more: what the core has not announced yet.
        return self.account_at(address, self.height)

    def account_at(self, address: Address, height: int) -> Account:
        """The account after the block at `height`. Raises `BlockNotFound` if that is no longer kept."""
        store = self.reader_at(height)
        if height != self.height:
            return store.account_at(address, height)
        kept = self._accounts.use(address)
        if kept is None or kept[0] != height:
            kept = height, store.account_at(address, height)
            self._accounts.keep(address, kept)
        return kept[1]

    def versions_between(self, address: Address, first: int, last: int, count: int) -> list[Version]:
        """At most `count` versions of the account, the oldest first, of the blocks that are kept."""
        return self._reader().versions_between(address, first, last, count)

    def heights_between(self, address: Address, first: int, last: int, count: int) -> list[int]:
        """Their heights."""
        return self._reader().heights_between(address, first, last, count)

    def account_before(self, address: Address, version: Version) -> Account:
        """The account before the block that made a version. Raises `BlockNotKept`."""
        if version.touched_before == NEVER:
            return EMPTY_ACCOUNT
        # From the oldest block that is kept, one earlier version of each account is kept, too.
        before = self.reader_at(version.height).find_version(address, version.height - 1)
        if before is None:
            raise BlockNotKept(f"what block {version.height} changed is not kept by this node any more")
        return before.account

    def last_height_at(self, time: int) -> int | None:
        """The last block whose timestamp is not after `time`; None if the oldest one that is kept is later."""
        low, high = self.base - 1, self.height
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.get_header(middle)[1].timestamp <= time else (low, middle - 1)
        return None if low < self.base else low

    def count_sent(self, search: Search) -> int:
        return count_sent(self._reader(), search)

    def search_history(self, search: Search, after: Location | None) -> Iterator[Step]:
        """The account's transactions behind `after`, in the order of the search. Read as far as they are taken."""
        return search_history(self._reader(), search, after)

    # Answers in JSON.

    def find_confirmed(self, tx_hash: TxHash) -> bytes | None:
        """The public JSON of a confirmed transaction."""
        answer = self._txs.use(tx_hash)
        if answer is None:
            location = self.find_location(tx_hash)
            if location is not None:
                answer = self.confirmed_at(*location)
                self._txs.keep(tx_hash, answer)
        return answer

    def confirmed_at(self, height: int, position: int) -> bytes:
        return confirmed_json(self.tx_at(height, position), height, position, self.block_hash(height))

    def find_block(self, block_hash: BlockHash) -> bytes | None:
        """The public JSON of a block. Raises `BlockNotFound` if it is not kept any more."""
        answer = self._blocks.use(block_hash)
        if answer is None:
            height = self.find_height(block_hash)
            if height is not None:
                answer = block_json(*self.get_header(height), self.tx_hashes(height))
                self._blocks.keep(block_hash, answer)
        return answer


def _missing(height: int) -> Corrupt:
    return Corrupt(f"block {height} is not in the store, though its successors are")


def reverted_meanwhile() -> Reverting:
    return Reverting("the chain was reverted meanwhile: ask again")


async def list_pending(gateway: CoreGateway, limit: int, after: str | None, sender: Address | None) -> PendingPage:
    """A page of the mempool, asked for in parts: one long answer would keep the core from admitting transactions.

    What comes or goes between two parts is shown once or not at all.
    """
    page = await gateway.list_pending(min(limit, ASKED_AT_ONCE), after, sender)
    if page.next is None or len(page.items) >= limit:
        return page
    found: dict[TxHash, PendingTx] = {item.tx.hash: item for item in page.items}
    cursor: str | None = page.next
    while cursor is not None and len(found) < limit:
        part = await gateway.list_pending(min(limit - len(found), ASKED_AT_ONCE), cursor, sender)
        found |= {item.tx.hash: item for item in part.items}
        cursor = part.next
    return PendingPage(list(found.values()), page.total, cursor, page.pending)
