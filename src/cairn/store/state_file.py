"""A dev chain as one file, to start others from: a zip of the data directory of a node that is stopped.

It has the chain, what is pending and the chain's clock, and says of which genesis it is. Snapshots are not in it.
"""

import fcntl
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from cairn.domain.errors import InvalidConfig, NodeError
from cairn.domain.genesis import Genesis, encode_genesis
from cairn.store.dev_snapshots import finish_revert, state_without_snapshots
from cairn.store.directory import (
    DirectoryLock,
    chain_path,
    check_linked,
    format_path,
    is_there,
    journal_path,
    lock_holder,
    sync_directory,
    sync_file,
    watermark_path,
    write_lock_holder,
)
from cairn.store.inspection import inspect

GENESIS_NAME = "genesis.json"
STATE_NAME = "dev/state"

# What zipfile raises for a file that is cut short, changed, encrypted or packed by a method unknown to it.
_DAMAGED = (KeyError, ValueError, RuntimeError, EOFError, zlib.error, zipfile.BadZipFile)


def check_place(path: Path) -> None:
    """Check that a file can be saved to `path`. Raises `InvalidConfig`."""
    try:
        tempfile.NamedTemporaryFile(dir=path.resolve().parent).close()
    except OSError as failure:
        raise _not_saved(path, failure) from None


@contextmanager
def hold_state_file(path: Path) -> Iterator[None]:
    """Keep other nodes from saving to `path`: the last one to stop would overwrite what the others have saved.

    Raises `InvalidConfig` when another node holds it. The lock is a file beside it, which a node that is killed leaves
    behind, but does not hold.
    """
    target = path.resolve()
    lock = target.parent / f"{target.name}.cairn-lock"
    try:
        file = _lock(lock, path)
    except OSError as failure:
        raise InvalidConfig(f"cannot lock {path} with {lock}: {failure.strerror}") from None
    try:
        yield
    finally:
        # While it is still held, so that it is not another node's by now.
        with suppress(OSError):
            lock.unlink()
        os.close(file)


def _lock(lock: Path, path: Path) -> int:
    while True:
        file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            _claim(file, path)
            check_linked(file)
            return file
        except FileNotFoundError:
            # Its owner removed it just after we had opened it: the next one is another file.
            os.close(file)
        except BaseException:
            os.close(file)
            raise


def _claim(file: int, path: Path) -> None:
    try:
        # Not `flock`, which the processes of a node that was killed would hold until the last of them has ended.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        raise InvalidConfig(
            f"the node with process id {lock_holder(file)} saves its chain to {path} when it stops: "
            "stop it first, give another --state, or only load the file with --load-state"
        ) from None
    write_lock_holder(file)


def save_state(directory: Path, genesis: Genesis, path: Path) -> None:
    """Write the chain in `directory` to `path`, which has all of it or is left as it was. Raises `InvalidConfig`.

    A node that was stopped before it had a chain leaves it as it was, too.
    """
    try:
        lock = DirectoryLock.acquire(directory)
        try:
            # What was lost or damaged while the node ran must not take the place of a whole chain.
            inspect(directory, genesis)
            # A revert that was interrupted may have left the chain without its journal.
            finish_revert(directory)
            if is_there(journal_path(directory)):
                _write_file(path.resolve(), directory, genesis)
        finally:
            lock.release()
    except (OSError, NodeError) as failure:
        raise _not_saved(path, failure) from None


def load_state(path: Path, genesis: Genesis, directory: Path) -> None:
    """Put the chain in `path` into `directory`, which is empty. Raises `InvalidConfig`, even for another genesis."""
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.read(GENESIS_NAME) != encode_genesis(genesis):
                options = "--chain-id, --accounts, --balance, --mnemonic and --gas-price"
                raise InvalidConfig(f"{path} is of a chain with other rules or accounts: give it the same {options}")
            # `extractall` leads no name out of the directory.
            archive.extractall(directory, [name for name in archive.namelist() if name != GENESIS_NAME])
    except _DAMAGED:
        raise InvalidConfig(f"{path} is no file that `cairn dev --state` has saved") from None
    except OSError as failure:
        raise InvalidConfig(f"cannot load the chain from {path}: {failure.strerror}") from None


def _not_saved(path: Path, failure: OSError | NodeError) -> InvalidConfig:
    why = failure.detail if isinstance(failure, NodeError) else failure.strerror
    return InvalidConfig(f"cannot save the chain to {path}: {why}")


def _write_file(path: Path, directory: Path, genesis: Genesis) -> None:
    number, name = tempfile.mkstemp(prefix="cairn-state-", dir=path.parent)
    draft = Path(name)
    try:
        with open(number, "wb") as file:
            _write_archive(file, directory, genesis)
            file.flush()
            sync_file(file.fileno())
        draft.rename(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
    sync_directory(path.parent)


def _write_archive(file: BinaryIO, directory: Path, genesis: Genesis) -> None:
    # Most of it is the journal's room for more, which is zeros.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1, strict_timestamps=False) as archive:
        archive.writestr(GENESIS_NAME, encode_genesis(genesis))
        archive.writestr(STATE_NAME, state_without_snapshots(directory))
        for part in _parts(directory):
            archive.write(part, part.relative_to(directory))


def _parts(directory: Path) -> Iterator[Path]:
    yield format_path(directory)
    yield watermark_path(directory)
    for part in (chain_path(directory), journal_path(directory)):
        # Without RocksDB's lock and its log.
        yield from (Path(entry.path) for entry in os.scandir(part) if not entry.name.startswith("LO"))
