"""The mempool's journal: what was accepted is on disk before anybody is told, and stays until it is settled.

A record is appended in memory and becomes durable with all others since in one frame, one write and one sync. Nothing
in a segment is ever changed; a segment goes, the oldest first, when no transaction in it is alive any more. So that one
long-lived transaction does not hold back many dead ones, the living ones of the oldest segment are written again, at
the end, once the journal is much larger than what lives in it.

Opening reads all segments, writes what lives into a new one, syncs it, and only then removes the old ones. Besides
tidying up, this makes a promise out of what was read: after a failed sync the kernel may show data that is not on disk
(it drops the dirty mark, not the page), so nothing is trusted that was not written and synced anew.

    payload of a frame, any number of:
        1 | order 8 | received at 8 | transaction record 217      ADD
        2 | reason 1 | transaction hash 32                        DROP
        3                                                         NOOP
"""

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from struct import Struct
from typing import Final, get_args

import msgspec

from cairn.domain.codec import TX_RECORD_SIZE, decode_record
from cairn.domain.errors import Corrupt, JournalUnavailable
from cairn.domain.types import DropReason, Tx, TxHash
from cairn.store.directory import make_directory, sync_directory, sync_file, write_at
from cairn.store.segment import (
    SEGMENT_HEADER_SIZE,
    Frame,
    Scan,
    create_segment,
    encode_frame,
    list_segments,
    scan_segment,
    segment_path,
)

SEGMENT_BYTES: Final = 4 << 20
MAX_SEGMENTS: Final = 8
KEPT_DROPS: Final = 10_000
"""How many reasons of dropped transactions are carried over an opening."""
_FRAME_RECORDS: Final = 4_096
"""How many records go into one frame when many are written again."""

_ADD, _DROP, _NOOP = 1, 2, 3
_ADD_HEAD = Struct(">BQQ")
_DROP_RECORD = Struct(">BB32s")
_ADD_SIZE = _ADD_HEAD.size + TX_RECORD_SIZE
_SIZES = {_ADD: _ADD_SIZE, _DROP: _DROP_RECORD.size, _NOOP: 1}
_HASH_AT = _ADD_HEAD.size
_HASH_END = _HASH_AT + 32
_REASONS: tuple[DropReason, ...] = get_args(DropReason)
_REASON_NUMBERS: dict[DropReason, int] = {reason: number for number, reason in enumerate(_REASONS)}

_pack_add = _ADD_HEAD.pack


class JournalEntry(msgspec.Struct, frozen=True, gc=False):
    received_at: int
    """Unix time in whole seconds."""
    tx: Tx


class Journal:
    """The journal, opened for appending. After a failed write it is closed and opened anew, never mended."""

    def __init__(self, directory: Path, segment_bytes: int, max_segments: int) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._max_segments = max_segments
        self._file = -1
        self._offset = 0
        self._capacity = 0
        self._sequence = 0
        self._current = 0
        self._order = 0
        self._failure: str | None = None
        self._buffer: list[bytes] = []
        self._unsynced: dict[TxHash, None] = {}
        self._alive: dict[TxHash, int] = {}
        """The segment that each unsettled transaction is in."""
        self._segments: dict[int, int] = {}
        """How many unsettled transactions each segment has; the oldest segment is first, the current one last."""
        self.recovered: list[JournalEntry] = []
        """What was alive when the journal was opened, in the order in which it was first accepted."""
        self.recovered_drops: list[tuple[TxHash, DropReason]] = []

    @classmethod
    def open(cls, path: Path, segment_bytes: int = SEGMENT_BYTES, max_segments: int = MAX_SEGMENTS) -> "Journal":
        """Read what is there, and be ready to append. Raises `Corrupt` or `StoreUnavailable`."""
        journal = cls(path, segment_bytes, max_segments)
        try:
            make_directory(path)
            journal._recover()
        except OSError as failure:
            journal.close()
            raise JournalUnavailable(f"cannot open the journal at {path}: {failure}") from failure
        except BaseException:
            journal.close()
            raise
        return journal

    def append_add(self, received_at: int, tx: Tx, record: bytes) -> None:
        """Note an accepted transaction; `record` is `encode_record(tx)`. It is on disk after the next `sync`."""
        self._order += 1
        self._buffer += (_pack_add(_ADD, self._order, received_at), record)
        self._unsynced[tx.hash] = None

    def append_drop(self, tx_hash: TxHash, reason: DropReason) -> None:
        """Note that a transaction left the mempool unconfirmed. It is still to be settled."""
        self._buffer.append(_encode_drop(tx_hash, reason))

    def settle(self, tx_hash: TxHash) -> None:
        """A transaction is confirmed or dropped: the journal need not keep it any longer."""
        segment = self._alive.pop(tx_hash, None)
        if segment is not None:
            self._segments[segment] -= 1
        self._unsynced.pop(tx_hash, None)

    def sync(self) -> None:
        """Put everything appended on disk. Raises `StoreUnavailable`; the journal is then of no further use."""
        self._check_usable()
        try:
            if self._buffer:
                self._write(b"".join(self._buffer), self._unsynced)
                self._buffer.clear()
                self._unsynced.clear()
            self._retire()
        except OSError as failure:
            raise self._failed(failure) from failure

    def probe(self) -> None:
        """Write, sync and read back. Raises `StoreUnavailable` or `Corrupt`."""
        self._check_usable()
        try:
            frame = self._write(bytes((_NOOP,)), ())
            found = os.pread(self._file, len(frame), self._offset - len(frame))
            # Probes fill segments too, also of a node that nobody submits to.
            self._retire()
        except OSError as failure:
            raise self._failed(failure) from failure
        if found != frame:
            raise Corrupt(f"the journal at {self._directory} does not give back what was just written")

    def close(self) -> None:
        """Let go of the files. What was not synced is lost; nobody was told of it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._failure = self._failure or f"the journal at {self._directory} is closed"

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise JournalUnavailable(self._failure)

    def _failed(self, failure: OSError) -> JournalUnavailable:
        # Never tried again: after a failed sync the kernel forgets which pages it could not write.
        self._failure = f"the journal at {self._directory} cannot be written: {failure}"
        return JournalUnavailable(self._failure)

    def _write(self, payload: bytes, added: Collection[TxHash]) -> bytes:
        """Write one frame and sync it; `added` are the transactions in it that live. Returns the frame."""
        frame = encode_frame(self._sequence, payload)
        if self._offset + len(frame) > self._capacity:
            self._start_segment(len(frame))
        write_at(self._file, frame, self._offset)
        sync_file(self._file)
        self._offset += len(frame)
        self._sequence += 1
        self._note_alive(added)
        return frame

    def _note_alive(self, added: Collection[TxHash]) -> None:
        """These live in the current segment from now on, and no longer where they may have lived before."""
        if not self._alive.keys().isdisjoint(added):
            for tx_hash in self._alive.keys() & added:
                self._segments[self._alive[tx_hash]] -= 1
        self._alive.update(dict.fromkeys(added, self._current))
        self._segments[self._current] += len(added)

    def _start_segment(self, frame_bytes: int) -> None:
        number = self._current + 1
        capacity = max(self._segment_bytes, SEGMENT_HEADER_SIZE + frame_bytes)
        file = create_segment(self._directory, number, self._sequence, capacity)
        if self._file >= 0:
            os.close(self._file)
        self._file, self._current = file, number
        self._offset, self._capacity = SEGMENT_HEADER_SIZE, capacity
        self._segments[number] = 0

    def _retire(self) -> None:
        """Remove the oldest segments that nothing lives in; make it so when they outgrow what lives."""
        self._remove_dead()
        while len(self._segments) > self._max_segments and self._is_mostly_dead():
            self._rewrite(self._living_in(next(iter(self._segments))))
            self._remove_dead()

    def _living_in(self, number: int) -> list[bytes]:
        path = segment_path(self._directory, number)
        scan = scan_segment(path)
        adds = {_hash_of(add): add for add in _adds(path, scan)} if scan is not None else {}
        living = [tx_hash for tx_hash, segment in self._alive.items() if segment == number]
        missing = [tx_hash for tx_hash in living if tx_hash not in adds]
        if missing:
            raise Corrupt(f"{path}: transaction 0x{missing[0].hex()} is no longer in it")
        return [adds[tx_hash] for tx_hash in living]

    def _remove_dead(self) -> None:
        while len(self._segments) > 1:
            oldest = next(iter(self._segments))
            if self._segments[oldest]:
                return
            self._remove(oldest)
            del self._segments[oldest]

    def _is_mostly_dead(self) -> bool:
        return 2 * len(self._alive) * _ADD_SIZE < len(self._segments) * self._segment_bytes

    def _remove(self, number: int) -> None:
        segment_path(self._directory, number).unlink()
        # One by one, so that whatever survives a power loss is the newer part, without a hole: a DROP must not go
        # before the ADD that it takes back.
        sync_directory(self._directory)

    def _rewrite(self, adds: list[bytes]) -> None:
        """Write records again, so that they live in the newest segment."""
        for start in range(0, len(adds), _FRAME_RECORDS):
            group = adds[start : start + _FRAME_RECORDS]
            self._write(b"".join(group), list(map(_hash_of, group)))

    def _recover(self) -> None:
        """Replay all segments, write what lives into new ones, and remove the old ones."""
        numbers = list_segments(self._directory)
        adds: dict[TxHash, bytes] = {}
        drops: dict[TxHash, DropReason] = {}
        for scan in self._scan(numbers):
            for frame in scan.frames:
                _replay(segment_path(self._directory, scan.number), frame, adds, drops)
            self._sequence = scan.next_sequence
        self._current = numbers[-1] if numbers else 0
        # The order is the first field after the kind, so sorting the records sorts by it.
        records = sorted(adds.values())
        self.recovered = [_decode_add(record) for record in records]
        self.recovered_drops = list(drops.items())[-KEPT_DROPS:]
        self._order = _order_of(records[-1]) if records else 0
        self._start_segment(0)
        self._rewrite(records)
        if self.recovered_drops:
            self._write(b"".join(_encode_drop(*drop) for drop in self.recovered_drops), ())
        for number in numbers:
            self._remove(number)

    def _scan(self, numbers: list[int]) -> Iterator[Scan]:
        """The segments in their order. Raises `Corrupt` when frames are missing between two of them."""
        expected: int | None = None
        for number in numbers:
            path = segment_path(self._directory, number)
            scan = scan_segment(path)
            if scan is None:
                # Its making was interrupted before anything could be written to it.
                continue
            if expected is not None and scan.first_sequence != expected:
                raise Corrupt(f"{path}: starts with frame {scan.first_sequence}, but frame {expected} is the next")
            expected = scan.next_sequence
            yield scan


def _replay(path: Path, frame: Frame, adds: dict[TxHash, bytes], drops: dict[TxHash, DropReason]) -> None:
    """Apply a frame's records to what lives and what was dropped so far."""
    for kind, record in _records(path, frame):
        if kind == _ADD:
            tx_hash = _hash_of(record)
            adds[tx_hash] = record
            drops.pop(tx_hash, None)
        elif kind == _DROP:
            _, reason, dropped = _DROP_RECORD.unpack(record)
            adds.pop(dropped, None)
            drops[dropped] = _REASONS[reason]


def _adds(path: Path, scan: Scan) -> Iterator[bytes]:
    for frame in scan.frames:
        yield from (record for kind, record in _records(path, frame) if kind == _ADD)


def _records(path: Path, frame: Frame) -> Iterator[tuple[int, bytes]]:
    payload, start = frame.payload, 0
    while start < len(payload):
        kind = payload[start]
        end = start + _SIZES.get(kind, 0)
        if not start < end <= len(payload):
            raise Corrupt(f"{path}: the frame at byte {frame.offset} holds an unknown record of kind {kind}")
        yield kind, payload[start:end]
        start = end


def _encode_drop(tx_hash: TxHash, reason: DropReason) -> bytes:
    return _DROP_RECORD.pack(_DROP, _REASON_NUMBERS[reason], tx_hash)


def _decode_add(record: bytes) -> JournalEntry:
    _, _, received_at = _ADD_HEAD.unpack_from(record)
    return JournalEntry(received_at, decode_record(record[_ADD_HEAD.size :]))


def _hash_of(record: bytes) -> TxHash:
    return TxHash(record[_HASH_AT:_HASH_END])


def _order_of(record: bytes) -> int:
    return int(_ADD_HEAD.unpack_from(record)[1])
