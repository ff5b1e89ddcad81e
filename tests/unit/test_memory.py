import platform
import subprocess
import sys

import pytest

FREED_MB = """
import ctypes, sys
from pathlib import Path
from cairn.memory import MEMTABLE_BLOCK_BYTES, map_large_blocks

if sys.argv[1] == "mapped":
    map_large_blocks()
allocator = ctypes.CDLL(None)
allocator.malloc.restype = ctypes.c_void_p
allocator.free.argtypes = [ctypes.c_void_p]

def rss_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) / 256

def fill_and_free(count):
    blocks = []
    for _ in range(count):
        blocks.append(allocator.malloc(MEMTABLE_BLOCK_BYTES))
        ctypes.memset(blocks[-1], 1, MEMTABLE_BLOCK_BYTES)
        allocator.malloc(50_000)  # Something that stays, and fits into no gap.
    full = rss_mb()
    for block in blocks:
        allocator.free(block)
    return full - rss_mb()

fill_and_free(4)
print(fill_and_free(32))
"""


def freed_mb(how: str) -> float:
    """What comes back of 32 MB in a process that has freed such blocks before."""
    run = subprocess.run([sys.executable, "-c", FREED_MB, how], capture_output=True, text=True, check=True)
    return float(run.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators give memory back by themselves")
def test_memtables_that_are_freed_go_back_to_the_system() -> None:
    assert freed_mb("as it is") < 16, "this allocator needs no help: cairn.memory can go"
    assert freed_mb("mapped") > 30
