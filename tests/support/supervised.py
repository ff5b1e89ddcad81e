"""Tiny real processes under a real supervisor: `python -m tests.support.supervised SCENARIO [SOCKET]`.

With SOCKET there is an engine too, which works for the core through that file.

Each process says its name, its id and the time on standard output when it starts, and what ended it. The supervisor
says what it waits for. Limits are far off, so that a slow machine meets none, unless the scenario is about one.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from cairn import early_stop, log, supervisor, watchdog
from cairn.config import EXIT_FATAL
from cairn.heartbeat import keep_beating
from cairn.log import configure_logging
from cairn.supervisor import Child, EngineChild, SignalPipe, Supervisor
from tests.support.pace import PATIENCE_S

NEVER_S = 1e6
HANG_NOW = 0
"""Standard input: a process that is to hang does so once there is something to read."""
OUTERMOST = b" in _run_module_as_main\n"
"""The last line of a trace."""


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def say_started(name: str) -> None:
    say(f"started {name} {os.getpid()} {time.monotonic()}")


def wait_for_end(name: str, lifeline: int) -> int:
    """Serve nothing until SIGTERM, or until the supervisor is gone."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    # The system's handler writes, not ours: Python would call that only after a `select` which has just begun.
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    say_started(name)
    ready, _, _ = select.select([reader, lifeline], [], [])
    say(f"{name} ended by {'SIGTERM' if reader in ready else 'lifeline'}")
    return 0


def ignore_everything(name: str, lifeline: int) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say_started(name)
    while True:
        time.sleep(60)


def beat(name: str, reader: int, lifeline: int) -> None:
    """Beat until the supervisor ends, or until something can be read."""
    keep_beating(lambda delay_s, again: None)
    say_started(name)
    while not select.select([reader, lifeline], [], [], 0.02)[0]:
        keep_beating(lambda delay_s, again: None)
    if lifeline in select.select([lifeline], [], [], 0)[0]:
        os._exit(1)
    # The next life does not hang.
    os.read(reader, 1)


def reload(name: str, lifeline: int) -> int:
    """Say when the settings are to be read again."""
    beats: list[Callable[[], None]] = []
    signal.signal(signal.SIGTERM, lambda number, frame: _say_and_exit(f"{name} ended by SIGTERM"))
    keep_beating(lambda delay_s, again: beats.append(again), lambda: say(f"{name} reloads"))
    say_started(name)
    while not select.select([lifeline], [], [], 0.02)[0]:
        beats.pop()()
    return 0


def _say_and_exit(text: str) -> None:
    say(text)
    os._exit(0)


def hang_asleep(name: str, lifeline: int) -> int:
    """As in a lock that nobody gives back."""
    beat(name, HANG_NOW, lifeline)
    say(f"{name} hangs")
    sleep_for_ever()
    return 0


def sleep_for_ever() -> None:
    while True:
        time.sleep(60)


def hang_busy(name: str, lifeline: int) -> int:
    """As in a loop without an end."""
    beat(name, HANG_NOW, lifeline)
    say(f"{name} hangs")
    count_for_ever()
    return 0


def count_for_ever() -> None:
    while True:
        pass


def end_at_once(name: str, code: int, lifeline: int) -> int:
    say_started(name)
    return code


def fail(name: str, lifeline: int) -> int:
    say_started(name)
    raise RuntimeError("a mistake of ours")


def listen(name: str, socket: Path, delay_s: float, lifeline: int) -> int:
    """A core that takes a while until it listens for its engine."""
    time.sleep(delay_s)
    socket.unlink(missing_ok=True)
    # Said first: the supervisor may see the file before this process goes on.
    say("core listens")
    socket.touch()
    return wait_for_end(name, lifeline)


def build(scenario: str, socket: Path | None) -> Supervisor:
    core: Callable[[int], int] = partial(wait_for_end, "core")
    workers: list[Callable[[int], int]] = [partial(wait_for_end, f"worker-{index}") for index in range(2)]
    drain_delay_s = listen_delay_s = 0.0
    engine: Callable[[int], int] = partial(wait_for_end, "engine")
    parent_pipe = None
    supervisor.STABLE_AFTER_S = NEVER_S
    supervisor.STOP_LIMIT_S = supervisor.ENGINE_STOP_LIMIT_S = PATIENCE_S
    match scenario:
        case "steady":
            pass
        case "with a parent":
            parent_pipe = sys.stdin.fileno()
        case "drain":
            drain_delay_s = 0.2
        case "drain without end":
            drain_delay_s = NEVER_S
        case "fatal core":
            core = partial(end_at_once, "core", EXIT_FATAL)
        case "fatal worker":
            workers[0] = partial(end_at_once, "worker-0", EXIT_FATAL)
        case "failing worker":
            workers[0] = partial(fail, "worker-0")
        case "reloading" | "refusing to reload" | "reloading until the terminal ends":
            workers[0] = partial(reload, "worker-0")
        case "core that hangs asleep":
            watchdog.HANG_LIMIT_S = 1.0
            core = partial(hang_asleep, "core")
        case "worker that hangs busy":
            watchdog.HANG_LIMIT_S = 1.0
            workers[1] = partial(hang_busy, "worker-1")
        case "stopped processes are replaced":
            watchdog.HANG_LIMIT_S = 1.0
            # Those that start are given time, but not when they are stopped.
            workers[0] = partial(hang_asleep, "worker-0")
        case "stubborn":
            supervisor.STOP_LIMIT_S = 0.3
            core = partial(ignore_everything, "core")
            workers[0] = partial(ignore_everything, "worker-0")
        case "stubborn, every Ctrl-C another":
            supervisor.SAME_KEYPRESS_S = 0.0
            core = partial(ignore_everything, "core")
        case "stubborn, every Ctrl-C the same":
            supervisor.SAME_KEYPRESS_S = NEVER_S
            core = partial(ignore_everything, "core")
        case "late core":
            listen_delay_s = 0.3
        case "quitting engine":
            engine = partial(end_at_once, "engine", EXIT_FATAL)
        case "hanging engine":
            supervisor.ENGINE_STOP_LIMIT_S = 0.3
            engine = partial(ignore_everything, "engine")
        case _:
            raise ValueError(scenario)
    if socket is not None:
        core = partial(listen, "core", socket, listen_delay_s)
    child = None if socket is None else EngineChild("engine", engine, socket=socket)
    return PatientSupervisor(
        core,
        workers,
        drain_delay_s,
        on_stop=lambda: say(f"listener closed {time.monotonic()}"),
        on_reload=partial(reread, scenario, early_stop.Terminal()),
        engine=child,
        parent_pipe=parent_pipe,
    )


def reread(scenario: str, terminal: early_stop.Terminal) -> bool:
    """Read the settings, in the supervisor. Returns whether the others are to do so, too."""
    say("the supervisor reloads")
    if scenario == "reloading until the terminal ends":
        # Whoever ends it just after the signal may be slow, and the supervisor looks once, a moment later.
        while not terminal.is_gone():
            time.sleep(0.01)
    return scenario != "refusing to reload"


class PatientSupervisor(Supervisor):
    """Gives a process that hangs all the time that it needs on a slow machine to write down where it is."""

    def _end_hung(self, child: Child, pid: int | None, facts: Mapping[str, object]) -> None:
        is_stopped = str(facts["how"]).startswith("stopped")
        if is_stopped or OUTERMOST in os.pread(child.trace_file, supervisor.LONGEST_TRACE_BYTES, 0):
            super()._end_hung(child, pid, facts)
        else:
            self.call_later(0.05, partial(self._end_hung, child, pid, facts))


class SayingPipe(SignalPipe):
    def wait(self, timeout_s: float | None) -> bytes:
        say(f"waiting for {'a signal' if timeout_s is None else 'a timer'}")
        return super().wait(timeout_s)


if __name__ == "__main__":
    # The tests look at each line.
    log.REPEAT_S = 0.0
    configure_logging("info", "json")
    supervisor.SignalPipe = SayingPipe  # type: ignore[misc]
    running = build(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None)
    running.call_later(0.0, lambda: say("timer ran"))
    sys.exit(running.run())
