"""Where tests keep their files: in memory where there is plenty, or each would wait for the same disk again and again.

What a killed process wrote stays there as it does on a disk, and power losses are simulated (`power.py`). A test for
which the disk itself matters makes its directory with `tempfile`.
"""

import shutil
from pathlib import Path

MEMORY = Path("/dev/shm")
ENOUGH_MEMORY_BYTES = 4 * 1024**3


def scratch_parent() -> Path | None:
    """The directory to make others in. None is the system's own choice."""
    plenty = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ENOUGH_MEMORY_BYTES
    return MEMORY if plenty else None
