"""The processes of a node that runs on this machine, as the kernel shows them."""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROCESSES = Path("/proc")
SUPERVISOR = "cairn"
"""Its name in `ps`, unless another program has started it as a part of itself."""
STOPPED = "T"
WAITS_FOR_DISK = "D"
_GONE = "ZX"


class NodeProcess(NamedTuple):
    name: str
    pid: int
    state: str
    """A letter, as in `ps`."""
    resident_bytes: int


def processes_of(supervisor: int) -> list[NodeProcess]:
    """The supervisor and what it started, by name; none where the kernel does not tell."""
    found = []
    for directory in PROCESSES.glob("[0-9]*"):
        # It may end while it is looked at.
        with suppress(OSError, ValueError, IndexError):
            before, _, after = (directory / "stat").read_text().rpartition(")")
            state, parent = after.split()[:2]
            pid = int(directory.name)
            if supervisor in (pid, int(parent)) and state not in _GONE:
                name = SUPERVISOR if pid == supervisor else before.partition("(")[2]
                found.append(NodeProcess(name, pid, state, _resident(directory)))
    return sorted(found)


def _resident(directory: Path) -> int:
    for line in (directory / "status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return 1024 * int(line.split()[1])
    return 0
