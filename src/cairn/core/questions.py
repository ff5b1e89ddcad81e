"""Questions about transactions: answered by the mempool, and by the chain while it is open."""

import contextlib
from collections.abc import Awaitable, Callable

from cairn.core.gateway import ConfirmedTx, DroppedTx, MempoolCalls, PendingPage, PendingTx, Standing
from cairn.domain.errors import NodeError
from cairn.domain.types import Address, TxHash
from cairn.mempool.pool import Mempool
from cairn.store.chain import ChainStore


class Questions(MempoolCalls):
    def __init__(
        self,
        chain: ChainStore,
        pool: Mempool,
        check_alive: Callable[[], None],
        await_drops: Callable[[], Awaitable[bool]],
    ) -> None:
        """`check_alive` raises `StoreUnavailable` when this core has ended. `await_drops` returns once all drops are on
        disk, or this core has ended, and tells whether it had to wait.
        """
        self._chain = chain
        self._pool = pool
        self._check_alive = check_alive
        self._await_drops = await_drops
        self._closed = False

    def close(self) -> None:
        """The chain is closed; only the mempool can still be read."""
        with contextlib.suppress(NodeError):
            # Listing needs the accounts.
            self._pool.list_noted()
        self._closed = True

    async def next_nonce(self, sender: Address) -> int:
        """After the end of this core, 0 for a sender without pending transactions: its account cannot be read."""
        return self._pool.next_nonce(sender) if not self._closed or self._pool.reserved(sender) else 0

    async def find_tx(self, tx_hash: TxHash) -> Standing | None:
        """After this core is closed, it answers from memory, and None is no answer.

        Raises `StoreUnavailable` if this core has ended and does not have it, or has dropped it: it may still be on
        disk.
        """
        # Nobody may be told of a drop that is not on disk: after a kill it would not have happened.
        while isinstance(found := self._find_now(tx_hash), DroppedTx) and await self._await_drops():
            continue
        return found

    def _find_now(self, tx_hash: TxHash) -> Standing | None:
        entry = self._pool.find(tx_hash)
        if entry is not None:
            return PendingTx(entry.tx, entry.received_at)
        left = self._pool.unheld.by_hash.get(tx_hash)
        if left is not None:
            return PendingTx(left.tx, left.received_at, left.reason, self._pool.find_replacement(left.tx))
        if self._closed:
            return None
        location = self._chain.find_location(tx_hash)
        if location is not None:
            return ConfirmedTx(location[0])
        self._check_alive()
        reason = self._pool.drops.get(tx_hash)
        return None if reason is None else DroppedTx(reason)

    async def list_pending(self, limit: int, after: str | None, sender: Address | None) -> PendingPage:
        # Also for one sender: the page counts everything that can be mined.
        self._pool.list_noted()
        page = self._pool.page(limit, after, sender)
        items = [PendingTx(entry.tx, entry.received_at) for entry in page.entries]
        return PendingPage(items, page.total, page.next, self._pool.pending_count)
