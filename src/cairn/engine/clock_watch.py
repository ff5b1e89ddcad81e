"""Looks at the machine's clock before a block is made: a chain's time never goes back, so a wrong clock leaves a mark.

A clock that is behind the chain, because it was ahead once, does no harm: blocks get the time of the one before. The
operator is told. One that is years ahead of the latest block would put the chain's time there for good, so no block is
made until it is right.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from cairn.domain.errors import EngineUnavailable
from cairn.domain.types import LATEST_TIME, BlockHeader

FAR_AHEAD_S = 10 * 366 * 86_400
"""No chain that is in use waits ten years for a transaction; clocks that lost their battery do err by decades."""
EARLIEST_RIGHT = 1_735_689_600
"""The year 2025. A block from before it was made by a machine that did not know the time, as many do not after a start.
Once such a clock is set, it is the latest block that is decades behind."""
BEHIND_S = 60
"""How far behind the chain a clock is before that is worth a warning."""
WARN_EVERY_S = 60.0

log = structlog.get_logger("cairn.engine")


class ClockWatch:
    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._warned_at: float | None = None

    def check(self, latest: BlockHeader, now: float) -> None:
        """`now` is Unix time. Raises `EngineUnavailable` when a block of that time would spoil the chain's."""
        # The time of genesis may be any, so nothing follows from its distance.
        is_known = latest.height > 0 and latest.timestamp >= EARLIEST_RIGHT
        if is_known and now > latest.timestamp + FAR_AHEAD_S:
            raise EngineUnavailable(
                f"the clock says {_text(now)}, and block {latest.height} is of {_text(latest.timestamp)}: "
                f"no block is made until the clock is right, because the chain's time can never go back"
            )
        if latest.timestamp > now + BEHIND_S and self._is_time_to_warn():
            log.warning(
                "the chain's time is ahead of the clock: until the clock is there, blocks get the latest block's time",
                height=latest.height,
                chain_time=_text(latest.timestamp),
                clock=_text(now),
            )

    def _is_time_to_warn(self) -> bool:
        now = self._monotonic()
        if self._warned_at is not None and now < self._warned_at + WARN_EVERY_S:
            return False
        self._warned_at = now
        return True


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(min(seconds, LATEST_TIME), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
