"""A stop that comes before there is a supervisor to act on it."""

import os
import signal
from types import FrameType


class Terminal:
    """The controlling terminal at the program's start; a service has none."""

    def __init__(self) -> None:
        self.was_there = _is_there()

    def is_gone(self) -> bool:
        """Whether there was one, and it was closed. A hang-up of another origin is an order of the operator's."""
        return self.was_there and not _is_there()


def _is_there() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return False
    return True


_told: list[int] = []
_terminals: list[Terminal] = []


def note_stops() -> None:
    """Until the supervisor takes over, a stop is only noted; the supervisor then stops at once.

    After the supervisor, too, so that a hang-up does not end a program that saves its chain. Ignored ones stay ignored.

    A handler that raised would not always end the program: in the callbacks of weak references, of which every import
    calls some, what it raises is lost, and a class that is being made turns it into another error.
    """
    _told.clear()
    # Now, since it may be closed before there is a supervisor.
    _terminals[:] = [Terminal()]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _note)


def told() -> bytes:
    """The signals that came."""
    return bytes(_told)


def terminal() -> Terminal:
    """The one that the program was started in."""
    return _terminals[0] if _terminals else Terminal()


def _note(number: int, frame: FrameType | None) -> None:
    _told.append(number)
