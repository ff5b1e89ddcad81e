"""Ready answers about pending transactions, as long as the board shows no change of their senders."""

from typing import NamedTuple

from cairn.board import Board
from cairn.core.gateway import PendingTx
from cairn.domain.lru_cache import LruCache
from cairn.domain.types import Address, TxHash

KEPT_ANSWERS = 4_096
"""Some 3 MB."""


class _Kept(NamedTuple):
    sender: Address
    changes: int
    answer: bytes


class PendingAnswers:
    """Those of one core: when there is another, they are cleared."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._kept: LruCache[TxHash, _Kept] = LruCache(KEPT_ANSWERS)
        self.clear = self._kept.clear

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, found: PendingTx, answer: bytes) -> None:
        """Keep the answer that was made from what the core has found."""
        self._kept.keep(found.tx.hash, _Kept(found.tx.sender, found.changes, answer))

    def find(self, tx_hash: TxHash) -> bytes | None:
        """The answer, which is right if the view is at the head afterwards, and no block has the transaction."""
        kept = self._kept.get(tx_hash)
        if kept is None or kept.changes != self._board.changes_of(kept.sender):
            return None
        return kept.answer
