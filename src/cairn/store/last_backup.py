"""What a home says of its latest backup: `cairn backup` notes it, other commands and the node's metrics tell of it."""

from pathlib import Path

import msgspec

from cairn.store.directory import write_file


class LastBackup(msgspec.Struct, frozen=True, rename="camel"):
    """The latest backup that was made of a home."""

    backup: str
    made_at: int
    height: int = 0


def last_backup_path(home: Path) -> Path:
    return home / "last-backup.json"


def find_last_backup(home: Path) -> LastBackup | None:
    """None if none was made, or what was noted of it cannot be read."""
    try:
        return msgspec.json.decode(last_backup_path(home).read_bytes(), type=LastBackup)
    except (OSError, msgspec.DecodeError):
        return None


def note_backup(home: Path, backup: LastBackup) -> None:
    """Write it down. Raises `OSError`."""
    write_file(last_backup_path(home), msgspec.json.encode(backup))
