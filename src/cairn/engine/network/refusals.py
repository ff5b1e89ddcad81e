"""What is spent on peers' transactions that are then refused: a budget, and a notice in the log.

CometBFT does not say which peer sent a transaction, so there is one budget for all peers together. While it is used up,
what this node does not know is turned away unread. What it sent itself is known, and is not affected.
"""

from collections.abc import Callable

import structlog

READ_PER_S = 1_000
"""Signatures, on average: about a tenth of a processor core."""
READ_AT_ONCE = 4_096
"""So many more in a burst: peers that were away for a while may send much that is out of date."""
NOTICED = 50
"""Refusals that are worth a line in the log."""
NOTICE_INTERVAL_S = 10.0

log = structlog.get_logger("cairn.network")


class Refusals:
    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` is monotonic."""
        self._clock = clock
        self._left = float(READ_AT_ONCE)
        self._counted_at = clock()
        self._next_notice_at = self._counted_at
        self._refused = self._read = self._unread = 0
        """Since the last notice."""

    @property
    def is_over_budget(self) -> bool:
        self._refill()
        return self._left <= 0

    def _refill(self) -> None:
        now = self._clock()
        self._left = min(READ_AT_ONCE, self._left + (now - self._counted_at) * READ_PER_S)
        self._counted_at = now

    def add(self, signatures: int) -> None:
        """One was refused after so many signatures were read; none that was read at all costs less than one."""
        self._refill()
        self._left -= max(1, signatures)
        self._refused += 1
        self._read += signatures
        self._notice()

    def add_unread(self) -> None:
        """One was turned away."""
        self._unread += 1
        self._notice()

    def _notice(self) -> None:
        now = self._clock()
        if self._refused + self._unread < NOTICED or now < self._next_notice_at:
            return
        log.warning(
            "peers send transactions that are refused",
            refused=self._refused,
            signatures_read=self._read,
            turned_away_unread=self._unread,
        )
        self._refused = self._read = self._unread = 0
        self._next_notice_at = now + NOTICE_INTERVAL_S
