"""What a node's processes hold: memory and file descriptors, as the kernel counts them."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.node_process import NodeProcess


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one process at one moment."""

    at_s: float
    rss_mb: float
    files: int
    """Descriptors of files on disk: RocksDB keeps its tables open."""
    others: int
    """Descriptors of sockets, pipes and the like: one more for each connection."""


class UsageLog:
    """Usage of every process over time, by its name."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.samples: dict[str, list[Usage]] = {}

    def look(self, process: NodeProcess) -> None:
        for pid, name in process.children().items():
            # It may end while it is looked at.
            with suppress(FileNotFoundError, ProcessLookupError, IndexError):
                files, others = descriptors(pid)
                usage = Usage(time.monotonic() - self._began, rss_mb(pid), files, others)
                self.samples.setdefault(name, []).append(usage)

    def names(self) -> list[str]:
        return sorted(self.samples)

    def between(self, name: str, first_s: float, last_s: float) -> list[Usage]:
        return [usage for usage in self.samples[name] if first_s <= usage.at_s < last_s]

    def peak(self, name: str, first_s: float, last_s: float, of: Callable[[Usage], float]) -> float:
        return max(map(of, self.between(name, first_s, last_s)), default=0.0)

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began


def rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def descriptors(pid: int) -> tuple[int, int]:
    """Of files on disk, and of everything else."""
    files = others = 0
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            if os.readlink(descriptor).startswith("/"):
                files += 1
            else:
                others += 1
    return files, others
