"""Giving up a damaged journal: the chain goes on, without what was accepted and not yet confirmed.

Nothing does this by itself. The journal is put aside first, then the watermark is replaced by one that asks for none; a
crash in between leaves a directory that is refused like before, and the same command ends what it has begun.
"""

from pathlib import Path

from cairn.domain.errors import StoreUnavailable
from cairn.store.directory import DirectoryLock, check_format, journal_path, sync_directory, watermark_path
from cairn.store.watermark import Watermark


def discard_journal(directory: Path) -> Path | None:
    """Start anew with an empty journal; returns where the old one is now, if there was one.

    Raises `DirectoryInUse`, `WrongFormat`, `StoreUnavailable`, or `Corrupt` when the watermark is damaged too.
    """
    check_format(directory)
    lock = DirectoryLock.acquire(directory)
    try:
        watermark = Watermark.open(watermark_path(directory))
        height = watermark.height()
        watermark.close()
        aside = _put_aside(journal_path(directory))
        Watermark.create(watermark_path(directory), height)
    except OSError as failure:
        raise StoreUnavailable(f"cannot put the journal in {directory} aside: {failure}") from failure
    finally:
        lock.release()
    return aside


def _put_aside(journal: Path) -> Path | None:
    if not journal.exists():
        return None
    number = 1
    while (aside := journal.with_name(f"{journal.name}.discarded-{number}")).exists():
        number += 1
    journal.rename(aside)
    sync_directory(journal.parent)
    return aside
