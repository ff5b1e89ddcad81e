"""A page of memory that all processes of a node share: each shows there that it is alive, and what it is doing.

Workers also show there how many connections they have, so that none takes many more than the others.

Every process writes its own slot only, the supervisor its own, so nothing needs a lock. The page is made before the
first fork. A slot is as long as a line of the processor's cache, and has room for more numbers.
"""

import mmap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum

BEAT_S = 0.5
"""How often a process shows that its event loop turns."""

_WORDS = 8
_WORD_BYTES = 8
_BEATS, _WORK, _BESIDE, _CONNECTIONS = 0, 1, 2, 3
_RELOADS = 0


class Work(IntEnum):
    """What a process is doing between two turns of its event loop."""

    STARTING = 0
    RUNNING = 1
    OPENING = 2
    DISK = 3

    @property
    def described(self) -> str:
        return _DESCRIBED[self]

    @property
    def may_take_long(self) -> bool:
        """Whether it takes as long as the disk takes, or as there is data."""
        return self is not Work.RUNNING


_DESCRIBED = {
    Work.STARTING: "starting",
    Work.RUNNING: "running",
    Work.OPENING: "opening the chain",
    Work.DISK: "using the disk",
}


class Slot:
    """What one process shows of itself, over all its restarts."""

    def __init__(self, words: "memoryview[int]") -> None:
        self._words = words

    @property
    def beats(self) -> int:
        return self._words[_BEATS]

    @property
    def work(self) -> Work:
        return Work(self._words[_WORK])

    @work.setter
    def work(self, work: Work) -> None:
        self._words[_WORK] = work

    @property
    def shown(self) -> Work:
        """What keeps the event loop from turning, if it does not: RocksDB holds Python's lock while a thread writes."""
        return Work.DISK if self.work is Work.RUNNING and self._words[_BESIDE] else self.work

    def note_beside(self, uses: int) -> None:
        """Say how many uses of the disk other threads are at."""
        self._words[_BESIDE] = uses

    def beat(self) -> None:
        self._words[_BEATS] += 1

    @property
    def connections(self) -> int | None:
        """How many connections a worker has; None of a process that accepts none."""
        shown = self._words[_CONNECTIONS]
        return shown - 1 if shown else None

    @connections.setter
    def connections(self, count: int | None) -> None:
        self._words[_CONNECTIONS] = 0 if count is None else count + 1


class SharedPage:
    """One slot for each process, the core's first, and what the supervisor tells them all."""

    def __init__(self, processes: int) -> None:
        memory = mmap.mmap(-1, (1 + processes) * _WORDS * _WORD_BYTES)
        words = memoryview(memory).cast("Q")
        self._common, *slots = (words[at : at + _WORDS] for at in range(0, len(words), _WORDS))
        self.slots = [Slot(each) for each in slots]
        self.core = self.slots[0]

    @property
    def reloads(self) -> int:
        """How often the settings were to be read again."""
        return self._common[_RELOADS]

    def ask_to_reload(self) -> None:
        self._common[_RELOADS] += 1


class Heart:
    """A process's own end of the page. It belongs to the thread that made it: only that one shows the event loop."""

    def __init__(self, page: SharedPage, slot: Slot, reloads: int) -> None:
        """`reloads` is how many there had been when this process got its settings, at the fork."""
        self.slot = slot
        self.thread = threading.get_ident()
        self._page = page
        self._reloads = reloads
        self._beside = 0
        self._lock = threading.Lock()
        # The process before it may have been killed while a thread wrote.
        slot.note_beside(0)
        slot.connections = None

    def beat(self, call_later: Callable[[float, Callable[[], None]], object], on_reload: Callable[[], object]) -> None:
        """Beat from now on, in the event loop of `call_later`. `on_reload` is called when settings are to be reread."""
        self.slot.work = Work.RUNNING
        self.slot.beat()
        call_later(BEAT_S, lambda: self.beat(call_later, on_reload))
        if self._reloads != self._page.reloads:
            self._reloads = self._page.reloads
            on_reload()

    def fewest_elsewhere(self) -> int | None:
        """The fewest connections that another worker has; None if no other accepts any."""
        counts = [slot.connections for slot in self._page.slots if slot is not self.slot]
        return min((count for count in counts if count is not None), default=None)

    def work_of_core(self) -> Work:
        return self._page.core.shown

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Within it, this thread, another one, uses the disk."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def _count(self, more: int) -> None:
        with self._lock:
            self._beside += more
            self.slot.note_beside(self._beside)


_own: Heart | None = None
"""A process has one. There is none where nobody watches, as in tests."""


def begin(page: SharedPage, slot: Slot, reloads: int) -> None:
    """Let this process, a fork, show its life in `slot`. A reload after the first `reloads` is still to be done."""
    global _own
    _own = Heart(page, slot, reloads)


def keep_beating(
    call_later: Callable[[float, Callable[[], None]], object], on_reload: Callable[[], object] = lambda: None
) -> None:
    """Beat in the event loop of `call_later`, if this process is watched."""
    if _own is not None:
        _own.beat(call_later, on_reload)


def find_work_of_core() -> Work | None:
    """What the core is doing, as it shows; None where nobody watches."""
    return None if _own is None else _own.work_of_core()


def show_connections(count: int | None) -> None:
    """Show the other workers how many connections this one has; None once it accepts no more."""
    if _own is not None:
        _own.slot.connections = count


def fewest_connections_elsewhere() -> int | None:
    """The fewest connections that another worker has; None if there is no other."""
    return None if _own is None else _own.fewest_elsewhere()


@contextmanager
def doing(work: Work) -> Iterator[None]:
    """Within it, this process does `work`. Of other threads it is only shown whether one uses the disk."""
    if _own is None:
        yield
        return
    if _own.thread != threading.get_ident():
        with _own.beside():
            yield
        return
    slot = _own.slot
    before, slot.work = slot.work, work
    try:
        yield
    finally:
        slot.work = before
