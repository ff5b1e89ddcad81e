"""The mempool's journal: what was accepted is on disk before anybody is told, and stays until it is settled.

A record is appended in memory and becomes durable with all others since in one frame, one write and one sync. What is
in a segment never changes; a segment goes, the oldest first, when no transaction in it is alive any more. So that one
long-lived transaction does not hold back many dead ones, the living ones of the oldest segment are written again, at
the end, once the journal is much larger than what lives in it.

Opening reads all segments, writes what lives into a new one, syncs it, and only then removes the old ones. This is not
only to tidy up. After a failed sync the kernel may show data that is not on disk (it drops the dirty mark, not the
page). So what was read is trusted only once it was written and synced again: first the last frame, where it stands,
then all that lives, in the new segment behind it.

Nothing in the journal itself tells a frame that was torn from a last one that was lost, nor an oldest segment that was
removed from one that is missing. So where it starts and ends is kept elsewhere too (`Bounds`), and an opening that does
not find all in between is refused, before it changes anything.

    payload of a frame, any number of:
        1 | order 8 | received at 8 | queued since 8 | transaction record          ADD
        2 | reason 1 | transaction hash 32                                        DROP
        3 | seconds that the node has been up 8                                   UPTIME
        4 | reason 1 | transaction hash 32                                        LEAVE

After a LEAVE the transaction is not in the mempool, but may still be confirmed by another node, and is kept until it
is settled. It comes after its ADD; a later ADD of the same transaction takes it back.

The time up runs on from one life of the node to the next, so that what waits is counted by it and not by a clock that
somebody may set. Every segment begins with it, and so it outlives the removal of the others. `queued since` is a moment
of it, or -1 for a transaction that could be mined when it was accepted.
"""

import os
import time
from collections.abc import Collection, Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from struct import Struct
from typing import Final, Protocol, get_args

import msgspec

from cairn import metrics
from cairn.domain.errors import Corrupt, JournalUnavailable, StoreUnavailable, reason_of
from cairn.domain.transactions import TX_RECORD_SIZE, decode_record, record_end
from cairn.domain.types import DropReason, Tx, TxHash
from cairn.store.directory import is_there, make_directory, sync_directory, sync_file, write_at
from cairn.store.segment import (
    SEGMENT_HEADER_SIZE,
    Frame,
    NextSegment,
    Scan,
    encode_frame,
    list_segments,
    remove_drafts,
    scan_segment,
    segment_path,
)

SEGMENT_BYTES: Final = 4 << 20
MAX_SEGMENTS: Final = 8
KEPT_DROPS: Final = 10_000
"""How many reasons of dropped transactions are carried over an opening."""
_FRAME_RECORDS: Final = 4_096
"""How many records go into one frame when many are written again."""

_ADD, _DROP, _UPTIME, _LEAVE = 1, 2, 3, 4
_ADD_HEAD = Struct(">BQQq")
_DROP_RECORD = Struct(">BB32s")
_UPTIME_RECORD = Struct(">BQ")
_NEVER = -1
_ADD_SIZE = _ADD_HEAD.size + TX_RECORD_SIZE
"""Of a transaction without data."""
_SIZES = {_DROP: _DROP_RECORD.size, _UPTIME: _UPTIME_RECORD.size, _LEAVE: _DROP_RECORD.size}
_HASH_AT = _ADD_HEAD.size
_HASH_END = _HASH_AT + 32
_REASONS: tuple[DropReason, ...] = get_args(DropReason)
_REASON_NUMBERS: dict[DropReason, int] = {reason: number for number, reason in enumerate(_REASONS)}

_pack_add = _ADD_HEAD.pack


class JournalEntry(msgspec.Struct, frozen=True, gc=False):
    received_at: int
    """Unix time in whole seconds."""
    tx: Tx
    queued_since: int | None = None
    """In seconds of the node's uptime; None if it could be mined when it was accepted."""
    left: DropReason | None = None
    """Why it is no longer in the mempool; None if it is."""


class JournalExtent(msgspec.Struct, frozen=True):
    """How far the journal goes at some moment. What is written later is behind it, in the same files or in new ones."""

    start: int
    """Its first frame."""
    end: int
    """The frame that is written next."""
    last_segment: int
    last_bytes: int
    """How much of that segment is written; the rest of it is zeros."""


class Bounds(Protocol):
    """Which frames the journal must contain, recorded outside of it. Both numbers only grow."""

    def journal_start(self) -> int:
        """The first frame that must exist, if the journal is that long."""

    def journal_end(self) -> int:
        """All frames before this one must exist."""

    def raise_journal_start(self, frame: int) -> None:
        """Nothing before `frame` is needed any more. On disk when this returns. Raises `StoreUnavailable`."""

    def raise_journal_end(self, frame: int) -> None:
        """All before `frame` is on disk; this itself may get there later. Raises `StoreUnavailable`."""


class Replay:
    """What the segments hold when they are read from the first to the last. Nothing is changed by reading."""

    def __init__(self, directory: Path, bounds: Bounds) -> None:
        """Read them. Raises `Corrupt` unless all frames are there that must be, `StoreUnavailable` or `OSError`."""
        self._directory = directory
        self._bounds = bounds
        self.segments = list_segments(directory)
        """The numbers of the segments, the oldest first."""
        self.last_segment: Scan | None = None
        self.next_sequence = 0
        """The number of the frame that is written next."""
        self.up_s = 0
        self.left: dict[TxHash, DropReason] = {}
        """The unsettled transactions that left the mempool."""
        self.drops: dict[TxHash, DropReason] = {}
        """The dropped transactions, in the order in which they were dropped."""
        self._adds: dict[TxHash, bytes] = {}
        """The ADD record of each unsettled transaction."""
        for scan in self._scan():
            for frame in scan.frames:
                self._apply(segment_path(directory, scan.number), frame)
            self.last_segment, self.next_sequence = scan, scan.next_sequence
        self._check_end()
        # The order is the first field after the kind, so sorting the records sorts by it.
        self.adds = sorted(self._adds.values())
        """The same records, in the order of acceptance."""
        self.entries = [_decode_add(record, self.left.get(_hash_of(record))) for record in self.adds]

    def _apply(self, path: Path, frame: Frame) -> None:
        """Apply a frame's records to the unsettled and the dropped transactions so far."""
        for kind, record in _records(path, frame):
            if kind == _ADD:
                tx_hash = _hash_of(record)
                self._adds[tx_hash] = record
                self.drops.pop(tx_hash, None)
                self.left.pop(tx_hash, None)
            elif kind == _DROP:
                _, reason, dropped = _DROP_RECORD.unpack(record)
                self._adds.pop(dropped, None)
                self.left.pop(dropped, None)
                self.drops[dropped] = _REASONS[reason]
            elif kind == _LEAVE:
                _, reason, left = _DROP_RECORD.unpack(record)
                if left in self._adds:
                    self.left[left] = _REASONS[reason]
            else:
                self.up_s = _UPTIME_RECORD.unpack(record)[1]

    def _scan(self) -> Iterator[Scan]:
        """The segments in their order. Raises `Corrupt` when frames are missing before or between them."""
        expected: int | None = None
        for number in self.segments:
            path = segment_path(self._directory, number)
            scan = scan_segment(path)
            first = scan.first_sequence
            if expected is None and first > self._bounds.journal_start():
                raise Corrupt(f"{path}: starts with frame {first}, but frame {self._bounds.journal_start()} is missing")
            if expected is not None and first != expected:
                raise Corrupt(f"{path}: starts with frame {first}, but frame {expected} is the next")
            expected = scan.next_sequence
            yield scan

    def _check_end(self) -> None:
        end = self._bounds.journal_end()
        if self.next_sequence >= end:
            return
        if self.segments:
            last = segment_path(self._directory, self.segments[-1])
            raise Corrupt(f"{last}: ends before frame {self.next_sequence}, though all before frame {end} were on disk")
        found = "holds no segment" if is_there(self._directory) else "is missing"
        raise Corrupt(f"{self._directory} {found}, though all frames of the journal before {end} were on disk")


class Journal:
    """The journal, opened for appending. After a failed write it is closed and opened again, never repaired."""

    def __init__(self, directory: Path, bounds: Bounds, segment_bytes: int, max_segments: int) -> None:
        self._directory = directory
        self._bounds = bounds
        self._segment_bytes = segment_bytes
        self._max_segments = max_segments
        self._file = -1
        """The newest segment, the only one that is written to."""
        self._offset = 0
        """Where its next frame begins."""
        self._capacity = 0
        """Its size: a frame that does not fit begins a new segment."""
        self._current = 0
        """Its number."""
        self._next_segment = NextSegment(directory)
        self._sequence = 0
        """The number of the next frame, which goes on from segment to segment."""
        self._order = 0
        """The number of the last ADD: transactions that are written again keep theirs, and so their order."""
        self._failure: str | None = None
        """Why nothing can be written any more."""
        self.up_s = 0
        """The node's uptime in seconds over all restarts, as last recorded here."""
        self._buffer: list[bytes] = []
        """The records of the next frame."""
        self._unsynced: dict[TxHash, None] = {}
        """The unsettled transactions among them."""
        self.holds_only_adds = True
        """Whether they are all of transactions: then none needs to be written once a block on disk has them all."""
        self._alive: dict[TxHash, int] = {}
        """The segment that each unsettled transaction is in."""
        self._left: dict[TxHash, DropReason] = {}
        """The unsettled transactions that left the mempool."""
        self._tails: dict[TxHash, int] = {}
        """By how much the records of unsettled transactions with data are longer than others."""
        self._tail_bytes = 0
        """The sum of these."""
        self._segments: dict[int, int] = {}
        """How many unsettled transactions each segment has; the oldest segment is first, the current one last."""
        self._firsts: dict[int, int] = {}
        """The first frame of each segment."""
        self.recovered: list[JournalEntry] = []
        """The unsettled transactions when the journal was opened, in the order of acceptance."""
        self.recovered_drops: list[tuple[TxHash, DropReason]] = []

    @classmethod
    def open(
        cls, path: Path, bounds: Bounds, segment_bytes: int = SEGMENT_BYTES, max_segments: int = MAX_SEGMENTS
    ) -> "Journal":
        """Read what is there, and be ready to append. Raises `Corrupt` or `StoreUnavailable`."""
        journal = cls(path, bounds, segment_bytes, max_segments)
        try:
            journal._recover()
        except (OSError, StoreUnavailable) as failure:
            journal.close()
            raise _not_opened(path, failure) from failure
        except BaseException:
            journal.close()
            raise
        return journal

    @staticmethod
    def check(path: Path, bounds: Bounds) -> None:
        """Raise what `open` would raise for what is there. It changes nothing."""
        try:
            Replay(path, bounds)
        except (OSError, StoreUnavailable) as failure:
            raise _not_opened(path, failure) from failure

    def append_add(self, received_at: int, tx: Tx, record: bytes, queued_since: int | None = None) -> None:
        """Append an accepted transaction; `record` is `encode_record(tx)`. It is on disk after the next `sync`."""
        self._order += 1
        since = _NEVER if queued_since is None else queued_since
        self._buffer += (_pack_add(_ADD, self._order, received_at, since), record)
        self._unsynced[tx.hash] = None
        if self._left:
            self._left.pop(tx.hash, None)
        if tx.data:
            self._count_tail(tx.hash, len(record) - TX_RECORD_SIZE)

    def append_drop(self, tx_hash: TxHash, reason: DropReason) -> None:
        """Append that a transaction was dropped. It must still be settled."""
        self._buffer.append(_encode_drop(_DROP, tx_hash, reason))
        self.holds_only_adds = False

    def append_leave(self, tx_hash: TxHash, reason: DropReason) -> None:
        """Append that an unsettled transaction left the mempool, and is still kept. Of others nothing is written."""
        is_kept = tx_hash in self._alive or tx_hash in self._unsynced
        if is_kept and self._left.get(tx_hash) != reason:
            self._left[tx_hash] = reason
            self._buffer.append(_encode_drop(_LEAVE, tx_hash, reason))
            self.holds_only_adds = False

    def append_uptime(self, up_s: int) -> None:
        """Append the node's uptime."""
        self.up_s = up_s
        self._buffer.append(_encode_uptime(up_s))
        self.holds_only_adds = False

    def settle(self, tx_hash: TxHash) -> None:
        """A transaction is confirmed or dropped: the journal need not keep it any longer."""
        segment = self._alive.pop(tx_hash, None)
        if segment is not None:
            self._segments[segment] -= 1
        if self._unsynced:
            self._unsynced.pop(tx_hash, None)
        if self._left:
            self._left.pop(tx_hash, None)
        if self._tails:
            self._tail_bytes -= self._tails.pop(tx_hash, 0)

    def settle_confirmed(self, txs: Iterable[Tx]) -> None:
        """These are in a block on disk: as `settle`, for many."""
        if self._unsynced or self._left or self._tails:
            for tx in txs:
                self.settle(tx.hash)
            return
        alive, segments = self._alive, self._segments
        for tx in txs:
            segment = alive.pop(tx.hash, None)
            if segment is not None:
                segments[segment] -= 1

    def sync(self) -> None:
        """Put everything appended on disk, and remove segments that nothing needs any more.

        Transactions that were all settled meanwhile are not written: they are on disk in a block.
        Raises `StoreUnavailable`; the journal is then of no further use.
        """
        self._check_usable()
        try:
            if self._unsynced or not self.holds_only_adds:
                began = time.perf_counter()
                self._write(b"".join(self._buffer), self._unsynced)
                metrics.JOURNAL_SYNC.observe(time.perf_counter() - began)
                if 2 * self._offset > self._capacity:
                    # A piece with each sync: whoever submits would wait for all of it at once.
                    self._next_segment.grow(self._current + 1, self._segment_bytes)
                self._unsynced.clear()
            self._buffer.clear()
            self.holds_only_adds = True
            if len(self._segments) > 1:
                self._retire()
        except (OSError, StoreUnavailable) as failure:
            raise self._failed(failure) from failure

    def link_segments(self, directory: Path) -> JournalExtent:
        """Give all segments further names in `directory`; returns how far they go now. Raises `OSError`."""
        for number in self._segments:
            os.link(segment_path(self._directory, number), segment_path(directory, number))
        first = next(iter(self._segments))
        return JournalExtent(self._firsts[first], self._sequence, self._current, self._offset)

    def probe(self) -> None:
        """Write, sync and read back. Raises `StoreUnavailable` or `Corrupt`."""
        self._check_usable()
        try:
            frame = self._write(_encode_uptime(self.up_s), ())
            found = os.pread(self._file, len(frame), self._offset - len(frame))
            # Probes fill segments, too, even on an idle node.
            self._retire()
        except (OSError, StoreUnavailable) as failure:
            raise self._failed(failure) from failure
        if found != frame:
            raise Corrupt(f"the journal at {self._directory} does not give back what was just written")

    def close(self) -> None:
        """Close the files. What was not synced is lost; it was never answered with 200."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._next_segment.discard()
        self._failure = self._failure or f"the journal at {self._directory} is closed"

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise JournalUnavailable(self._failure)

    def _failed(self, failure: OSError | StoreUnavailable) -> JournalUnavailable:
        # No retry: after a failed sync the kernel forgets which pages it could not write.
        self._failure = f"the journal at {self._directory} cannot be written: {reason_of(failure)}"
        return JournalUnavailable(self._failure)

    def _write(self, payload: bytes, added: Collection[TxHash]) -> bytes:
        """Write one frame and sync it; `added` are its unsettled transactions. Returns the frame."""
        frame = encode_frame(self._sequence, payload)
        if self._offset + len(frame) > self._capacity:
            frame = encode_frame(self._sequence, _encode_uptime(self.up_s) + payload)
            self._start_segment(len(frame))
        write_at(self._file, frame, self._offset)
        sync_file(self._file)
        self._offset += len(frame)
        self._sequence += 1
        # Before any answer: from here on a missing frame is noticed.
        self._bounds.raise_journal_end(self._sequence)
        # Those that are written again are no longer in an earlier segment.
        if not self._alive.keys().isdisjoint(added):
            for tx_hash in self._alive.keys() & added:
                self._segments[self._alive[tx_hash]] -= 1
        self._alive.update(dict.fromkeys(added, self._current))
        self._segments[self._current] += len(added)
        return frame

    def _start_segment(self, frame_bytes: int) -> None:
        number = self._current + 1
        capacity = max(self._segment_bytes, SEGMENT_HEADER_SIZE + frame_bytes)
        file = self._next_segment.finish(number, self._sequence, capacity)
        if self._file >= 0:
            os.close(self._file)
        self._file, self._current = file, number
        self._offset, self._capacity = SEGMENT_HEADER_SIZE, capacity
        self._segments[number], self._firsts[number] = 0, self._sequence

    def _retire(self) -> None:
        """Remove the oldest segments without unsettled transactions. If the journal is too large, move those first."""
        self._remove_dead()
        while len(self._segments) > self._max_segments and self._is_mostly_dead():
            self._rewrite(self._living_in(next(iter(self._segments))))
            self._remove_dead()

    def _living_in(self, number: int) -> list[bytes]:
        path = segment_path(self._directory, number)
        adds = {_hash_of(add): add for add in _adds(path, scan_segment(path))}
        living = [tx_hash for tx_hash, segment in self._alive.items() if segment == number]
        missing = [tx_hash for tx_hash in living if tx_hash not in adds]
        if missing:
            raise Corrupt(f"{path}: transaction 0x{missing[0].hex()} is no longer in it")
        return [adds[tx_hash] for tx_hash in living]

    def _remove_dead(self) -> None:
        numbers = list(self._segments)
        dead = list(takewhile(lambda number: not self._segments[number], numbers[:-1]))
        if dead:
            self._remove(dead, numbers[len(dead)])
            for number in dead:
                del self._segments[number], self._firsts[number]

    def _is_mostly_dead(self) -> bool:
        living_bytes = len(self._alive) * _ADD_SIZE + self._tail_bytes
        return 2 * living_bytes < len(self._segments) * self._segment_bytes

    def _count_tail(self, tx_hash: TxHash, size_bytes: int) -> None:
        self._tail_bytes += size_bytes - self._tails.get(tx_hash, 0)
        self._tails[tx_hash] = size_bytes

    def _remove(self, numbers: list[int], kept: int) -> None:
        """Remove the oldest segments; `kept` is the first after them."""
        # Before the first removal: a segment that is missing after this bound was not removed by us.
        self._bounds.raise_journal_start(self._firsts[kept])
        for number in numbers:
            segment_path(self._directory, number).unlink()
            # One by one, so that after a power loss the newer part remains, without a gap: a DROP must not be removed
            # before its ADD.
            sync_directory(self._directory)

    def _rewrite(self, adds: list[bytes]) -> None:
        """Write records again, into the newest segment."""
        for start in range(0, len(adds), _FRAME_RECORDS):
            group = adds[start : start + _FRAME_RECORDS]
            hashes = list(map(_hash_of, group))
            # With its ADD: the segment in which a LEAVE was may be removed next.
            leaves = [_encode_drop(_LEAVE, each, self._left[each]) for each in hashes if each in self._left]
            self._write(b"".join(group + leaves), hashes)

    def _recover(self) -> None:
        """Replay all segments, write the unsettled transactions into new ones, and remove the old ones."""
        replay = Replay(self._directory, self._bounds)
        self.recovered, last = replay.entries, replay.last_segment
        self.recovered_drops = list(replay.drops.items())[-KEPT_DROPS:]
        self.up_s, self._left, self._sequence = replay.up_s, replay.left, replay.next_sequence
        self._order = _order_of(replay.adds[-1]) if replay.adds else 0
        for add in replay.adds:
            if len(add) > _ADD_SIZE:
                self._count_tail(_hash_of(add), len(add) - _ADD_SIZE)
        # Everything required is there: from here on the directory is changed.
        make_directory(self._directory)
        if last is not None and last.frames:
            self._write_again(segment_path(self._directory, last.number), last.frames[-1])
        remove_drafts(self._directory)
        self._current = replay.segments[-1] if replay.segments else 0
        self._start_segment(0)
        first = self._current
        if self.up_s:
            self._write(_encode_uptime(self.up_s), ())
        self._rewrite(replay.adds)
        if self.recovered_drops:
            self._write(b"".join(_encode_drop(_DROP, *drop) for drop in self.recovered_drops), ())
        self._remove(replay.segments, first)

    def _write_again(self, path: Path, frame: Frame) -> None:
        """Write the last frame to disk again: after a failed sync it may be in memory only.

        The next segment continues after it. Without this, a power loss before the old ones are removed would leave a
        gap.
        """
        file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            write_at(file, encode_frame(frame.sequence, frame.payload), frame.offset)
            sync_file(file)
        finally:
            os.close(file)


def _not_opened(path: Path, failure: OSError | StoreUnavailable) -> JournalUnavailable:
    return JournalUnavailable(f"cannot open the journal at {path}: {reason_of(failure)}")


def _adds(path: Path, scan: Scan) -> Iterator[bytes]:
    for frame in scan.frames:
        yield from (record for kind, record in _records(path, frame) if kind == _ADD)


def _records(path: Path, frame: Frame) -> Iterator[tuple[int, bytes]]:
    payload, start = frame.payload, 0
    while start < len(payload):
        kind = payload[start]
        try:
            end = record_end(payload, start + _ADD_HEAD.size) if kind == _ADD else start + _SIZES.get(kind, 0)
        except Corrupt as damage:
            raise Corrupt(f"{path}: the frame at byte {frame.offset}: {damage.detail}") from None
        if not start < end <= len(payload):
            raise Corrupt(f"{path}: the frame at byte {frame.offset} holds an unknown record of kind {kind}")
        yield kind, payload[start:end]
        start = end


def _encode_drop(kind: int, tx_hash: TxHash, reason: DropReason) -> bytes:
    return _DROP_RECORD.pack(kind, _REASON_NUMBERS[reason], tx_hash)


def _encode_uptime(up_s: int) -> bytes:
    return _UPTIME_RECORD.pack(_UPTIME, up_s)


def _decode_add(record: bytes, left: DropReason | None) -> JournalEntry:
    _, _, received_at, since = _ADD_HEAD.unpack_from(record)
    tx = decode_record(record[_ADD_HEAD.size :])
    return JournalEntry(received_at, tx, None if since == _NEVER else since, left)


def _hash_of(record: bytes) -> TxHash:
    return TxHash(record[_HASH_AT:_HASH_END])


def _order_of(record: bytes) -> int:
    return int(_ADD_HEAD.unpack_from(record)[1])
