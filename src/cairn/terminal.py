"""Whether the terminal that a program was started in is still there."""

import os


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
