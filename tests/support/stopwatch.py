"""How long something takes, printed for whoever runs a test with `-s`."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def timed(what: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    print(f"\n{what}: {time.monotonic() - started:.1f} s")
