"""How much of a processor a test gets while it measures: promised times are for a machine that is not starved.

A thread does a little work now and then, and compares the time that it took with the time that it ran. Alone on the
machine the two are the same, and limits hold as they are.
"""

import threading
import time
from types import TracebackType

BURST_S = 0.005
REST_S = 0.2
NORMAL = 1.5
"""The nodes of a network share the processors among themselves too; up to here limits hold as they are."""
MOST_STARVED = 4.0


class Pace:
    def __init__(self) -> None:
        self._ran_s = self._took_s = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)

    @property
    def slowness(self) -> float:
        """1 on a machine that is ours; above that, how many times as long things take that compute."""
        measured = self._took_s / self._ran_s if self._ran_s else 1.0
        return 1.0 if measured < NORMAL else min(measured, MOST_STARVED)

    def _measure(self) -> None:
        while not self._ended.wait(REST_S):
            began, ran = time.monotonic(), time.thread_time()
            while time.thread_time() - ran < BURST_S:
                pass
            self._took_s += time.monotonic() - began
            self._ran_s += time.thread_time() - ran

    def __enter__(self) -> "Pace":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
