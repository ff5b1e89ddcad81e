"""A client that does not read, seen from outside: when the node has let it go, and what it may have said by then."""

import asyncio
import time
from collections.abc import Sequence

from websockets.asyncio.client import ClientConnection

STALL_TIMEOUT_S = 0.4
"""For nodes of these tests: CAIRN_WS_STALL_TIMEOUT_S."""
LINGER_S = 30.0
"""So long the node waits for its goodbye to be read; then it only hangs up."""
ROUNDS = 32
"""The node counts its limit in eighths, and each of them twice at most; two rounds see the end of one."""


async def outlast_stall(others: Sequence[ClientConnection]) -> None:
    """Return once the time of a client that does not read is over at the workers of `others`.

    Not by our clock: a worker that answers a ping has looked at its own, however late.
    """
    for _ in range(ROUNDS):
        await asyncio.sleep(STALL_TIMEOUT_S / 8)
        answers = [await other.ping() for other in others]
        await asyncio.gather(*answers)


def assert_let_go(code: int | None, filled_at: float) -> None:
    """The code is the node's goodbye, unless nobody read it in time. No buffer was full before `filled_at`."""
    if time.monotonic() - filled_at < LINGER_S:
        assert code == 1013
    else:
        assert code in (1013, 1006, None)
