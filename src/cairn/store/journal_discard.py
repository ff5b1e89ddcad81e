"""Puts a damaged journal aside, when the operator says so."""

from pathlib import Path

from cairn.domain.errors import StoreUnavailable, reason_of
from cairn.store.directory import (
    DirectoryLock,
    check_format,
    format_path,
    is_there,
    journal_path,
    sync_directory,
    watermark_path,
)
from cairn.store.watermark import Watermark


def discard_journal(directory: Path) -> Path | None:
    """Begin an empty journal, for the operator of a damaged one; returns the new path of the old one, if there was one.

    The chain is kept, and accepted but unconfirmed transactions are lost.
    Raises `DirectoryInUse`, `WrongFormat`, `StoreUnavailable`, or `Corrupt` when the watermark is damaged too.
    """
    if not is_there(format_path(directory)):
        raise StoreUnavailable(
            f"{directory} is not the data directory of a node: it has no file FORMAT. Name the data directory, which "
            "is `data` in the node's home unless its settings say otherwise"
        )
    check_format(directory)
    lock = DirectoryLock.acquire(directory)
    try:
        watermark = Watermark.open(watermark_path(directory))
        bounds = watermark.bounds()
        watermark.close()
        # In this order: after a crash in between the directory is still refused, and the same command completes it.
        aside = _put_aside(journal_path(directory))
        Watermark.create(watermark_path(directory), bounds._replace(journal_start=0, journal_end=0))
    except OSError as failure:
        raise StoreUnavailable(f"cannot put the journal in {directory} aside: {reason_of(failure)}") from failure
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
