"""Journals for tests, by default without bounds: each is accepted as it is found."""

from collections.abc import Iterable
from pathlib import Path

from cairn.domain.transactions import encode_record
from cairn.domain.types import MAX_UINT64, Tx
from cairn.store.journal import MAX_SEGMENTS, SEGMENT_BYTES, Bounds, Journal


class Unbounded:
    def journal_start(self) -> int:
        return MAX_UINT64

    def journal_end(self) -> int:
        return 0

    def raise_journal_start(self, frame: int) -> None:
        pass

    def raise_journal_end(self, frame: int) -> None:
        pass


UNBOUNDED = Unbounded()


def open_journal(
    path: Path,
    segment_bytes: int = SEGMENT_BYTES,
    max_segments: int = MAX_SEGMENTS,
    bounds: Bounds = UNBOUNDED,
) -> Journal:
    return Journal.open(path, bounds, segment_bytes, max_segments)


def append(journal: Journal, added: Iterable[Tx], received_at: int = 0) -> None:
    for tx in added:
        journal.append_add(received_at, tx, encode_record(tx))


def recovered(path: Path) -> list[Tx]:
    journal = open_journal(path)
    journal.close()
    return [entry.tx for entry in journal.recovered]
