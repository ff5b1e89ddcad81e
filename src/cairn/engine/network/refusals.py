"""A budget for peers' transactions that are refused after they were read, and a notice in the log.

CometBFT does not say which peer sent a transaction, so there is one budget for all peers together. While it is used up,
unknown transactions are refused unread. This node's own are known, and are not affected.
"""

from collections.abc import Callable

import structlog

READ_PER_S = 1_000
"""Signatures, on average: about a tenth of a processor core."""
READ_AT_ONCE = 4_096
"""So many more in a burst: after a disconnection, peers may send many outdated transactions."""
NOTICED = 50
"""So many refusals within `NOTICE_INTERVAL_S` are logged; a few are normal."""
NOTICE_INTERVAL_S = 10.0

log = structlog.get_logger("cairn.network")


class Refusals:
    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` is monotonic."""
        self._clock = clock
        self._left = float(READ_AT_ONCE)
        self._counted_at = clock()
        self._next_notice_at = self._counted_at
        self._since = self._counted_at
        self._refused = self._read = self._unread = 0
        """Since that moment."""

    @property
    def is_over_budget(self) -> bool:
        self._refill()
        return self._left <= 0

    def _refill(self) -> None:
        now = self._clock()
        self._left = min(READ_AT_ONCE, self._left + (now - self._counted_at) * READ_PER_S)
        self._counted_at = now

    def add(self, signatures: int) -> None:
        """One was refused after so many signatures were read. It costs at least one."""
        self._refill()
        self._left -= max(1, signatures)
        self._count(refused=1, read=signatures)

    def add_unread(self) -> None:
        """One was refused unread."""
        self._count(unread=1)

    def _count(self, refused: int = 0, read: int = 0, unread: int = 0) -> None:
        now = self._clock()
        if not self._is_news and now - self._since >= NOTICE_INTERVAL_S:
            self._begin(now)
        self._refused += refused
        self._read += read
        self._unread += unread
        if self._is_news and now >= self._next_notice_at:
            self._next_notice_at = now + NOTICE_INTERVAL_S
            log.warning(
                "peers send transactions that are refused",
                refused=self._refused,
                signatures_read=self._read,
                turned_away_unread=self._unread,
            )
            self._begin(now)

    @property
    def _is_news(self) -> bool:
        return self._refused + self._unread >= NOTICED

    def _begin(self, now: float) -> None:
        self._refused = self._read = self._unread = 0
        self._since = now
