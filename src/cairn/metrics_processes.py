"""What the system says of a process: its processor time, memory and files. Each raises `OSError` if it says nothing."""

import os
import time
from functools import cache
from pathlib import Path

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_FILES_LIMIT = "Max open files"
# Of /proc/PID/stat, counted from behind the name, which may hold any character.
_USER, _SYSTEM, _STARTED, _RESIDENT = 11, 12, 19, 21


def cpu_seconds(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS_A_SECOND


def resident_bytes(pid: int) -> float:
    return int(_stat(pid)[_RESIDENT]) * _PAGE_BYTES


def start_time(pid: int) -> float:
    return _boot_time() + int(_stat(pid)[_STARTED]) / _TICKS_A_SECOND


def open_files(pid: int) -> float:
    directory = f"/proc/{pid}/fd"
    # Linux 6.2 and later say it; before, all names have to be read.
    return os.stat(directory).st_size or len(os.listdir(directory))


def max_files(pid: int) -> float:
    for line in Path(f"/proc/{pid}/limits").read_text().splitlines():
        if line.startswith(_FILES_LIMIT):
            soft = line.removeprefix(_FILES_LIMIT).split()[0]
            return float("inf" if soft == "unlimited" else soft)
    raise OSError(f"/proc/{pid}/limits has no line of open files")


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()


@cache
def _boot_time() -> float:
    """Once: that of a machine whose clock was set later would move, and with it every start."""
    # Not /proc/uptime: a service with ProcSubset=pid does not have it.
    return time.time() - time.clock_gettime(_SINCE_BOOT)
