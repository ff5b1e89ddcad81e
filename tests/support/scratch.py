"""Where tests keep their files: in memory where there is plenty, or each would wait for the same disk again and again.

What a killed process wrote stays there as it does on a disk, and power losses are simulated (`power.py`).
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")
ENOUGH_MEMORY_BYTES = 4 * 1024**3
DISK = Path("/var/tmp")


def scratch_parent() -> Path | None:
    """The directory to make others in. None is the system's own choice."""
    plenty = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ENOUGH_MEMORY_BYTES
    return MEMORY if plenty else None


@contextmanager
def directory_on_disk() -> Iterator[Path]:
    """For what writes much, and where a sync that takes its time is a part of the test."""
    with tempfile.TemporaryDirectory(prefix="cairn-test-", dir=DISK, ignore_cleanup_errors=True) as directory:
        yield Path(directory)
