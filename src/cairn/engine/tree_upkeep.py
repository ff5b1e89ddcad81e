"""Writes the file of the state tree: at a stop, and while blocks are made, when the one on disk has become too old."""

import time

import structlog

from cairn.domain.errors import StoreUnavailable
from cairn.engine.upkeep import Upkeep
from cairn.store.snapshot import Pause

log = structlog.get_logger("cairn.upkeep")


class TreeUpkeep(Upkeep):
    """The owner has `after_commit` called after every block, and calls `close` before the chain is closed."""

    name = "state tree"

    def after_commit(self, height: int) -> None:
        if self._chain.is_tree_due:
            self._wake()

    def save(self) -> None:
        """At a stop, after `close`: so that the next start computes nothing again."""
        self._save(lambda: None)

    def _is_due(self) -> bool:
        return self._chain.is_tree_due

    def _do(self) -> None:
        self._save(self._pause)

    def _save(self, pause: Pause) -> None:
        begun_at = time.monotonic()
        try:
            self._chain.save_tree(pause)
        except StoreUnavailable as failure:
            # The former file is as good; the next start only takes longer.
            log.error("could not write the state tree", reason=failure.detail)
        else:
            log.debug("the state tree is on disk", seconds=round(time.monotonic() - begun_at, 3))
