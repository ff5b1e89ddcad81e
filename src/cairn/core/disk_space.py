"""Warns of a disk that fills up, long before the node has to refuse transactions."""

from collections.abc import Callable

import structlog

from cairn.store.directory import LEAST_FREE_BYTES

LOOK_S = 2.0
"""How often to look."""

log = structlog.get_logger("cairn.core")


class DiskSpace:
    """Tells when the free space falls below a threshold, each time that it has halved since, and when it is back."""

    def __init__(self, free_bytes: Callable[[], int], warning_bytes: int) -> None:
        """`warning_bytes` is the threshold; 0 for none."""
        self._free_bytes = free_bytes
        self._warning_bytes = warning_bytes
        self._told_bytes: int | None = None
        """As last told; None while there is enough."""

    def look(self) -> None:
        """Look how much is free. Raises `StoreUnavailable` if nobody can tell."""
        free_bytes = self._free_bytes()
        if free_bytes >= self._warning_bytes:
            if self._told_bytes is not None:
                self._told_bytes = None
                log.info("the disk has enough free space again", free_bytes=free_bytes)
            return
        if self._told_bytes is None or free_bytes <= self._told_bytes // 2:
            self._told_bytes = free_bytes
            log.warning(
                "the disk is nearly full",
                free_bytes=free_bytes,
                disk_warning_bytes=self._warning_bytes,
                refuses_below_bytes=LEAST_FREE_BYTES,
            )
