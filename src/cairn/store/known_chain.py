"""What a running node knows of its chain, so that it never mistakes another directory for its own.

A data directory can vanish under a running node: a volume that is unmounted, a path that is removed. A core that
reopens the chain then finds an empty directory, or an older copy, and cannot know from the disk what was there before.
This memory does: it belongs to the supervisor, so it outlives the core, and ends with the node.

A node that is started finds its directory empty when a volume is not mounted. So a home has a file beside its data
directory that is made once the first chain is on disk: as long as it is there, no other chain is begun.
"""

import mmap
import struct
from pathlib import Path

import msgspec

from cairn.domain.types import BlockHash
from cairn.store.directory import is_there, write_file

_SLOT = struct.Struct(">QQ32s")
_NEWEST_AT = 0
"""The valid slot: 0 for none yet, else 1 or 2. The other one is written first, so a kill leaves a valid one."""
_SLOTS_AT = 8


BEGUN_TEXT = """\
The chain of this node was begun. While this file exists, the node refuses to start without that chain, for example
when the disk with the data directory is not mounted. Remove this file only to begin anew on purpose.
"""


class SeenHead(msgspec.Struct, frozen=True):
    height: int
    hash: BlockHash
    reverts: int
    """How often the dev chain was reverted; only a revert makes a chain shorter."""


class SeenChain:
    """The newest head, in memory that is shared with forked processes, and whether there ever was one."""

    def __init__(self, begun_file: Path | None = None) -> None:
        """`begun_file` is outside of the data directory; None for a chain that nobody would miss."""
        self._begun_file = begun_file
        self._memory = mmap.mmap(-1, _SLOTS_AT + 2 * _SLOT.size)

    def note(self, head: SeenHead) -> None:
        slot = 2 if self._memory[_NEWEST_AT] == 1 else 1
        _SLOT.pack_into(self._memory, _offset(slot), head.height, head.reverts, head.hash)
        self._memory[_NEWEST_AT] = slot

    def find_begun_file(self) -> Path | None:
        """The file that says that a chain was begun, if there is one. Raises `StoreUnavailable`."""
        path = self._begun_file
        return path if path is not None and is_there(path) else None

    def note_begun(self) -> None:
        """A chain is on disk: from now on only that one is opened. Raises `OSError` or `StoreUnavailable`."""
        path = self._begun_file
        if path is not None and not is_there(path):
            write_file(path, BEGUN_TEXT.encode())

    def last(self) -> SeenHead | None:
        """None before the chain was first opened; only then may a new chain be started."""
        slot = self._memory[_NEWEST_AT]
        if slot == 0:
            return None
        height, reverts, block_hash = _SLOT.unpack_from(self._memory, _offset(slot))
        return SeenHead(height, BlockHash(block_hash), reverts)


def _offset(slot: int) -> int:
    return _SLOTS_AT + (slot - 1) * _SLOT.size
