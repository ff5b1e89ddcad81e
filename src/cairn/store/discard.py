"""Discards a damaged journal: the chain is kept, and accepted but unconfirmed transactions are lost.

Only the operator's command does this. The journal is moved aside first, then the watermark is replaced by one that
expects none. After a crash in between, the directory is still refused, and the same command completes the work.
"""

from pathlib import Path

from cairn.domain.errors import StoreUnavailable
from cairn.store.directory import DirectoryLock, check_format, is_there, journal_path, sync_directory, watermark_path
from cairn.store.watermark import Watermark


def discard_journal(directory: Path) -> Path | None:
    """Start with an empty journal; returns the new path of the old one, if there was one.

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
    if not is_there(journal):
        return None
    number = 1
    while is_there(aside := journal.with_name(f"{journal.name}.discarded-{number}")):
        number += 1
    journal.rename(aside)
    sync_directory(journal.parent)
    return aside
