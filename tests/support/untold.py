"""Keeps a node that a test runs in its own process from telling of slowness: that of the machine is none of its own."""

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from cairn.api.server import exchange, http_protocol
from cairn.store import directory, rocks

LIMITS = [(directory, "SLOW_SYNC_S"), (rocks, "SLOW_SYNC_S"), (exchange, "SLOW_S"), (http_protocol, "SLOW_S")]
"""A sync or a request that takes longer has a line in the log, and the answer to such a request has a header more."""


@contextmanager
def untold_slowness() -> Iterator[None]:
    """Nothing is slow within it."""
    with ExitStack() as patches:
        for module, limit in LIMITS:
            patches.enter_context(patch.object(module, limit, math.inf))
        yield
