"""The machine, and what the node's processes cost on it, as the kernel counts it (Linux)."""

import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Memory:
    rss_mb: float
    """Pages that processes share are counted once for each."""
    pss_mb: float
    """Shared pages are counted once in all: what the machine really gives."""


class Machine(msgspec.Struct, frozen=True):
    processor: str
    cores: int
    memory_gb: float
    disk: str
    system: str
    python: str

    def __str__(self) -> str:
        return (
            f"{self.cores} cores of {self.processor}, {self.memory_gb:.0f} GB of memory, {self.disk}, {self.system},"
            f" Python {self.python}"
        )


def this_machine() -> Machine:
    cpu = Path("/proc/cpuinfo").read_text()
    models = [line.partition(":")[2].strip() for line in cpu.splitlines() if line.startswith("model name")]
    memory_kb = int(Path("/proc/meminfo").read_text().split()[1])
    scratch = subprocess.run(["df", "--output=fstype", tempfile.gettempdir()], capture_output=True, text=True).stdout
    return Machine(
        processor=models[0] if models else platform.machine(),
        cores=os.cpu_count() or 1,
        memory_gb=memory_kb / 2**20,
        disk=f"data on {scratch.split()[-1] if scratch.split() else 'an unknown file system'}",
        system=f"Linux {platform.release().partition('-')[0]}",
        python=platform.python_version(),
    )


def cpu_seconds(pids: Sequence[int]) -> float:
    """User and system time of all threads of all these processes, the background ones of RocksDB included."""
    return sum(_cpu_ticks(pid) for pid in pids) / _TICKS_PER_S


def run_time_s(pids: Sequence[int]) -> float:
    """Time that the main threads of these processes ran, to the nanosecond."""
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids) / 1e9


class Stolen:
    """How much of the machine's processor time its host gave to others since this was made.

    Such time counts as processor time of whoever was running, so no clock leaves it out.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._stolen_s = _stolen_s()

    def percent(self) -> float:
        there_s = (time.monotonic() - self._began) * (os.cpu_count() or 1)
        return 100 * (_stolen_s() - self._stolen_s) / there_s


def _stolen_s() -> float:
    return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8]) / _TICKS_PER_S


def _cpu_ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        # A short command of a node that starts has ended since its processes were listed.
        return 0
    user, system = int(fields[11]), int(fields[12])
    return user + system


def memory(pids: Sequence[int]) -> Memory:
    rss_kb = pss_kb = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name == "Rss":
                rss_kb += int(rest.split()[0])
            elif name == "Pss":
                pss_kb += int(rest.split()[0])
    return Memory(rss_kb / 1024, pss_kb / 1024)
