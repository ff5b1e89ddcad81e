"""Time in tests: how long to wait for what must happen, and how fast the machine is while a promise is measured.

A test waits for events, not for time. Where it must give up at some point, it does so after `PATIENCE_S`: only what
hangs takes so long, even on a machine that has other work. Where the time itself is promised, `Pace` measures meanwhile
how much of a processor the test gets, and stretches the promise by it; and by each wait of seconds of anything that the
test started, while the test itself may have gone on.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from tests.support.descendants import descendants

PATIENCE_S = 300.0
BURST_S = 0.01
"""Longer than a scheduler's slice: a shorter burst would be over before anyone else had its turn."""
REST_S = 0.2
LOOK_S = 1.0
NORMAL = 1.5
"""What is tested shares the processors with its test; up to here limits hold as they are."""


class Waits:
    """Looks for long waits for a processor, of this process's threads and of all below it.

    The system adds each wait to its thread's sum when it is over. So if a sum has grown by more than the time since the
    last look, that was one long wait, and not many short ones among processes that keep each other busy.
    """

    def __init__(self) -> None:
        self._sums_s = dict(_waited())
        self._looked_at = time.monotonic()

    def longest_s(self) -> float:
        """The longest that has ended since the last look; 0 when there was none."""
        sums_s, now = dict(_waited()), time.monotonic()
        longest = max((sum_s - self._sums_s.get(thread, 0.0) for thread, sum_s in sums_s.items()), default=0.0)
        since_s = now - self._looked_at
        self._sums_s, self._looked_at = sums_s, now
        return longest if longest > since_s else 0.0


def _waited() -> Iterator[tuple[int, float]]:
    """How long each thread has waited for a processor so far. Nothing where the system does not say."""
    for pid in (os.getpid(), *descendants(os.getpid())):
        with suppress(FileNotFoundError, ProcessLookupError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                with suppress(FileNotFoundError, ProcessLookupError):
                    yield int(thread.name), int((thread / "schedstat").read_text().split()[1]) / 1e9


class Pace:
    """A thread that works a little now and then, and compares the time that it took with the time that it ran."""

    def __init__(self, is_paused: Callable[[], bool] = lambda: False) -> None:
        """`is_paused` tells of a standstill that this process has no part in: what is tested may be stopped alone."""
        self._is_paused = is_paused
        self._ran_s = self._took_s = self._paused_s = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)

    @property
    def slowness(self) -> float:
        """1 on a machine that is ours; above that, how many times as long things take that compute."""
        measured = self._took_s / self._ran_s if self._ran_s else 1.0
        return measured if measured > NORMAL else 1.0

    def stretch(self, limit_s: float) -> float:
        """What a limit for an idle machine comes to on this one, as it was so far."""
        return limit_s * self.slowness + self._paused_s

    def _measure(self) -> None:
        was_paused, waits, looks_at = False, Waits(), time.monotonic() + LOOK_S
        while True:
            slept = time.monotonic()
            if self._ended.wait(REST_S):
                return
            began, ran = time.monotonic(), time.thread_time()
            is_paused = self._is_paused()
            # Nobody wakes so late but where the whole machine, or the test with all it started, stood still. Of
            # what stood still alone rather a little more is counted than less.
            self._paused_s += began - slept if is_paused or was_paused else max(0.0, began - slept - 2 * REST_S)
            was_paused = is_paused
            if began >= looks_at:
                self._paused_s += waits.longest_s()
                looks_at = time.monotonic() + LOOK_S
                began, ran = time.monotonic(), time.thread_time()
            while time.thread_time() - ran < BURST_S:
                pass
            self._took_s += time.monotonic() - began
            self._ran_s += time.thread_time() - ran

    def __enter__(self) -> "Pace":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
