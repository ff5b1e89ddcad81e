"""The board: what the core shows all workers without being asked, in memory that they share.

It is made before the first fork, and outlives every core. Only the core writes, one number at a time, so nothing needs
a lock. What makes it safe is the order:

    the core    writes here before it answers or announces anything, and before the watermark names a new block
    a worker    reads here before it asks or reads, and keeps what it finds under the numbers that it saw here

So whatever a client can have learned, from whichever worker, the board showed before. If the core is killed between
two numbers, the board shows too much at worst, and whoever reads it asks further.

    word 0          generation: odd while a core has the chain open, and another number after each opening and closing
    word 1          newest height on disk, and one more
    word 2          transactions in the mempool: pending, in the upper half, and queued
    word 3          how often the mempool changed
    word 4          what is wrong with the core: which of the two places below says it, or 0 for nothing
    reasons         two places: the part at fault, and the reason
    changes         for each slot of senders, a word: how often the mempool changed for one of them
    held            for each slot, half a word: how many transactions of them the mempool holds

A slot is two bytes of an address. Who shares one with a busy sender is asked about more often; nothing else.
"""

import mmap
from typing import Literal, NamedTuple, get_args

from cairn.domain.types import Address

Part = Literal["disk", "core", "engine", "peers"]
"""What a node that is not ready lacks."""
PARTS: tuple[Part, ...] = get_args(Part)


class Fault(NamedTuple):
    """Why a node is not ready."""

    part: Part
    reason: str


_GENERATION, _HEAD, _SIZE, _CHANGED, _FAULT = range(5)
_WORD = 8
_HALF = 4
_SLOTS = 1 << 16
_REASONS = 1024
"""Where the two places begin."""
_REASON_BYTES = 1024
_REASON_HEAD_BYTES = 3
"""The part, and the length of the reason."""
_CHANGES = 4096
"""Where they begin; each part begins with a page."""
_HELD = _CHANGES + _SLOTS * _WORD
_END = _HELD + _SLOTS * _HALF
_LOW = (1 << 32) - 1


class Board:
    """One per node. Who is given none makes its own: then it shows nothing, and everything is asked for."""

    def __init__(self) -> None:
        # Memory that nobody has touched takes no space.
        memory = memoryview(mmap.mmap(-1, _END))
        self._words = memory[:_REASONS].cast("Q")
        self._reasons = memory[_REASONS : _REASONS + 2 * _REASON_BYTES]
        self._changes = memory[_CHANGES:_HELD].cast("Q")
        self._held = memory[_HELD:].cast("I")

    @property
    def generation(self) -> int:
        """Which opening of the chain the rest is of; even while none is open."""
        return self._words[_GENERATION]

    @property
    def is_open(self) -> bool:
        """Whether a core has the chain open, even if it hangs; or had it when it was killed, until another begins."""
        return self._words[_GENERATION] % 2 == 1

    @property
    def head(self) -> int:
        """The newest height on disk; -1 if there is none. No greater one has been shown or announced."""
        return self._words[_HEAD] - 1

    def head_of(self, generation: int) -> int | None:
        """The newest height on disk in this opening of the chain; None if it is not the current one."""
        words = self._words
        # In this order: then it is the height of that opening.
        head = words[_HEAD] - 1
        return head if words[_GENERATION] == generation else None

    @property
    def counts(self) -> tuple[int, int]:
        """The transactions in the mempool: pending, and queued."""
        both = self._words[_SIZE]
        return both >> 32, both & _LOW

    @property
    def changes(self) -> int:
        """A number that is another one whenever anything in the mempool has changed."""
        return self._words[_CHANGED]

    def changes_of(self, sender: Address) -> int:
        """A number that is another one whenever anything about the sender's transactions has changed."""
        return self._changes[sender[18] << 8 | sender[19]]

    def holds(self, sender: Address) -> bool:
        """Whether the mempool may hold a transaction of the sender. If not, its next nonce is that of its account."""
        return self._held[sender[18] << 8 | sender[19]] != 0

    @property
    def fault(self) -> Fault | None:
        """What is wrong, as the core sees it; None if nothing is. A core that hangs shows what it saw last."""
        place = self._words[_FAULT]
        if not place:
            return None
        content = self._reasons[(place - 1) * _REASON_BYTES : place * _REASON_BYTES]
        length = int.from_bytes(content[1:_REASON_HEAD_BYTES], "big")
        reason = bytes(content[_REASON_HEAD_BYTES : _REASON_HEAD_BYTES + length])
        return Fault(PARTS[content[0]], reason.decode(errors="ignore"))

    # For the core alone.

    def show_fault(self, fault: Fault | None) -> None:
        if fault == self.fault:
            return
        if fault is None:
            self._words[_FAULT] = 0
            return
        # The other place than the one that others may be reading.
        place = 1 if self._words[_FAULT] == 2 else 2
        reason = fault.reason.encode()[: _REASON_BYTES - _REASON_HEAD_BYTES]
        content = bytes([PARTS.index(fault.part)]) + len(reason).to_bytes(2, "big") + reason
        start = (place - 1) * _REASON_BYTES
        self._reasons[start : start + len(content)] = content
        self._words[_FAULT] = place

    def close(self) -> None:
        """The chain is not open any more: nobody may go by what is here."""
        if self.is_open:
            self._words[_GENERATION] += 1

    def begin(self) -> None:
        """A chain is about to be opened, whatever became of an opening before: nothing is in its mempool yet."""
        self.close()
        self._words[_SIZE] = 0
        # Not the changes: they never come back to a number that somebody has seen.
        self._held[:] = memoryview(bytes(_SLOTS * _HALF)).cast("I")

    def open(self) -> None:
        """Everything here is that of the chain which is open now."""
        self.close()
        self._words[_GENERATION] += 1

    def show_head(self, height: int) -> None:
        self._words[_HEAD] = height + 1

    def show_counts(self, pending: int, queued: int) -> None:
        self._words[_SIZE] = pending << 32 | queued

    def note(self, sender: Address, more: int) -> None:
        """Something about the sender's transactions has changed, and so many `more` are in the mempool."""
        slot = sender[18] << 8 | sender[19]
        self._words[_CHANGED] += 1
        self._changes[slot] += 1
        if more:
            self._held[slot] += more
