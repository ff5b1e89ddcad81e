"""Threads that take turns: one runs only while the simulator waits for it, so every run is the same.

They stand in for `threading`, `time` and `ThreadPoolExecutor` where the node has work done beside its event loop. Which
of them runs, the seed decides: each pause, lock and operation of the disk or the database is a place where a thread may
be left and another go on, the event loop's among them. What lies between two such places is never interrupted.
"""

import asyncio
import random
import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from tests.simulation.disk import Crash, is_aside

_current: "Turns | None" = None
_chance = random.Random(0)
GIVES_WAY = 0.1
"""How often another thread comes first."""
LONGEST_TURNS = 3
LATEST_S = 0.02
"""How long a thread of an executor may wait for its next turn."""


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
    """A lock, held over whatever turns come while its holder has it."""

    def __init__(self) -> None:
        self._holder: Turns | None = None
        self._is_held = False

    def __enter__(self) -> "Condition":
        give_way()
        while self._is_held:
            if _current is not None:
                _current.pause()
            elif self._holder is not None:
                self._holder.step()
            else:
                raise RuntimeError("the event loop waits for a lock that it holds itself")
        self._is_held, self._holder = True, _current
        return self

    def __exit__(self, *exc: object) -> None:
        self._is_held, self._holder = False, None
        if exc[0] is None:
            give_way()

    def notify(self) -> None:
        pass

    def wait_for(self, predicate: Callable[[], bool]) -> None:
        while not predicate():
            self._is_held, self._holder = False, None
            pause(idle=True)
            while self._is_held:
                pause()
            self._is_held, self._holder = True, _current


class Executor:
    """What the node finds as `ThreadPoolExecutor`: as many threads, each of which takes its turns."""

    def __init__(self, max_workers: int = 1, thread_name_prefix: str = "") -> None:
        self._free = max_workers
        self._is_alive = True
        self._name = thread_name_prefix
        self._waiting: deque[Callable[[], None]] = deque()
        self._running: list[Turns] = []

    def run(self, loop: asyncio.AbstractEventLoop, work: Callable[[], Any]) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = loop.create_future()

        def target() -> None:
            try:
                result = work()
            except Crash:
                future.cancel()
                raise
            except Exception as failure:
                if not future.cancelled():
                    future.set_exception(failure)
            else:
                if not future.cancelled():
                    future.set_result(result)

        def begin() -> None:
            if not self._is_alive:
                return
            thread = Turns(target, self._name)
            self._running.append(thread)
            thread.start()
            go_on(thread)

        def go_on(thread: Turns) -> None:
            thread.step()
            if thread.is_done:
                self._ended(thread)
            elif self._is_alive:
                loop.call_later(_chance.uniform(0, LATEST_S), go_on, thread)

        if self._free:
            self._free -= 1
            loop.call_later(_chance.uniform(0, LATEST_S), begin)
        else:
            self._waiting.append(begin)
        return future

    def _ended(self, thread: Turns) -> None:
        if thread in self._running:
            self._running.remove(thread)
            self._free += 1
        if self._waiting and self._free:
            self._free -= 1
            self._waiting.popleft()()

    def kill(self) -> None:
        """Its process is gone."""
        self._waiting.clear()
        for thread in self._running:
            thread.kill()
        self._running.clear()
        self._is_alive = False

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:
        if cancel_futures:
            self._waiting.clear()
        while self._running:
            self._running[0].join()
            self._ended(self._running[0])


def pause(idle: bool = False) -> None:
    """In a thread of these, give way; elsewhere nothing."""
    if _current is not None:
        _current.pause(idle)


def give_way() -> None:
    """Before something that another thread may notice: perhaps that one comes first."""
    if is_aside() or _chance.random() >= GIVES_WAY:
        return
    if _current is not None:
        _current.pause()
        return
    others = [thread for thread in Turns.started if not thread.is_idle]
    if others:
        thread = _chance.choice(others)
        for _ in range(_chance.randint(1, LONGEST_TURNS)):
            thread.step()


class Threading:
    """What the node finds as `threading`."""

    Thread = Turns
    Condition = Condition


@contextmanager
def no_leftovers(seed: int) -> Generator[None, None, None]:
    """End what is still in a pause when a run is over. `seed` decides whose turn it is."""
    _chance.seed(f"{seed}/threads")
    Turns.started.clear()
    try:
        yield
    finally:
        for thread in list(Turns.started):
            thread.kill()
