"""Whoever is told, in the core's own process, what happens on the chain."""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from cairn.domain.types import DropReason, SealedBlock, TxHash


class ChainObserver(Protocol):
    """Each call must return at once: the core waits for it."""

    def saw_block(self, block: SealedBlock) -> None:
        """The block is on disk."""

    def saw_drop(self, tx_hash: TxHash, reason: DropReason) -> None:
        """The transaction has left the mempool, and no block holds it."""

    def saw_revert(self, height: int) -> None:
        """A dev chain is back at this block."""


Watch = AbstractContextManager[ChainObserver | None]
"""Entered in the core's process, once that runs."""
UNWATCHED: Watch = nullcontext()
