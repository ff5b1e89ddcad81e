"""Runs the node's processes: starts them, restarts those that die or hang, stops them all in order.

Plain and single-threaded on purpose: it forks, so it must never hold a thread or an event loop, and it must outlive
every mistake of the processes below it. All waiting happens in one `select` over signals and the next timer.
"""

import faulthandler
import heapq
import itertools
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Protocol

import structlog

from cairn import early_stop, metrics
from cairn.board import Board, Fault
from cairn.clock_jumps import ClockJumps
from cairn.config import EXIT_FATAL, EXIT_VERSION
from cairn.heartbeat import SharedPage, Slot, Work, begin
from cairn.log import TRACE, tell_repeats
from cairn.readiness import ReadinessLog
from cairn.refusal_log import RefusalLog
from cairn.running_clock import RunningClock
from cairn.service_manager import ServiceManager
from cairn.temporary import STOP_SIGNALS
from cairn.watchdog import LOOK_S, STOPPED, WAITING, Finding, ProcessWatch, look_at

EXIT_OK = 0
EXIT_FORCED = 130
"""What a shell reports for a program that Ctrl-C ended."""

STOP_LIMIT_S = 4.0
"""After the drain delay, whoever still runs this long after the stop began is killed: the promise is 5 s in all."""
STOP_MARGIN_S = 5.0
"""For what follows the end of the last process. A service manager waits for it before it kills the supervisor."""
STABLE_AFTER_S = 5.0
"""A process that lived this long died by accident; one that did not may die again at once, so it waits."""
FIRST_BACKOFF_S = 0.05
LONGEST_BACKOFF_S = 2.0
ENGINE_STOP_LIMIT_S = 2.0
"""An engine that still runs this long after it was told to stop, or after its core went away, is killed."""
ENGINE_POLL_S = 0.05
NAP_S = 0.2
"""While a timer runs, the supervisor sleeps no longer than this at a time, so that its clock sees a pause."""
TRACE_SIGNAL = signal.SIGUSR2
"""Has a process write down where each of its threads is."""
TRACE_S = 1.0
"""How long a hung process may take to write that, before it is killed."""
LONGEST_TRACE_BYTES = 32 * 1024
HANG_UP_S = 1.0
"""How long after a SIGHUP it is seen whether the terminal was closed."""
SILENT_S = 3.0
"""A core that has been silent for so long is at fault, or its disk is; GET /ready takes as long to say so."""
SAME_KEYPRESS_S = 0.5
"""Wrappers pass Ctrl-C on to a child that already got it from the terminal; within this time it counts once."""

_WATCHED = (signal.SIGCHLD, *STOP_SIGNALS)

log = structlog.get_logger("cairn.supervisor")


@dataclass(slots=True)
class Child:
    """One process of the node, over all its restarts."""

    name: str
    entry: Callable[[int], int]
    """Runs in the forked process, with the lifeline to watch, and gives the exit code."""
    slot: Slot | None = None
    """Where it shows that it is alive; None for a program that does not."""
    pid: int | None = None
    started_at: float = 0.0
    early_deaths: int = 0
    watch: ProcessWatch | None = None
    """None once it was found to hang."""
    patience: int = 1
    trace_file: int = -1
    """Where it writes down what its threads are at, when it is asked or crashes; -1 for a program that does not."""

    def back_off_s(self, now: float) -> float:
        """How long to wait before the next start, after an end at `now`."""
        if now - self.started_at >= STABLE_AFTER_S:
            self.early_deaths = 0
            return 0.0
        self.early_deaths += 1
        return min(FIRST_BACKOFF_S * 2.0 ** (self.early_deaths - 1), LONGEST_BACKOFF_S)

    def take_trace(self) -> dict[str, str]:
        """What it has written down in this life, as a field for the log; empty if it has not."""
        if self.trace_file < 0:
            return {}
        trace = os.pread(self.trace_file, LONGEST_TRACE_BYTES, 0)
        os.ftruncate(self.trace_file, 0)
        os.lseek(self.trace_file, 0, os.SEEK_SET)
        return {TRACE: trace.decode(errors="replace").rstrip()} if trace else {}


SocketIdentity = tuple[int, int]


@dataclass(slots=True)
class EngineChild(Child):
    """A program that connects to a socket of the core (CometBFT); it is started once the core listens there."""

    socket: Path = Path()
    not_before: float = 0.0
    """Back-off after its last end."""
    serves: SocketIdentity | None = None
    """The socket that it was started for."""
    left_at: float | None = None
    """When that socket was first seen to be gone or another."""
    words: "EngineWords | None" = None

    def listening(self) -> SocketIdentity | None:
        """Identifies the core's socket; a restarted core has another one."""
        try:
            found = self.socket.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_ctime_ns

    def is_left(self, now: float) -> bool:
        """Whether it hangs: it should have ended by itself when its core went away."""
        if self.listening() == self.serves:
            self.left_at = None
        elif self.left_at is None:
            self.left_at = now
        return self.left_at is not None and now - self.left_at >= ENGINE_STOP_LIMIT_S


class EngineWords(Protocol):
    """What an engine writes about itself."""

    def begin_life(self) -> None:
        """It is about to be started."""

    def last_words(self) -> Sequence[str]:
        """The latest errors that it has written in this life."""


class Supervisor:
    """Owns the core, the workers and the engine from the first fork to the last exit."""

    def __init__(
        self,
        core: Callable[[int], int],
        workers: Sequence[Callable[[int], int]],
        drain_delay_s: float,
        on_stop: Callable[[], None],
        on_reload: Callable[[], bool] = lambda: False,
        engine: EngineChild | None = None,
        parent_pipe: int | None = None,
        service: ServiceManager | None = None,
        board: Board | None = None,
        tells_start: bool = True,
    ) -> None:
        """`on_reload` reads the settings again, and says whether the other processes are to do so, too.

        With `parent_pipe`, the node also stops when the program that holds the other end of it is gone. `board` shows
        what the core knows to be wrong. Without `tells_start` the log does not say that the node is ready.
        """
        self._board = board or Board()
        self._engines = [] if engine is None else [engine]
        self._page = SharedPage(1 + len(workers))
        core_slot, *slots = self._page.slots
        self._core = Child("cairn-core", core, core_slot)
        self._workers = [
            Child(f"cairn-api-{index}", entry, slot)
            for index, (entry, slot) in enumerate(zip(workers, slots, strict=True))
        ]
        for child in (self._core, *self._workers):
            child.trace_file = open_trace_file()
        self._children = [*self._engines, self._core, *self._workers]
        metrics.PAGE.share(
            [metrics.SUPERVISOR, *(child.name for child in (self._core, *self._workers, *self._engines))]
        )
        metrics.PAGE.started(metrics.SUPERVISOR, os.getpid())
        self._drain_delay_s = drain_delay_s
        self._on_stop = on_stop
        self._on_reload = on_reload
        self._service = service or ServiceManager({})
        self._terminal = early_stop.terminal()
        self._timers = Timers()
        self._readiness = ReadinessLog(self._timers.now(), tells_start)
        self._clock_jumps = ClockJumps()
        self._refusals = RefusalLog(self._timers.now())
        self._signals = SignalPipe(parent_pipe)
        # Only this process holds the write end: however it ends, its children see the end of file and leave too.
        self._lifeline, self._lifeline_writer = os.pipe()
        self._stopped_at: float | None = None
        self._exit_code = EXIT_OK

    def call_later(self, delay_s: float, action: Callable[[], object]) -> None:
        """Run `action` between two signals, unless the stop has begun."""
        self._timers.add(delay_s, action)

    def became_ready(self, url: str) -> None:
        """GET /ready was 200 for the first time."""
        self._readiness.became_ready(self._timers.now(), url)

    def fail(self, exit_code: int) -> None:
        """End the node because of something that a restart does not mend."""
        self._exit_code = exit_code
        self._stop(drain_delay_s=0)

    def run(self) -> int:
        """Run until a signal or a fatal finding ends the node. Returns the exit code; no child is left."""
        with self._signals:
            try:
                for child in (self._core, *self._workers):
                    self._start(child)
                for engine in self._engines:
                    self._tend(engine)
                self._watch()
                while self._stopped_at is None or any(child.pid for child in self._children):
                    self._signals_received(self._timers.wait(self._signals.wait))
                    self._timers.run_due()
            finally:
                self._kill_all()
                os.close(self._lifeline_writer)
                os.close(self._lifeline)
                for child in (self._core, *self._workers):
                    os.close(child.trace_file)
        tell_repeats(is_last=True)
        flush_output(is_last=True)
        return self._exit_code

    def _start(self, child: Child) -> None:
        flush_output()
        if child.slot is not None:
            child.slot.work = Work.STARTING
        reloads = self._page.reloads
        # Until the child has its own handlers, a signal to it would be written into our pipe as if it were ours.
        signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        try:
            child.pid = os.fork()
            if child.pid == 0:
                self._become(child, reloads)
        except OSError as error:
            # The machine is out of processes or memory for now; what already runs goes on.
            log.error("cannot start a process, trying again", process=child.name, reason=error.strerror)
            self._timers.add(LONGEST_BACKOFF_S, lambda: self._start(child))
            return
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
        metrics.PAGE.started(child.name, child.pid)
        child.started_at = self._timers.now()
        child.watch = ProcessWatch(child.started_at, look_at(child.pid, child.slot), child.patience)

    def _watch(self) -> None:
        """Look whether every process still runs, again and again."""
        self._timers.add(LOOK_S, self._watch)
        tell_repeats()
        now = self._timers.now()
        for child in self._children:
            if child.pid is not None and child.watch is not None:
                finding = child.watch.take(now, look_at(child.pid, child.slot))
                if finding is not None:
                    self._found(child, child.watch, finding)
        for engine in self._engines:
            if engine.pid is not None and engine.is_left(now):
                log.warning("killed: it did not end with its core", process=engine.name)
                send(signal.SIGKILL, [engine])
        self._readiness.take(now, self._find_fault())
        self._clock_jumps.look()
        self._refusals.look(now)
        # Not before every process was looked at: while that works, the supervisor itself replaces those that hang.
        self._service.alive()

    def _find_fault(self) -> Fault | None:
        """What is wrong: by what is seen of the core, or else by what it says itself."""
        watch = self._core.watch
        if self._core.pid is None:
            return Fault("core", "the core has ended, and is started again")
        if watch is None:
            return Fault("core", "the core hangs, and is replaced")
        if watch.silent_s < SILENT_S:
            return self._board.fault
        look = watch.last
        if look.state == STOPPED:
            return Fault("core", "the core is stopped, as by SIGSTOP")
        if look.state == WAITING or look.work is Work.DISK:
            return Fault("disk", f"the core has waited for the disk for {watch.silent_s:.0f} s")
        return Fault("core", f"the core does not answer while it is {look.work.described}")

    def _found(self, child: Child, watch: ProcessWatch, finding: Finding) -> None:
        facts = {"process": child.name, "how": finding.described, "for_s": round(finding.silent_s, 1)}
        if not finding.is_hung:
            log.warning("a process takes long", **facts)
            return
        child.patience, child.watch = watch.next_patience(), None
        if finding.state == STOPPED or child.slot is None:
            self._end_hung(child, child.pid, facts)
        else:
            send(TRACE_SIGNAL, [child])
            self._timers.add(TRACE_S, partial(self._end_hung, child, child.pid, facts))

    def _end_hung(self, child: Child, pid: int | None, facts: Mapping[str, object]) -> None:
        if child.pid == pid:
            send(signal.SIGKILL, [child])
        # Only now: if nobody reads what is logged, this may take forever.
        log.error("a process hangs, it is killed and started again", **facts, **child.take_trace())

    def _tend(self, engine: EngineChild) -> None:
        """Start the engine once the core listens."""
        listening = engine.listening()
        if listening is not None and self._timers.now() >= engine.not_before:
            engine.serves, engine.left_at = listening, None
            if engine.words is not None:
                engine.words.begin_life()
            self._start(engine)
        else:
            self._timers.add(ENGINE_POLL_S, partial(self._tend, engine))

    def _become(self, child: Child, reloads: int) -> None:
        """Be the child, in the forked process. Never returns: nothing of the supervisor may run here."""
        code = 1
        try:
            self._signals.forget()
            os.close(self._lifeline_writer)
            # The terminal sends Ctrl-C and hang-up to all; only the supervisor may act on it, so that they can drain.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
            name_process(child.name)
            metrics.PAGE.become(child.name)
            if child.slot is not None:
                begin(self._page, child.slot, reloads)
                faulthandler.register(TRACE_SIGNAL, file=child.trace_file)
                # Where a crash in C would end it without a word.
                faulthandler.enable(file=child.trace_file)
            code = child.entry(self._lifeline)
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
        except BaseException as failure:
            log.critical("a process fails by an error in the program", process=child.name, exc_info=failure)
        finally:
            tell_repeats(is_last=True)
            flush_output()
            os._exit(code)

    def _signals_received(self, numbers: Sequence[int]) -> None:
        if signal.SIGCHLD in numbers:
            self._reap()
        for number in numbers:
            if number == signal.SIGHUP:
                self._hung_up()
            elif number in STOP_SIGNALS:
                self._stop_asked(number)

    def _hung_up(self) -> None:
        """The terminal was closed, so stop; or else the operator wants settings and certificates to be read again."""
        if self._stop_if_hung_up():
            return
        self._service.reloading()
        if self._on_reload():
            self._page.ask_to_reload()
        self._service.reloaded()
        # Some shells tell their programs a moment before they end.
        self._timers.add(HANG_UP_S, self._stop_if_hung_up)

    def _stop_if_hung_up(self) -> bool:
        if self._stopped_at is None and self._terminal.is_gone():
            self._stop_asked(signal.SIGHUP)
        return self._stopped_at is not None

    def _reap(self) -> None:
        for child in self._children:
            if child.pid is None:
                continue
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                child.pid = None
                self._ended(child, os.waitstatus_to_exitcode(status))

    def _ended(self, child: Child, code: int) -> None:
        metrics.PAGE.ended(child.name)
        if code in (EXIT_FATAL, EXIT_VERSION) and not isinstance(child, EngineChild):
            # Whichever process found it: neither data nor program gets better by a restart.
            self.fail(code)
        elif self._stopped_at is None:
            delay_s = child.back_off_s(self._timers.now())
            how = {"process": child.name, "how": describe_exit(code), "in_s": delay_s}
            metrics.RESTARTS.inc(child.name)
            log.error("process ended, restarting", **how, **child.take_trace(), **last_words_of(child))
            if isinstance(child, EngineChild):
                # Whatever its exit code was: it exits with 0 when its core is gone.
                child.not_before = self._timers.now() + delay_s
                self._tend(child)
            else:
                self._timers.add(delay_s, lambda: self._start(child))
            if child is self._core:
                for engine in self._engines:
                    # Nobody listens there any more; the next core makes a new one.
                    engine.socket.unlink(missing_ok=True)
                    engine.left_at = self._timers.now()

    def _stop_asked(self, number: int) -> None:
        if self._stopped_at is None:
            log.info("stopping", signal=signal.Signals(number).name)
            self._stop(self._drain_delay_s)
        elif number == signal.SIGINT and self._timers.now() - self._stopped_at > SAME_KEYPRESS_S:
            log.warning("forced to stop at once")
            self._exit_code = self._exit_code or EXIT_FORCED
            self._kill_all()

    def _stop(self, drain_delay_s: float) -> None:
        """Signal engine and core first: no more blocks are made, and /ready is 503 while reads are still served.

        The workers end after the engine, and the core ends last.
        """
        if self._stopped_at is not None:
            return
        self._stopped_at = self._timers.now()
        self._service.stopping(within_s=drain_delay_s + STOP_LIMIT_S + STOP_MARGIN_S)
        self._timers.clear()
        send(signal.SIGTERM, [*self._engines, self._core])
        self._timers.add(ENGINE_STOP_LIMIT_S, lambda: send(signal.SIGKILL, self._engines))
        self._timers.add(drain_delay_s, self._stop_workers)
        self._timers.add(drain_delay_s + STOP_LIMIT_S, self._kill_stragglers)

    def _stop_workers(self) -> None:
        if any(engine.pid for engine in self._engines):
            # An engine whose core ends first may hang, and would have to be killed.
            self._timers.add(ENGINE_POLL_S, self._stop_workers)
            return
        self._on_stop()
        send(signal.SIGTERM, self._workers)

    def _kill_stragglers(self) -> None:
        log.warning("killed: took too long to stop", processes=[child.name for child in self._children if child.pid])
        self._kill_all()

    def _kill_all(self) -> None:
        send(signal.SIGKILL, self._children)
        for child in self._children:
            if child.pid is not None:
                os.waitpid(child.pid, 0)
                child.pid = None


def send(number: signal.Signals, children: Sequence[Child]) -> None:
    """Signal those that live. One that has ended is still ours until it is reaped, so its id cannot be another's."""
    for child in children:
        if child.pid is not None:
            os.kill(child.pid, number)


def last_words_of(child: Child) -> dict[str, Sequence[str]]:
    """What an engine said of its end, as a field for the log; empty if it said nothing."""
    words = child.words.last_words() if isinstance(child, EngineChild) and child.words is not None else ()
    return {"last_words": words} if words else {}


def open_trace_file() -> int:
    """A file of no name, in memory where the system has that: a process writes there while it cannot log."""
    if sys.platform == "linux":
        file = os.memfd_create("cairn-trace")
    else:
        with tempfile.TemporaryFile() as unnamed:
            file = os.dup(unnamed.fileno())
    return file


def flush_output(is_last: bool = False) -> None:
    """A reader that has gone or stands still ends no process, and keeps no child from ending.

    What stays in a buffer would change the exit code. So it is dropped if nobody will ever read it, and at the last
    flush in any case.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as failure:
            if is_last or isinstance(failure, BrokenPipeError):
                with open(os.devnull, "wb") as nothing:
                    os.dup2(nothing.fileno(), stream.fileno())


def has_ended(pipe: int) -> bool:
    """Whether a pipe in which there is something to read is at its end. A pipe that cannot be read has no writer."""
    try:
        return not os.read(pipe, 1024)
    except BlockingIOError:
        return False
    except OSError:
        return True


def describe_exit(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def name_process(name: str) -> None:
    """Show `name` in ps and top, where the system lets a process say so (Linux)."""
    try:
        with open("/proc/self/comm", "w") as comm:
            comm.write(name)
    except OSError:
        pass


class Timers:
    """Timers, in the order of time.

    Time during which this process did not run is not counted: a process that has seconds to stop must not be killed
    before it has had them.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._running = RunningClock(clock(), NAP_S)
        self._heap: list[tuple[float, int, Callable[[], object]]] = []
        self._order = itertools.count()

    def now(self) -> float:
        return self._running.look(self._clock())

    def add(self, delay_s: float, action: Callable[[], object]) -> None:
        heapq.heappush(self._heap, (self.now() + delay_s, next(self._order), action))

    def clear(self) -> None:
        self._heap.clear()

    def next_in_s(self) -> float | None:
        """Seconds until the next one is due; None when there is none."""
        return max(0.0, self._heap[0][0] - self.now()) if self._heap else None

    def wait(self, wait: Callable[[float | None], bytes]) -> bytes:
        """Call `wait` with the time until the next one is due, or with a part of it; with None when there is none."""
        next_in_s = self.next_in_s()
        return wait(None if next_in_s is None else min(next_in_s, NAP_S))

    def run_due(self) -> None:
        now = self.now()
        while self._heap and self._heap[0][0] <= now:
            heapq.heappop(self._heap)[2]()


class SignalPipe:
    """Signals as bytes in a pipe, in the order in which they came, so that one call waits for them and for a time."""

    def __init__(self, parent_pipe: int | None = None) -> None:
        """The end of `parent_pipe` counts as SIGTERM."""
        self._parent_pipe = parent_pipe

    def __enter__(self) -> "SignalPipe":
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._previous_fd = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        # With nohup the program must outlive the terminal: a hang-up that was ignored before stays ignored.
        numbers = [n for n in _WATCHED if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]
        self._previous = {number: signal.signal(number, _note) for number in numbers}
        os.write(self._writer, early_stop.told())
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_fd)
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, timeout_s: float | None) -> bytes:
        """The numbers of the signals that came; empty when none did in time."""
        pipe = self._parent_pipe
        ready = select.select([self._reader] if pipe is None else [self._reader, pipe], [], [], timeout_s)[0]
        if self._reader in ready:
            return os.read(self._reader, 1024)
        if pipe is not None and pipe in ready and has_ended(pipe):
            log.info("the pipe of the parent process has ended")
            self._parent_pipe = None
            return bytes([signal.SIGTERM])
        return b""

    def forget(self) -> None:
        """Let go of the pipe in a forked child."""
        signal.set_wakeup_fd(-1)
        os.close(self._reader)
        os.close(self._writer)


def _note(number: int, frame: FrameType | None) -> None:
    """The pipe has it already; without a handler the system would act in our place."""
