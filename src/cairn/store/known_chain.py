"""What a running node knows of its chain, so that it never mistakes another directory for its own.

A data directory can vanish under a running node: a volume that is unmounted, a path that is removed. A core that
reopens the chain then finds an empty directory, or an older copy, and cannot know from the disk what was there before.
This memory does: it belongs to the supervisor, so it outlives the core, and ends with the node.
"""

import mmap
import struct

import msgspec

from cairn.domain.types import BlockHash

_SLOT = struct.Struct(">QQ32s")
_NEWEST_AT = 0
"""The valid slot: 0 for none yet, else 1 or 2. The other one is written first, so a kill leaves a valid one."""
_SLOTS_AT = 8


class SeenHead(msgspec.Struct, frozen=True):
    height: int
    hash: BlockHash
    reverts: int
    """How often the dev chain was reverted; only a revert makes a chain shorter."""


class SeenChain:
    """The newest head, in memory that is shared with forked processes."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SLOTS_AT + 2 * _SLOT.size)

    def note(self, head: SeenHead) -> None:
        slot = 2 if self._memory[_NEWEST_AT] == 1 else 1
        _SLOT.pack_into(self._memory, _offset(slot), head.height, head.reverts, head.hash)
        self._memory[_NEWEST_AT] = slot

    def last(self) -> SeenHead | None:
        """None before the chain was first opened; only then may a new chain be started."""
        slot = self._memory[_NEWEST_AT]
        if slot == 0:
            return None
        height, reverts, block_hash = _SLOT.unpack_from(self._memory, _offset(slot))
        return SeenHead(height, BlockHash(block_hash), reverts)


def _offset(slot: int) -> int:
    return _SLOTS_AT + (slot - 1) * _SLOT.size
