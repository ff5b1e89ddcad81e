"""Backups on disk: what is in one, how it is written and checked, and which ones a directory has.

    TARGET/2026-11-18T071530Z/
        SHA256SUMS        of every other file, as `sha256sum -c` reads it
        backup.json       of which chain, when, and up to which block
        genesis.json, cairn.toml
        signing-key.json  only if that was asked for: the key that signs the block after the last one in data/
        data/             a data directory, as a node opens it
        cometbft/         on a network

A backup is made under another name, checked, and only then given its own: what has such a name is whole. Tables of
RocksDB never change, so those that an earlier backup in TARGET has are further names of its files.
"""

import hashlib
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from cairn.domain.certificates import first_validators, next_signer
from cairn.domain.errors import Corrupt, InvalidConfig, StoreUnavailable
from cairn.domain.genesis import Genesis, genesis_digest
from cairn.store.directory import (
    chain_path,
    check_present,
    format_path,
    is_there,
    journal_path,
    make_directory,
    mark_format,
    names_in,
    rules_path,
    sync_directory,
    sync_file,
    watermark_path,
    write_at,
    write_file,
)
from cairn.store.hot_copy import CopiedStore
from cairn.store.inspection import FoundChain, FoundStore, inspect
from cairn.store.journal import JournalExtent, Replay
from cairn.store.reader import ChainReader
from cairn.store.rocks import Database
from cairn.store.segment import list_segments, segment_path
from cairn.store.watermark import StoreBounds, Watermark

SUMS_FILE = "SHA256SUMS"
FACTS_FILE = "backup.json"
DATA_DIRECTORY = "data"
CHUNK_BYTES = 1 << 20
TABLE_SUFFIXES = (".sst", ".ldb")
"""Files of RocksDB, and of CometBFT's store, that never change once they are written."""

_BACKUP_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d{6}Z(-\d+)?")
_SUM_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")
_OWN_TO_PROCESS = re.compile(r"LOCK|LOG(\..*)?")
"""What RocksDB makes for itself: its lock, and its log in words."""

OnBytes = Callable[[int], None]
"""Called with the size of what was copied or read since the last call."""


class TableOrigin(msgspec.Struct, frozen=True, array_like=True):
    """The file that a table was copied from. It never changes, so one that has all of this is the same."""

    inode: int
    size: int
    modified_ns: int


class BackupFacts(msgspec.Struct, frozen=True, rename="camel"):
    """What is in backup.json."""

    made_at: int
    """Unix time in whole seconds: of the moment that it shows."""
    version: str
    data_format: int
    chain_id: int
    genesis: str
    """The digest of genesis, which identifies the chain."""
    engine: str
    height: int
    hash: str
    pending: int
    """Transactions in the journal: accepted, and not in a block."""
    has_keys: bool
    tables: dict[str, TableOrigin] = {}
    number: int = 0
    """Counts the backups in a directory as they are made, whatever the clock says. Older versions gave none."""


class Backup(msgspec.Struct, frozen=True):
    path: Path
    facts: BackupFacts
    sums: dict[str, str]
    """The digest of each file, by its name in the backup."""


class SourceFile(NamedTuple):
    path: Path
    size: int
    used: int
    """How much of it is copied; the rest is zeros."""


class Written(NamedTuple):
    """The files of a backup that is being made."""

    sums: dict[str, str]
    tables: dict[str, TableOrigin]
    shared: dict[str, int]
    """The tables that are those of an earlier backup, with their sizes. They were read and are whole."""
    damaged: list[Path]
    """Tables of the earlier backup that are not what was written. They were copied again."""
    copied_bytes: int


# What there is to copy.


def complete_copy(directory: Path, copied: CopiedStore) -> None:
    """Make what a copy of an open store lacks to be a data directory. Raises `OSError`."""
    bounds = StoreBounds(copied.height, copied.oldest, copied.journal.start, copied.journal.end)
    Watermark.create(watermark_path(directory), bounds)
    mark_format(directory)


def data_files(directory: Path, extent: JournalExtent | None = None) -> dict[str, SourceFile]:
    """The files of a data directory, by their names in a backup. Raises `StoreUnavailable` or `OSError`.

    `extent` says how much of the journal belongs to the copy; None for all, of a node that is stopped.
    """
    check_present(directory)
    chain, journal = chain_path(directory), journal_path(directory)
    paths = [chain / name for name in sorted(names_in(chain)) if not _OWN_TO_PROCESS.fullmatch(name)]
    paths += [segment_path(journal, number) for number in list_segments(journal)]
    paths += [watermark_path(directory), format_path(directory)]
    paths += filter(is_there, [rules_path(directory)])
    files = {f"{DATA_DIRECTORY}/{path.relative_to(directory)}": _whole(path) for path in paths}
    if extent is not None:
        last = segment_path(journal, extent.last_segment)
        name = f"{DATA_DIRECTORY}/{last.relative_to(directory)}"
        files[name] = files[name]._replace(used=extent.last_bytes)
    return files


def _whole(path: Path) -> SourceFile:
    size = path.stat().st_size
    return SourceFile(path, size, size)


def home_files(present: Mapping[str, Path]) -> dict[str, SourceFile]:
    """Files beside the data directory, those of them that are there. Raises `StoreUnavailable` or `OSError`."""
    return {name: _whole(path) for name, path in present.items() if is_there(path)}


# Writing.


def write_backup(draft: Path, files: Mapping[str, SourceFile], earlier: Backup | None, on_bytes: OnBytes) -> Written:
    """Copy the files into `draft`, which does not exist, and sync them. Raises `OSError` or `StoreUnavailable`."""
    written = Written({}, {}, {}, [], sum(each.size for each in files.values()))
    for name, source in files.items():
        target = draft / name
        make_directory(target.parent)
        if name.endswith(TABLE_SUFFIXES):
            written.tables[name] = _origin(source.path)
            if earlier is not None and _is_shared(earlier, name, target, written, on_bytes):
                written.sums[name], written.shared[name] = earlier.sums[name], source.size
                continue
        written.sums[name] = copy_file(source, target, on_bytes)
    for parent in {(draft / name).parent for name in files}:
        sync_directory(parent)
    return written._replace(copied_bytes=written.copied_bytes - sum(written.shared.values()))


def bytes_to_copy(files: Mapping[str, SourceFile], earlier: Backup | None) -> int:
    """What `write_backup` copies, where earlier tables can be given further names."""
    known = {} if earlier is None else earlier.facts.tables
    return sum(each.size for name, each in files.items() if name not in known or known[name] != _origin(each.path))


def _origin(path: Path) -> TableOrigin:
    found = path.stat()
    return TableOrigin(found.st_ino, found.st_size, found.st_mtime_ns)


def _is_shared(earlier: Backup, name: str, target: Path, written: Written, on_bytes: OnBytes) -> bool:
    """Give the table of an earlier backup another name. False if that has another one, or the disk cannot."""
    path = earlier.path / name
    if earlier.facts.tables.get(name) != written.tables[name] or name not in earlier.sums:
        return False
    with suppress(OSError):
        if _digest_on_disk(path, on_bytes) != earlier.sums[name]:
            written.damaged.append(path)
            return False
        os.link(path, target)
        return True
    return False


def copy_file(source: SourceFile, target: Path, on_bytes: OnBytes) -> str:
    """Copy a file to a new one that only its owner can read, and sync it. Returns its digest. Raises `OSError`."""
    digest = hashlib.sha256()
    with source.path.open("rb", buffering=0) as reading:
        file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            at = 0
            while at < source.size:
                wanted = min(CHUNK_BYTES, source.size - at)
                part = reading.read(min(wanted, source.used - at)) if at < source.used else bytes(wanted)
                if not part:
                    raise StoreUnavailable(f"{source.path} has become shorter while it was copied")
                write_at(file, part, at)
                digest.update(part)
                at += len(part)
                on_bytes(len(part))
            sync_file(file)
        finally:
            os.close(file)
    return digest.hexdigest()


def finish_backup(draft: Path, facts: BackupFacts, sums: Mapping[str, str]) -> Backup:
    """Write what says that it is whole. Raises `OSError`."""
    described = msgspec.json.format(msgspec.json.encode(facts)) + b"\n"
    write_file(draft / FACTS_FILE, described)
    complete = {**sums, FACTS_FILE: hashlib.sha256(described).hexdigest()}
    write_file(draft / SUMS_FILE, "".join(f"{digest}  {name}\n" for name, digest in complete.items()).encode())
    return Backup(draft, facts, complete)


def name_of_backup(target: Path, made_at: int) -> Path:
    """A name that no backup has yet."""
    name = time.strftime("%Y-%m-%dT%H%M%SZ", time.gmtime(made_at))
    path, number = target / name, 1
    while is_there(path):
        number += 1
        path = target / f"{name}-{number}"
    return path


# Reading and checking.


def backups_in(target: Path) -> list[Path]:
    """The backups in a directory, in the order of their names. Raises `StoreUnavailable`."""
    names = [name for name in names_in(target) if _BACKUP_NAME.fullmatch(name)]
    # A second one of the same second comes after the first, and a tenth after a ninth.
    return [target / name for name in sorted(names, key=lambda name: (name[:18], len(name), name))]


def read_backup(path: Path) -> Backup:
    """What a backup says of itself. Raises `InvalidConfig` if it is none, or `Corrupt` if that cannot be read."""
    try:
        lines = (path / SUMS_FILE).read_text().splitlines()
        described = (path / FACTS_FILE).read_bytes()
    except (FileNotFoundError, NotADirectoryError) as failure:
        raise InvalidConfig(f"{path} is not a whole backup: {failure.filename} is missing") from None
    except (OSError, UnicodeDecodeError) as failure:
        raise Corrupt(f"cannot read the backup {path}: {failure}") from None
    sums: dict[str, str] = {}
    for line in lines:
        found = _SUM_LINE.fullmatch(line)
        # A name that leads out of the backup was not written by us.
        if found is None or os.path.isabs(found[2]) or ".." in Path(found[2]).parts:
            raise Corrupt(f"{path / SUMS_FILE} is not what was written: {line[:100]!r}")
        sums[found[2]] = found[1]
    if sums.get(FACTS_FILE) != hashlib.sha256(described).hexdigest():
        raise Corrupt(f"{path / FACTS_FILE} is not what was written")
    try:
        return Backup(path, msgspec.json.decode(described, type=BackupFacts), sums)
    except msgspec.DecodeError as error:
        raise Corrupt(f"{path / FACTS_FILE} cannot be read: {error}") from None


def readable_backups(target: Path) -> list[Backup]:
    """The backups in a directory that can be read, in the order in which they were made. Raises `StoreUnavailable`."""
    found = []
    for path in backups_in(target):
        with suppress(InvalidConfig, Corrupt):
            found.append(read_backup(path))
    # A clock that was ahead gave names that are later than those of newer ones.
    numbered = [each.facts for each in found if each.facts.number]

    def position(facts: BackupFacts) -> tuple[int, bool]:
        if facts.number:
            return facts.number, False
        # An older version may have been installed again: what it made follows those that were there by its time.
        return max((each.number for each in numbered if each.made_at <= facts.made_at), default=0), True

    return sorted(found, key=lambda backup: position(backup.facts))


def is_of_chain(backup: Backup, genesis: Genesis) -> bool:
    return backup.facts.genesis == digest_text(genesis)


def digest_text(genesis: Genesis) -> str:
    return "0x" + genesis_digest(genesis).hex()


def sizes_of(backup: Backup) -> dict[str, int]:
    """The size of each file. Raises `Corrupt` for one that is missing, or that is in no list."""
    # Whoever looks into its store leaves these behind, such as `cairn verify`.
    others = {name for name in _names_under(backup.path) if not _OWN_TO_PROCESS.fullmatch(os.path.basename(name))}
    unlisted = others - backup.sums.keys() - {SUMS_FILE}
    if unlisted:
        raise Corrupt(f"{backup.path / min(unlisted)} is not in {SUMS_FILE}: it was added to the backup later")
    try:
        return {name: (backup.path / name).stat().st_size for name in backup.sums}
    except OSError as failure:
        raise Corrupt(f"{failure.filename} of the backup cannot be found: {failure.strerror}") from None


def _names_under(directory: Path) -> Iterator[str]:
    for parent, _, names in os.walk(directory):
        for name in names:
            yield os.path.relpath(os.path.join(parent, name), directory)


def check_files(backup: Backup, on_bytes: OnBytes, but: Collection[str] = ()) -> None:
    """Read all files, and compare them with their digests. Raises `Corrupt` that names the first that differs."""
    for name in sizes_of(backup).keys() - but:
        path = backup.path / name
        try:
            if _digest_on_disk(path, on_bytes) != backup.sums[name]:
                raise Corrupt(f"{path} is not what was written into the backup")
        except OSError as failure:
            raise Corrupt(f"cannot read {path}: {failure.strerror}") from None


def _digest_on_disk(path: Path, on_bytes: OnBytes) -> str:
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        if sys.platform == "linux":
            # Otherwise the kernel may only repeat what was written a moment ago.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while part := file.read(CHUNK_BYTES):
            digest.update(part)
            on_bytes(len(part))
    return digest.hexdigest()


class CheckedData(NamedTuple):
    """What was found in a data directory that was opened as a node would."""

    chain: FoundChain
    pending: int
    signer: bytes | None
    """Whose key signs the next block; None on a network."""


def check_data(directory: Path, genesis: Genesis) -> CheckedData:
    """Open the data directory of a backup for reading, and read its journal.

    Raises `Corrupt`, `WrongFormat`, `WrongGenesis` or `StoreUnavailable`.
    """
    try:
        found = inspect(directory, genesis)
        if found is None or found.chain is None:
            raise Corrupt(f"{directory} holds no chain")
        return _read_data(directory, found, genesis)
    finally:
        for name in names_in(chain_path(directory)):
            # An opening leaves them behind, including one that only reads.
            if _OWN_TO_PROCESS.fullmatch(name):
                (chain_path(directory) / name).unlink()


def _read_data(directory: Path, found: FoundStore, genesis: Genesis) -> CheckedData:
    """Count the transactions of the journal that are not in a block, and find who signs the next one."""
    watermark = Watermark.follow(watermark_path(directory))
    try:
        entries = Replay(journal_path(directory), watermark).entries
    finally:
        watermark.close()
    database = Database.open_read_only(chain_path(directory), strict=found.is_log_whole)
    try:
        assert found.chain is not None
        height = found.chain.head.height
        reader = ChainReader(database, height, found.chain.base)
        pending = sum(each.tx.nonce >= reader.account_at(each.tx.sender, height).nonce for each in entries)
        signer = None if genesis.validators else next_signer(reader.steps(), first_validators(genesis))
        return CheckedData(found.chain, pending, signer)
    finally:
        database.close()
