"""Tiny real processes under a real supervisor: `python -m tests.support.supervised SCENARIO [SOCKET]`.

With SOCKET there is an engine too, which works for the core through that file.

Each process says its name and id on standard output when it starts, and what ended it.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from cairn import supervisor
from cairn.config import EXIT_FATAL
from cairn.log import configure_logging
from cairn.supervisor import EngineChild, Supervisor


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def wait_for_end(name: str, lifeline: int) -> int:
    """Serve nothing until SIGTERM, or until the supervisor is gone."""
    reader, writer = os.pipe()
    signal.signal(signal.SIGTERM, lambda number, frame: os.write(writer, b"t"))
    say(f"started {name} {os.getpid()}")
    ready, _, _ = select.select([reader, lifeline], [], [])
    say(f"{name} ended by {'SIGTERM' if reader in ready else 'lifeline'}")
    return 0


def ignore_everything(name: str, lifeline: int) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say(f"started {name} {os.getpid()}")
    while True:
        time.sleep(60)


def end_at_once(name: str, code: int, lifeline: int) -> int:
    say(f"started {name} {os.getpid()}")
    return code


def fail(name: str, lifeline: int) -> int:
    say(f"started {name} {os.getpid()}")
    raise RuntimeError("a mistake of ours")


def listen_late(name: str, socket: Path, lifeline: int) -> int:
    """A core that takes a while until it listens for its engine."""
    time.sleep(0.3)
    socket.unlink(missing_ok=True)
    socket.touch()
    say("core listens")
    return wait_for_end(name, lifeline)


def build(scenario: str, socket: Path | None) -> Supervisor:
    core: Callable[[int], int] = partial(wait_for_end, "core")
    workers: list[Callable[[int], int]] = [partial(wait_for_end, f"worker-{index}") for index in range(2)]
    delay_s = 0.0
    engine: Callable[[int], int] = partial(wait_for_end, "engine")
    if socket is not None:
        core = partial(listen_late, "core", socket)
    match scenario:
        case "steady":
            pass
        case "slow drain":
            delay_s = 0.5
        case "fatal core":
            core = partial(end_at_once, "core", EXIT_FATAL)
        case "fatal worker":
            workers[0] = partial(end_at_once, "worker-0", EXIT_FATAL)
        case "failing worker":
            workers[0] = partial(fail, "worker-0")
        case "stubborn":
            supervisor.STOP_LIMIT_S = 0.7
            core = partial(ignore_everything, "core")
            workers[0] = partial(ignore_everything, "worker-0")
        case "stubborn for long":
            # Wide enough for a busy machine: the test sends two signals that must count as one.
            supervisor.SAME_KEYPRESS_S = 1.5
            supervisor.STOP_LIMIT_S = 60
            core = partial(ignore_everything, "core")
        case "quitting engine":
            engine = partial(end_at_once, "engine", EXIT_FATAL)
        case "hanging engine":
            supervisor.ENGINE_STOP_LIMIT_S = 0.5
            engine = partial(ignore_everything, "engine")
        case _:
            raise ValueError(scenario)
    child = None if socket is None else EngineChild("engine", engine, socket=socket)
    return Supervisor(core, workers, delay_s, on_stop=lambda: say("listener closed"), engine=child)


if __name__ == "__main__":
    configure_logging("info", "json")
    running = build(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None)
    running.call_later(0.0, lambda: say("timer ran"))
    sys.exit(running.run())
