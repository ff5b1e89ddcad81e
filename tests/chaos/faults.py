"""What can be done to a running node: each fault begins, lasts a while, and ends."""

import os
import random
import resource
import signal
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Literal

from tests.chaos.node import TendedNode
from tests.chaos.shim import DiskFault

Who = Literal["core", "worker", "supervisor", "all"]
MEGABYTE = 1 << 20


class Fault(ABC):
    """`kind` is what the report counts it as, `str` what exactly is done."""

    kind: str

    @abstractmethod
    def begin(self, node: TendedNode) -> None: ...

    def end(self, node: TendedNode) -> None:
        """Most leave nothing behind."""
        return

    @property
    def struck(self) -> int:
        """How many calls a fault of the disk has struck."""
        return 0


class Disk(Fault):
    """Calls of the system fail, write a part, or take long."""

    def __init__(self, kind: str, fault: DiskFault) -> None:
        self.kind = f"disk: {kind}"
        self._fault = fault
        self._struck = 0

    def begin(self, node: TendedNode) -> None:
        assert node.shim is not None
        node.shim.begin(self._fault)

    def end(self, node: TendedNode) -> None:
        assert node.shim is not None
        self._struck = node.shim.end()

    @property
    def struck(self) -> int:
        return self._struck

    def __str__(self) -> str:
        return str(self._fault)


class Clock(Fault):
    """The wall clock jumps, and stays there until the next jump."""

    kind = "clock"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def begin(self, node: TendedNode) -> None:
        assert node.shim is not None
        node.shim.step_clock(self._seconds)

    def __str__(self) -> str:
        return f"clock {self._seconds:+,.1f} s from the right time"


class Kill(Fault):
    """SIGKILL. Without its supervisor the node ends; whoever looks after it then starts it again."""

    def __init__(self, who: Who, which: int = 0) -> None:
        self.kind = f"kill: {who}"
        self._who, self._which = who, which

    def begin(self, node: TendedNode) -> None:
        if self._who == "all":
            node.kill()
            return
        if self._who == "supervisor":
            node.expect_end()
        for pid in pids_of(node, self._who, self._which):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def __str__(self) -> str:
        return f"SIGKILL to {named(self._who, self._which)}"


class Power(Fault):
    """SIGKILL to all, and what was written and not synced is lost, in part or whole."""

    kind = "power"

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def begin(self, node: TendedNode) -> None:
        assert node.shim is not None
        node.kill()
        node.shim.cache.lose(random.Random(self._seed))

    def __str__(self) -> str:
        return "a loss of power"


class Pause(Fault):
    """SIGSTOP, and SIGCONT at the end."""

    def __init__(self, who: Who, which: int = 0) -> None:
        self.kind = f"pause: {who}"
        self._who, self._which = who, which
        self._stopped: list[int] = []

    def begin(self, node: TendedNode) -> None:
        for pid in pids_of(node, self._who, self._which):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                self._stopped.append(pid)

    def end(self, node: TendedNode) -> None:
        for pid in self._stopped:
            if is_ours(node, pid):
                os.kill(pid, signal.SIGCONT)

    def __str__(self) -> str:
        return f"SIGSTOP to {named(self._who, self._which)}"


class Limit(Fault):
    """A process may have no more than it has, and a little: file descriptors, or memory."""

    def __init__(self, what: Literal["descriptors", "memory"], who: Who, spare: int, which: int = 0) -> None:
        self.kind = f"{what}: {who}"
        self._what, self._who, self._which, self._spare = what, who, which, spare
        self._limited: dict[int, tuple[int, int]] = {}

    @property
    def _resource(self) -> int:
        return resource.RLIMIT_NOFILE if self._what == "descriptors" else resource.RLIMIT_AS

    def begin(self, node: TendedNode) -> None:
        for pid in pids_of(node, self._who, self._which):
            with suppress(ProcessLookupError, FileNotFoundError):
                before = resource.prlimit(pid, self._resource)
                resource.prlimit(pid, self._resource, (self._in_use(pid) + self._spare, before[1]))
                self._limited[pid] = before

    def _in_use(self, pid: int) -> int:
        if self._what == "descriptors":
            return len(list(Path(f"/proc/{pid}/fd").iterdir()))
        return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()

    def end(self, node: TendedNode) -> None:
        for pid, before in self._limited.items():
            if is_ours(node, pid):
                resource.prlimit(pid, self._resource, before)

    def __str__(self) -> str:
        spare = f"{self._spare} more" if self._what == "descriptors" else f"{self._spare // MEGABYTE} MB more"
        return f"{self._what} of {named(self._who, self._which)}: {spare} than now"


def pids_of(node: TendedNode, who: Who, which: int) -> list[int]:
    """Those that live now; of the workers one alone."""
    process = node.process
    if not process.is_running:
        return []
    if who == "supervisor":
        return [process.process.pid]
    if who == "all":
        return process.pids()
    if who == "worker":
        workers = process.worker_pids()
        return [workers[which % len(workers)]] if workers else []
    try:
        return [process.core_pid()]
    except LookupError:
        return []


def is_ours(node: TendedNode, pid: int) -> bool:
    """Whether a process of this life still has that number: another may have it by now."""
    try:
        return os.getpgid(pid) == node.process.process.pid
    except ProcessLookupError:
        return False


def named(who: Who, which: int) -> str:
    return f"worker {which}" if who == "worker" else "every process" if who == "all" else f"the {who}"
