"""Processes and their children, as /proc shows them, and how much of the machine others had meanwhile."""

import os
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
MAX_DISTURBANCE_CORES = 1 / 3


def descendants(pid: int) -> list[int]:
    """All that the process started, and what those started."""
    children: dict[int, list[int]] = defaultdict(list)
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and (fields := _stat(int(directory.name))) is not None:
            children[int(fields[1])].append(int(directory.name))
    found, ahead = [], [pid]
    while ahead:
        started = children[ahead.pop()]
        found += started
        ahead += started
    return sorted(found)


def _stat(pid: int) -> list[str] | None:
    """The fields after the name: state, parent and so on. None when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def tree_cpu_s(pid: int) -> float:
    """User and system time of a process and its descendants, including of those that have ended and were waited for."""
    ticks = 0
    for each in (pid, *descendants(pid)):
        fields = _stat(each)
        if fields is not None:
            ticks += sum(map(int, fields[11:15]))
    return ticks / TICKS_PER_S


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Cores that others had: other processes of this machine, and other machines of its host."""

    others_cores: float
    stolen_cores: float

    @property
    def is_too_much(self) -> bool:
        return self.others_cores + self.stolen_cores > MAX_DISTURBANCE_CORES


@dataclass(frozen=True, slots=True)
class Usage:
    """What the machine and we ourselves had used at one time."""

    at: float
    busy_s: float
    """User and system time of all processes. Interrupts are left out: who caused them is not counted."""
    stolen_s: float
    own_s: float

    @classmethod
    def now(cls) -> "Usage":
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        user, nice, system, stolen = (int(fields[at]) / TICKS_PER_S for at in (0, 1, 2, 7))
        return cls(time.monotonic(), user + nice + system, stolen, tree_cpu_s(os.getpid()))

    def disturbance_since(self, before: "Usage") -> Disturbance:
        seconds = max(self.at - before.at, 1e-9)
        others_s = (self.busy_s - before.busy_s) - (self.own_s - before.own_s)
        return Disturbance(max(0.0, others_s / seconds), (self.stolen_s - before.stolen_s) / seconds)
