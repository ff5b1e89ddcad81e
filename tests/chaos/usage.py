"""What a node's processes hold: memory and file descriptors, as the kernel counts them."""

import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.node_process import NodeProcess

HELD_STATES = ("01", "08")
"""Established, and closed by the client alone: what a server holds a descriptor for."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What one process uses at one moment."""

    at_s: float
    transfers: int
    """That were accepted by then, of all processes."""
    rss_mb: float
    files: int
    """Descriptors of files on disk: RocksDB keeps its tables open."""
    stale: int
    """Those of them that are of a file which is gone, or of one that the process has open twice."""
    others: int
    """Descriptors of sockets, pipes and the like: one more for each connection."""


class UsageLog:
    """Usage of every process over time, by its name."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.samples: dict[str, list[Usage]] = {}

    def look(self, process: NodeProcess, transfers: int, of: str = "") -> None:
        """`of` is the node's name, where there are several."""
        for pid, name in process.children().items():
            # It may end while it is looked at.
            with suppress(FileNotFoundError, ProcessLookupError, IndexError):
                usage = Usage(self.now_s, transfers, rss_mb(pid), *descriptors(pid))
                self.samples.setdefault(f"{of} {name}".strip(), []).append(usage)

    def names(self) -> list[str]:
        return sorted(self.samples)

    def between(self, name: str, first_s: float, last_s: float) -> list[Usage]:
        return [usage for usage in self.samples[name] if first_s <= usage.at_s < last_s]

    def peak(self, name: str, of: Callable[[Usage], float]) -> float:
        return max(map(of, self.samples[name]), default=0.0)

    def trough(self, name: str, first: int, last: int, of: Callable[[Usage], float]) -> float:
        """The lowest while the transfers from `first` to `last` were accepted."""
        return min((of(usage) for usage in self.samples[name] if first <= usage.transfers <= last), default=0.0)

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began


def rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def descriptors(pid: int) -> tuple[int, int, int]:
    """How many are of files on disk, of files that are stale, and of everything else."""
    paths: Counter[str] = Counter()
    others = 0
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            target = os.readlink(descriptor)
            if target.startswith("/"):
                paths[target] += 1
            else:
                others += 1
    gone = sum(path.endswith(" (deleted)") for path in paths)
    return paths.total(), gone + paths.total() - len(paths), others


def size_on_disk_mb(directory: Path) -> float:
    """What its files take up. One may go while they are counted."""
    size = 0
    for place, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):
                size += os.lstat(os.path.join(place, name)).st_blocks * 512
    return size / (1 << 20)


def held_connections(port: int) -> int:
    """How many connections of clients the server at a port of 127.0.0.1 has not let go of."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(line[1] == f"0100007F:{port:04X}" and line[3] in HELD_STATES for line in lines)
