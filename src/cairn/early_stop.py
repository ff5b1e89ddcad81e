"""A stop that comes before there is a supervisor to act on it."""

import signal
import sys
from types import FrameType

_told: list[int] = []


def leave_when_told() -> None:
    """Until the supervisor takes over there is nothing to drain: a stop just leaves, cleaning up on its way."""
    _told.clear()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)


def told() -> bytes:
    """The signals that came, for the case that none of them made the program leave.

    What a handler raises is lost in places where Python cannot pass it on, such as the callbacks of weak references, of
    which every import calls some.
    """
    return bytes(_told)


def _leave(number: int, frame: FrameType | None) -> None:
    _told.append(number)
    sys.exit(0)
