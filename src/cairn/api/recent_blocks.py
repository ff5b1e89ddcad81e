"""Blocks that the core sent with its notices, and that the worker's own store does not show yet."""

from cairn.domain.types import BlockHash, SealedBlock, TxHash
from cairn.store.keys import Location

MOST_BLOCKS = 32
"""So many are kept, of 64 transactions at most; with one more, the store catches up."""


class RecentBlocks:
    """All blocks from the one after the store's newest, up to the worker's newest."""

    def __init__(self) -> None:
        self._blocks: dict[int, SealedBlock] = {}
        self._heights: dict[BlockHash, int] = {}
        self._locations: dict[TxHash, Location] = {}

    def __bool__(self) -> bool:
        return bool(self._blocks)

    @property
    def is_full(self) -> bool:
        return len(self._blocks) >= MOST_BLOCKS

    def add(self, block: SealedBlock) -> None:
        height = block.header.height
        self._blocks[height] = block
        self._heights[block.hash] = height
        self._locations.update((tx.hash, (height, position)) for position, tx in enumerate(block.txs))

    def clear(self) -> None:
        self._blocks.clear()
        self._heights.clear()
        self._locations.clear()

    def find(self, height: int) -> SealedBlock | None:
        return self._blocks.get(height)

    def find_height(self, block_hash: BlockHash) -> int | None:
        return self._heights.get(block_hash)

    def find_location(self, tx_hash: TxHash) -> Location | None:
        return self._locations.get(tx_hash)
