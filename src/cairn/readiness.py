"""Tells the log when the node is not ready and why, and when it is ready again; one watch for all of its processes."""

import re

import structlog

from cairn import metrics
from cairn.board import PARTS, Fault

NOT_YET_S = 4.0
"""A node that has never been ready is told of after this time: many starts take a moment."""
_DIGITS = re.compile("[0-9]+")

log = structlog.get_logger("cairn.node")


class ReadinessLog:
    """Fed by the supervisor, about twice a second, with what is wrong now."""

    def __init__(self, now: float, tells_start: bool = True) -> None:
        """`now` and all later times are of one clock that only runs forward.

        Without `tells_start` nothing is told before the node is ready, nor that it is: somebody else does.
        """
        self._tells_start = tells_start
        self._since = now
        """When it became ready, or ceased to be."""
        self._was_ready = False
        self._fault: Fault | None = None
        self._is_told = False

    def became_ready(self, now: float, url: str) -> None:
        """GET /ready was 200 for the first time. Call it once."""
        if self._tells_start:
            log.info("the node is ready", url=url, after_s=round(now - self._since, 1))
        self._since, self._was_ready, self._fault, self._is_told = now, True, None, False

    def take(self, now: float, fault: Fault | None) -> None:
        for part in PARTS:
            metrics.READY.set(fault is None or fault.part != part, part)
        if not self._was_ready:
            self._take_before_ready(now, fault)
        elif fault is None:
            if self._fault is not None:
                log.info("the node is ready again", after_s=round(now - self._since, 1), was=self._fault.part)
                self._since = now
        elif self._fault is None or is_another(fault, self._fault):
            if self._fault is None:
                self._since = now
            log.error("the node is not ready", part=fault.part, reason=fault.reason)
        self._fault = fault

    def _take_before_ready(self, now: float, fault: Fault | None) -> None:
        if fault is None or not self._tells_start:
            return
        if self._fault is None or is_another(fault, self._fault):
            self._is_told = False
        if not self._is_told and now - self._since >= NOT_YET_S:
            self._is_told = True
            log.warning("the node is not ready yet", part=fault.part, reason=fault.reason)


def is_another(fault: Fault, before: Fault) -> bool:
    """Whether more has changed than numbers, as in `no block for 17 s`."""
    return fault.part != before.part or _DIGITS.sub("", fault.reason) != _DIGITS.sub("", before.reason)
