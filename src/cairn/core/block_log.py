"""Tells the log of blocks: each of them at the level debug, and a summary of each minute in which there were any."""

import asyncio

import structlog

from cairn.domain.types import SealedBlock

SUMMARY_S = 60.0

log = structlog.get_logger("cairn.core")


class BlockLog:
    """A listener of the feed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._blocks = self._txs = self._latest = 0

    def on_block(self, height: int, block: SealedBlock | None) -> None:
        """None for a height that was told before, or after a jump."""
        if block is None:
            return
        txs = len(block.txs)
        self._blocks += 1
        self._txs += txs
        self._latest = height
        log.debug("block", height=height, transactions=txs)
        if self._timer is None:
            self._timer = self._loop.call_later(SUMMARY_S, self._tell)

    def close(self) -> None:
        """Tell what is left."""
        if self._timer is not None:
            self._timer.cancel()
            self._tell()

    def _tell(self) -> None:
        self._timer = None
        log.info("blocks of the last minute", blocks=self._blocks, transactions=self._txs, height=self._latest)
        self._blocks = self._txs = 0
