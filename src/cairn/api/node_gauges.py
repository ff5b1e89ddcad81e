"""What a worker looks up when it is asked for metrics, so that nobody pays for it in between."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from cairn import metrics
from cairn.api.chain_view import ChainView
from cairn.domain.errors import StoreUnavailable
from cairn.store.directory import size_on_disk
from cairn.store.last_backup import find_last_backup

LIFETIME_S = 30.0
"""How long the size of the data directory is shown before it is looked up again: it may have thousands of files."""
PATIENCE_S = 0.5
"""How long an answer waits for the disk. What is not known by then is shown as it was before."""


class NodeGauges:
    """The mempool, as the board shows it, and the disk, as it is now."""

    def __init__(self, view: ChainView, clock: Callable[[], float], home: Path | None = None) -> None:
        self._view = view
        self._clock = clock
        self._home = home
        self._looking: asyncio.Task[None] | None = None
        self._looked_at = float("-inf")

    async def refresh(self) -> None:
        pending, queued = self._view.board.counts
        metrics.MEMPOOL.set(pending, "pending")
        metrics.MEMPOOL.set(queued, "queued")
        if self._looking is None or self._looking.done():
            if self._view.info is None or not self._view.info.store_path:
                return
            now = self._clock()
            is_due = now - self._looked_at >= LIFETIME_S
            if is_due:
                self._looked_at = now
            # In a thread: a disk that hangs must not hold up the worker's clients.
            looking = asyncio.to_thread(look_at_disk, self._view.info.store_path, self._home, is_due)
            self._looking = asyncio.create_task(looking)
        await asyncio.wait((self._looking,), timeout=PATIENCE_S)


def look_at_disk(directory: str, home: Path | None, is_due: bool) -> None:
    """`is_due` says whether to look for what changes slowly, too."""
    try:
        disk = os.statvfs(directory)
        metrics.STORE_FREE.set(disk.f_bavail * disk.f_frsize)
        if is_due:
            metrics.STORE_SIZE.set(size_on_disk(Path(directory)))
            if home is not None and (last := find_last_backup(home)) is not None:
                metrics.BACKUP_TIME.set(last.made_at)
    except (OSError, StoreUnavailable):
        # The directory is away, which others tell: what was seen last is shown.
        return
