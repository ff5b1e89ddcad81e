"""Account statements, made and sent piece by piece: one may have 10,000 changes, and each of them many payments."""

import time
from collections.abc import AsyncIterator

import msgspec

from cairn.api.chain_view import ChainView
from cairn.api.proof_reads import Held, ProofReads, encode_proof
from cairn.domain.errors import BlockNotKept, StatementTooLong
from cairn.domain.proof_files import StatementChange, StatementFile
from cairn.domain.types import Address
from cairn.store.keys import POSITION_STEP, Version
from cairn.time_shares import SLICE_S, give_way

MAX_CHANGES = 10_000
COUNTED_AT_ONCE = 256
"""Heights that are read in one step: some tenths of a millisecond."""

_encode = msgspec.json.Encoder().encode


class Statement:
    """All that happened to an account up to a block, after which it held what `held` says."""

    def __init__(self, view: ChainView, reads: ProofReads, address: Address, held: Held) -> None:
        self._view = view
        self._reads = reads
        self._address = address
        self._held = held
        self._last = held.height

    def opening(self, first: int | None) -> int:
        """Where it begins: at `first`, or as early as it can. Raises `BlockNotKept`."""
        oldest = self._reads.find_change(self._address, 0, self._last)
        earliest = 1 + (self._held.touched if oldest is None else oldest.touched_before)
        if (earliest if first is None else first) < earliest or earliest > self._last:
            raise BlockNotKept(
                "not all blocks that touched the account are kept by this node; a statement can begin at block "
                f"{earliest} at the earliest"
            )
        return earliest if first is None else first

    async def check_length(self, first: int) -> None:
        """Raise `StatementTooLong`, which says where to end it."""
        count, start = 0, self._reads.first_provable(first)
        while heights := self._view.heights_between(self._address, start, self._last, COUNTED_AT_ONCE):
            if count + len(heights) > MAX_CHANGES:
                last = heights[MAX_CHANGES - count - 1] if count < MAX_CHANGES else start - 1
                raise StatementTooLong(
                    f"more than {MAX_CHANGES:,} blocks touched the account from block {first} to {self._last}; end "
                    f"this statement at block {last}, and begin the next one after it"
                )
            count, start = count + len(heights), heights[-1] + 1
            await give_way()

    async def pieces(self, file: StatementFile) -> AsyncIterator[bytes]:
        """The file, whose list of changes is empty, with all of them. Each piece is about a slice of work."""
        reverts = self._held.signed.reverts
        part: list[bytes] = []
        ends_at = time.perf_counter() + SLICE_S
        async for piece in self._small_pieces(file):
            part.append(piece)
            if time.perf_counter() > ends_at:
                self._view.check_streaming(reverts)
                yield b"".join(part)
                part.clear()
                await give_way()
                ends_at = time.perf_counter() + SLICE_S
        self._view.check_streaming(reverts)
        yield b"".join(part)

    async def _small_pieces(self, file: StatementFile) -> AsyncIterator[bytes]:
        before, behind = _around_list(encode_proof(file, self._held.signed), b'"changes":[')
        yield before
        separator = b""
        for version in self._reads.changes(self._address, file.first, file.last):
            yield separator
            async for piece in self._change(version):
                yield piece
            separator = b","
        yield behind

    async def _change(self, version: Version) -> AsyncIterator[bytes]:
        change = await self._reads.change(self._address, version, self._held.signed)
        listed = StatementChange(change.block, change.leaf, change.index, change.count, change.path, payments=[])
        before, behind = _around_list(_encode(listed), b'"payments":[')
        yield before
        for number, use in enumerate(version.uses):
            payment = await self._reads.payment(version.height, use // POSITION_STEP)
            yield (b"," if number else b"") + _encode(payment)
        yield behind


def _around_list(encoded: bytes, begins: bytes) -> tuple[bytes, bytes]:
    """The JSON up to what stands in the brackets of an empty list, and from there on."""
    before, begin, behind = encoded.partition(begins)
    return before + begin, behind
