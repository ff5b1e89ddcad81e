"""Results that never change, as the JSON that was made of them once."""

import msgspec

from cairn.api.chain_reads import ENTRY_OVERHEAD_BYTES
from cairn.api.chain_view import ChainView
from cairn.domain.lru_cache import LruCache


class ReadyAnswers:
    """What was read of blocks, up to a number of bytes. No answer survives a revert, nor its block."""

    def __init__(self, view: ChainView, max_bytes: int) -> None:
        self._view = view
        self._kept: LruCache[bytes, tuple[int, bytes]] = LruCache(
            max_bytes, weigh=lambda kept: len(kept[1]) + ENTRY_OVERHEAD_BYTES
        )
        self._reverts = view.reverts

    def find(self, key: bytes) -> msgspec.Raw | None:
        """The answer, if it is kept. Raises `Unavailable`, as reading does, while the store is not open."""
        base = self._view.base
        if self._reverts != self._view.reverts:
            self._forget()
        kept = self._kept.use(key)
        return None if kept is None or kept[0] < base else msgspec.Raw(kept[1])

    def keep(self, key: bytes, height: int, answer: bytes) -> msgspec.Raw:
        """What was made of the block at `height` since `find` found nothing, without waiting for anything."""
        self._kept.keep(key, (height, answer))
        return msgspec.Raw(answer)

    def _forget(self) -> None:
        self._kept.clear()
        self._reverts = self._view.reverts
