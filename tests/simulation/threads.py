"""Threads that take turns: one runs only while the simulator waits for it, so every run is the same.

They stand in for `threading` and `time` where the node has work done beside its event loop. Such work gives way at its
own pauses; here each pause is a place where the simulator may let anything else happen.
"""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from tests.simulation.disk import Crash

_current: "Turns | None" = None


class Turns:
    """A real thread, which goes on from one pause to the next when it is told to."""

    started: list["Turns"] = []
    """Those that have begun and not ended, in their order."""

    def __init__(self, target: Callable[[], None], name: str = "", daemon: bool = True) -> None:
        self._target = target
        self._mine = threading.Semaphore(0)
        self._main = threading.Semaphore(0)
        self._killed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.is_idle = False
        """It waits for something to do."""
        self.is_done = False
        self.failure: BaseException | None = None

    def start(self) -> None:
        Turns.started.append(self)
        self._thread.start()

    def step(self) -> None:
        """Let it run up to its next pause."""
        global _current
        if self.is_done:
            return
        before, _current = _current, self
        self._mine.release()
        self._main.acquire()
        _current = before

    def join(self) -> None:
        while not self.is_done:
            self.step()

    def kill(self) -> None:
        """It never comes back from its pause."""
        self._killed = True
        self.join()

    def pause(self, idle: bool = False) -> None:
        self.is_idle = idle
        self._main.release()
        self._mine.acquire()
        self.is_idle = False
        if self._killed:
            raise Crash

    def _run(self) -> None:
        self._mine.acquire()
        try:
            if not self._killed:
                self._target()
        except Crash:
            pass
        except BaseException as failure:
            self.failure = failure
        self.is_done = True
        Turns.started.remove(self)
        self._main.release()


class Condition:
    """Whoever holds it is alone anyway."""

    def __enter__(self) -> "Condition":
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def notify(self) -> None:
        pass

    def wait_for(self, predicate: Callable[[], bool]) -> None:
        while not predicate():
            pause(idle=True)


def pause(idle: bool = False) -> None:
    """In a thread of these, give way; elsewhere nothing."""
    if _current is not None:
        _current.pause(idle)


class Threading:
    """What the node finds as `threading`."""

    Thread = Turns
    Condition = Condition


@contextmanager
def no_leftovers() -> Generator[None, None, None]:
    """End what is still in a pause when a run is over."""
    Turns.started.clear()
    try:
        yield
    finally:
        for thread in list(Turns.started):
            thread.kill()
