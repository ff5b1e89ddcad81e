"""Pipes whose reader does not read."""

import os
from contextlib import suppress


def fill_pipe(writer: int) -> int:
    """Make the pipe non-blocking, and write until it takes no more. Returns how much it has."""
    os.set_blocking(writer, False)
    filled = 0
    with suppress(BlockingIOError):
        while True:
            filled += os.write(writer, b"#" * 4096)
    return filled
