"""The next nonces of accounts: found on the board and in what the core has answered, or else asked of the core."""

from typing import NamedTuple

from cairn.api.chain_view import ChainView
from cairn.core.gateway import CoreGateway
from cairn.domain.lru_cache import LruCache
from cairn.domain.types import Address

KEPT_NONCES = 10_000
"""Some 3 MB."""


class _Kept(NamedTuple):
    generation: int
    changes: int
    """On the board, before the core was asked."""
    nonce: int


class NextNonces:
    """Each is that of the mempool. The account may be newer, but never older, if it is read afterwards."""

    def __init__(self, gateway: CoreGateway, view: ChainView) -> None:
        self._gateway = gateway
        self._view = view
        self._kept: LruCache[Address, _Kept] = LruCache(KEPT_NONCES)

    def find(self, sender: Address, changes: int) -> int | None:
        """The nonce after the sender's pending transactions, 0 if there are none; None if only the core knows it.

        `changes` are those of the sender on the board. It holds if `is_at_head` of the view is true afterwards.
        """
        if not self._view.board.holds(sender):
            return 0
        kept = self._kept.use(sender)
        if kept is None or kept.changes != changes or kept.generation != self._view.generation:
            return None
        return kept.nonce

    async def ask(self, sender: Address) -> int:
        """The nonce after the sender's pending transactions, asked of the core if need be. Raises `Unavailable`."""
        # Before it is asked: whatever changes while the answer is on its way makes it void.
        generation, changes = self._view.generation, self._view.board.changes_of(sender)
        found = self.find(sender, changes)
        if found is not None and self._view.is_at_head():
            return found
        nonce = await self._gateway.next_nonce(sender)
        if generation == self._view.generation:
            self._kept.keep(sender, _Kept(generation, changes, nonce))
        return nonce
