"""The processes that mutants are tried in: each with limits, and a temporary directory that goes when it ends."""

import os
import resource
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

CPU_SPARE_S = 3
"""On top of what the tests took before: for one that only became slow."""
CPU_TIMES = 10
MEMORY_BYTES = 4 * 1024**3


def cpu_limit_s(took_s: float) -> float:
    """No limit by the clock but the tests' own: on a busy machine it would end what only had to wait."""
    return CPU_SPARE_S + CPU_TIMES * took_s


class Children:
    """Of this process; all of them."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._started = 0
        self._directories: dict[int, Path] = {}

    def start(self, work: Callable[[], int], cpu_s: float | None = None) -> int:
        """Do `work` in a fork of this process, which ends with what it returns; the pid."""
        self._started += 1
        directory = self._scratch / f"{os.getpid()}-{self._started}"
        directory.mkdir()
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            self._directories[pid] = directory
            return pid
        status = 1
        try:
            # Here pytest makes its temporary directories.
            os.environ["PYTEST_DEBUG_TEMPROOT"] = str(directory)
            # Random tests then try the same each time, so that a mutant's fate is too.
            os.environ["CI"] = "mutants"
            if cpu_s is not None:
                _limit(int(cpu_s))
            status = work()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def wait(self, pid: int = -1) -> tuple[int, int]:
        """Until one ends, or that one; its pid and its status, below 0 for a signal."""
        while True:
            ended, status = os.waitpid(pid, 0)
            # A library may have started one too.
            directory = self._directories.pop(ended, None)
            if directory is not None:
                shutil.rmtree(directory, ignore_errors=True)
                return ended, os.waitstatus_to_exitcode(status)


def be_silent() -> None:
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)


def _limit(cpu_s: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
