"""What a running node has seen of its chain, so that it never takes another directory for its own.

A data directory can vanish under a running node: a volume that is unmounted, a path that is removed. Whoever opens the
chain anew then finds an empty directory, or an older copy, and cannot tell from the disk what was there before. This
memory can: it belongs to the supervisor, so it outlives the core, and ends with the node.
"""

import mmap
import struct

import msgspec

from cairn.domain.types import BlockHash

_SLOT = struct.Struct(">QQ32s")
_NEWEST_AT = 0
"""Which slot counts: 0 for none yet, else 1 or 2. The other is written first: a kill leaves one of the two."""
_SLOTS_AT = 8


class SeenHead(msgspec.Struct, frozen=True):
    height: int
    hash: BlockHash
    reverts: int
    """How often a dev chain had been reverted: only that ever makes a chain shorter."""


class SeenChain:
    """The newest head, in memory that a process shares with those that it forks."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SLOTS_AT + 2 * _SLOT.size)

    def note(self, head: SeenHead) -> None:
        slot = 2 if self._memory[_NEWEST_AT] == 1 else 1
        _SLOT.pack_into(self._memory, _offset(slot), head.height, head.reverts, head.hash)
        self._memory[_NEWEST_AT] = slot

    def last(self) -> SeenHead | None:
        """None before the chain was ever open: only then may one be started."""
        slot = self._memory[_NEWEST_AT]
        if slot == 0:
            return None
        height, reverts, block_hash = _SLOT.unpack_from(self._memory, _offset(slot))
        return SeenHead(height, BlockHash(block_hash), reverts)


def _offset(slot: int) -> int:
    return _SLOTS_AT + (slot - 1) * _SLOT.size
