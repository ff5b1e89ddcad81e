"""Memory that is freed goes back to the system.

glibc gives back what is free at the end of the heap, and keeps all the rest until it is asked for it (`trim`).

RocksDB fills memtables in blocks of a megabyte and frees them all when it writes them out, in the core and in each
worker, whose secondary has memtables of its own. glibc maps the first such blocks on their own. Once one of them was
freed it takes later ones from the heap, where what is allocated between them keeps their pages for good: processes grew
with every flush.
"""

import ctypes
from contextlib import suppress

from cairn.store.rocks import WRITE_BUFFER_BYTES

MEMTABLE_BLOCK_BYTES = WRITE_BUFFER_BYTES // 8
"""As RocksDB divides a write buffer."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def map_large_blocks() -> None:
    """Let every block as large as a memtable's be mapped on its own, in this process and in those that it forks."""
    # Only glibc has it, and only it needs it.
    with suppress(OSError, AttributeError):
        allocator = ctypes.CDLL(None)
        allocator.mallopt(_M_MMAP_THRESHOLD, MEMTABLE_BLOCK_BYTES)
        # A fixed threshold fixes this one too, at a value so low that the heap's end would come and go all the time.
        allocator.mallopt(_M_TRIM_THRESHOLD, 2 * MEMTABLE_BLOCK_BYTES)


def trim() -> None:
    """Give back what is free anywhere in the heap; takes milliseconds after a peak, and less than one otherwise."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
