"""Work on the store that takes long: a thread does it, and rests as long as it works, so that commits do not wait."""

import threading
import time
from collections.abc import Callable

import structlog

from cairn.domain.errors import Fatal, StoreUnavailable
from cairn.heartbeat import Work, doing
from cairn.store.chain import ChainStore

REST = 1.0
"""The thread pauses for this many times as long as it has worked."""
LEAST_REST_S = 0.0005
RETRY_S = 60.0
"""How long the thread waits after a failure that nobody expects."""
LOOK_S = 0.1
"""How often it looks meanwhile whether the node stops."""

log = structlog.get_logger("cairn.upkeep")


class NodeStops(Exception):
    """Ends work in a thread. What is unfinished is taken up, taken again or removed at the next start."""


class Upkeep:
    """One thread, which starts with the first work. Its owner must call `close` before the chain is closed."""

    name = "upkeep"

    def __init__(self, chain: ChainStore) -> None:
        self._chain = chain
        self._work = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._failure: Fatal | StoreUnavailable | None = None
        self._rested_at_s = 0.0
        self._on_failed: Callable[[], object] = lambda: None

    # What a kind of upkeep does.

    def _is_due(self) -> bool:
        """Whether there is work. Called in the thread, too."""
        raise NotImplementedError

    def _do(self) -> None:
        """Do it, and call `_pause` often. Raises `NodeStops`, or a failure with which the node must not continue."""
        raise NotImplementedError

    # Its thread.

    def check(self) -> None:
        """Raise a failure of the thread with which the node must not continue, if there was one."""
        if self._failure is not None:
            raise self._failure

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()
        with self._work:
            self._work.notify()

    @doing(Work.DISK)
    def close(self) -> None:
        """Return once the thread is done with the store."""
        with self._work:
            self._stopping = True
            self._work.notify()
        if self._thread is not None:
            self._chain.stop_compaction()
            self._thread.join()

    def _run(self) -> None:
        try:
            while True:
                with self._work:
                    self._work.wait_for(lambda: self._stopping or self._is_due())
                self._pause()
                self._try()
        except NodeStops:
            pass
        except (Fatal, StoreUnavailable) as failure:
            self._failure = failure
            self._on_failed()

    def _try(self) -> None:
        try:
            self._do()
        except (NodeStops, Fatal, StoreUnavailable):
            raise
        except Exception:
            # The chain can go on without it. The work is taken up where it was left, but not at once, forever.
            log.exception("upkeep of the store failed", work=self.name, retry_s=RETRY_S)
            until = time.monotonic() + RETRY_S
            while time.monotonic() < until:
                time.sleep(LOOK_S)
                if self._stopping:
                    raise NodeStops from None

    def _pause(self) -> None:
        """Rest in proportion to the work since the last rest. Raises `NodeStops`."""
        # The thread's own time: while it waits for others it is no burden to them.
        worked_s = time.thread_time() - self._rested_at_s
        time.sleep(max(LEAST_REST_S, REST * worked_s))
        if self._stopping:
            raise NodeStops
        self._rested_at_s = time.thread_time()
