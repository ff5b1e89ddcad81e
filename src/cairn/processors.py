"""How many processors this process may use: those that it may run on, and no more than its container is given."""

import math
import os
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def usable_processors(cgroups: Path = CGROUPS) -> int:
    """At least 1. A container that may use one and a half has two."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota(cgroups)
    return allowed if quota is None else max(1, min(allowed, math.ceil(quota)))


def _quota(cgroups: Path) -> float | None:
    """Processors by the time that the container may use; None if that is not limited, or nobody tells."""
    # Of version 2 both numbers are in one file, of version 1 each in its own.
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            quota, period, *_ = " ".join((cgroups / name).read_text() for name in names).split()
            return int(quota) / int(period) if int(quota) > 0 else None
        except (OSError, ValueError, ZeroDivisionError):
            # There is no such file, or it says "max".
            continue
    return None
