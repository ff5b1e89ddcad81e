"""Snapshots of a dev chain and its mempool, and reverting to one of them.

    DIR/dev/state    the list of snapshots, and a decided revert; replaced as a whole
    DIR/dev/N/       snapshot N: chain/, watermark and journal/, made like those in DIR
    DIR/dev/old/     the replaced chain, until it is removed

A revert is decided by one write of `state`, while the chain is still open: it names the snapshot to revert to. Only the
next opening of the chain acts on it, before it opens anything. Each step of that can be repeated: a part that is still
in the snapshot has not been moved, one that is not has. So after a crash before the decision the chain is as it was,
and after a crash at any later moment the next opening completes the revert. A mix of the two is never opened.

Nothing is copied: tables of RocksDB are hard links, and a revert moves the snapshot, which then no longer exists.
"""

import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from cairn.domain.errors import Corrupt, StoreUnavailable
from cairn.domain.transactions import encode_record
from cairn.domain.types import DropReason, TxHash
from cairn.store.directory import (
    Parts,
    dev_path,
    is_directory,
    is_there,
    journal_path,
    make_directory,
    names_in,
    parts_in,
    sync_directory,
    watermark_path,
    write_file,
)
from cairn.store.journal import Journal, JournalEntry
from cairn.store.watermark import Watermark

KEPT_SNAPSHOTS = 1_000
"""Only the newest are kept, so that a test suite that takes one per test and never reverts does not fill the disk."""
JOURNAL_SEGMENT_BYTES = 4_096
"""Small: a new segment is written in full, and a snapshot's is never appended to."""


class DevSnapshot(msgspec.Struct, frozen=True):
    height: int
    """Height of its latest block."""
    offset_s: int
    """How far the chain's clock was ahead."""


class DevState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    next_id: int = 1
    snapshots: dict[int, DevSnapshot] = {}
    reverting: int | None = None
    """The snapshot that becomes the chain at the next opening."""
    reverts: int = 0
    """How often the chain was reverted."""
    reverted_to: int = 0
    """The latest height right after the last revert."""
    offset_s: int = 0
    """How far the chain's clock is ahead of the machine's."""


class DevDirectory:
    """The directory of snapshots and of the clock's offset. Only the process that has the chain open may change it."""

    def __init__(self, directory: Path) -> None:
        """Read the state in `directory`. Raises `Corrupt` or `StoreUnavailable`."""
        self._directory = directory
        self.state = _load_state(directory)

    def set_offset(self, offset_s: int) -> None:
        """Write the clock's offset to disk, so that the chain's time does not stand still after a restart."""
        self._change(offset_s=offset_s)

    def take_snapshot(
        self,
        copy_chain: Callable[[Path], None],
        height: int,
        pending: Iterable[JournalEntry],
        drops: Iterable[tuple[TxHash, DropReason]] = (),
        up_s: int = 0,
    ) -> int:
        """Keep the chain, whose newest block is at `height`, and what is pending; returns the snapshot's number.

        `copy_chain` copies the chain as of now to a path that does not exist.
        `drops` are the reasons of what was dropped so far, `up_s` is the node's uptime, from which waiting times of
        queued transactions are counted.
        Raises `StoreUnavailable`; the snapshot then does not exist.
        """
        if not is_there(_state_path(self._directory)):
            # From now on there is something that nobody may remove for want of the list.
            _save_state(self._directory, self.state)
        number = self.state.next_id
        place = snapshot_path(self._directory, number)
        _remove_unlisted(self._directory, self.state)
        copy_chain(place)
        _keep_mempool(place, pending, drops, up_s)
        snapshots = self.state.snapshots | {number: DevSnapshot(height, self.state.offset_s)}
        newest = dict(list(snapshots.items())[-KEPT_SNAPSHOTS:])
        self._change(next_id=number + 1, snapshots=newest)
        return number

    def decide_revert(self, number: int) -> bool:
        """Decide that the next opening uses this snapshot. False if there is no such snapshot."""
        if number not in self.state.snapshots:
            return False
        self._change(reverting=number)
        return True

    def _change(self, **fields: object) -> None:
        state = msgspec.structs.replace(self.state, **fields)
        _save_state(self._directory, state)
        self.state = state


def _keep_mempool(
    place: Path,
    pending: Iterable[JournalEntry],
    drops: Iterable[tuple[TxHash, DropReason]],
    up_s: int,
) -> None:
    """Make the journal of a snapshot, and record in its watermark what the journal must contain."""
    watermark = Watermark.open(watermark_path(place))
    try:
        journal = Journal.open(journal_path(place), watermark, JOURNAL_SEGMENT_BYTES)
        try:
            journal.append_uptime(up_s)
            for entry in pending:
                journal.append_add(entry.received_at, entry.tx, encode_record(entry.tx), entry.queued_since)
            for drop in drops:
                journal.append_drop(*drop)
            journal.sync()
        finally:
            journal.close()
    finally:
        watermark.close()


def parts_to_open(directory: Path) -> Parts:
    """What the next opening opens: with a decided revert, the parts of its snapshot, wherever they are by now.

    Raises `Corrupt` when one of those is lost, or `StoreUnavailable`.
    """
    state = _load_state(directory)
    if state.reverting is None:
        return parts_in(directory)
    if state.reverting not in state.snapshots:
        raise Corrupt(f"{_state_path(directory)} is not what was written: it has no snapshot {state.reverting}")
    place = snapshot_path(directory, state.reverting)
    return Parts(*(_find_part(directory, *part) for part in zip(parts_in(place), parts_in(directory), strict=True)))


def _find_part(directory: Path, source: Path, target: Path) -> Path:
    if is_there(source):
        return source
    # Once it is moved, what it replaced is kept until the revert is complete.
    if not is_there(target) or not is_there(_old_path(directory) / target.name):
        raise Corrupt(f"{source} is missing, though the chain is to be reverted to it")
    return target


def finish_revert(directory: Path) -> int:
    """Complete a decided revert, if any. The chain must be locked and not open. Raises `StoreUnavailable`.

    Returns how often the chain has been reverted by now.
    """
    state = _load_state(directory)
    number = state.reverting
    if number is None:
        return state.reverts
    place = snapshot_path(directory, number)
    try:
        make_directory(_old_path(directory))
        for source, target in zip(parts_in(place), parts_in(directory), strict=True):
            _put_back(directory, source, target)
        snapshot = state.snapshots[number]
        kept = {earlier: kept for earlier, kept in state.snapshots.items() if earlier < number}
        reverts = state.reverts + 1
        state = DevState(state.next_id, kept, None, reverts, snapshot.height, snapshot.offset_s)
        _save_state(directory, state)
        _remove_unlisted(directory, state)
    except OSError as failure:
        raise StoreUnavailable(f"cannot revert to the snapshot in {place}: {failure}") from failure
    return reverts


def state_without_snapshots(directory: Path) -> bytes:
    """What `DIR/dev/state` would hold in a copy that leaves the snapshots behind; no revert may be under way."""
    return msgspec.json.encode(msgspec.structs.replace(_load_state(directory), snapshots={}))


def _put_back(directory: Path, source: Path, target: Path) -> None:
    """Move a part of a snapshot to its place in the chain's directory, unless that is done already."""
    if not is_there(source):
        return
    if is_there(target):
        old = _old_path(directory) / target.name
        _remove(old)
        # Moved away, not removed: a worker that still reads it must never find half of the files.
        target.rename(old)
        # That it is there tells a part that was moved from one that was lost.
        sync_directory(old.parent)
    source.rename(target)
    # The snapshot's directory last: after a power loss a part may be in both places, but never in none.
    sync_directory(target.parent)
    sync_directory(source.parent)


def _remove_unlisted(directory: Path, state: DevState) -> None:
    """Remove the replaced chain, and snapshots that were used or never finished."""
    listed = {"state", *map(str, state.snapshots)}
    with suppress(FileNotFoundError):
        for entry in list(os.scandir(dev_path(directory))):
            if entry.name not in listed:
                _remove(Path(entry.path))


def _remove(path: Path) -> None:
    """Remove as much as possible; the rest only takes disk space."""
    if is_directory(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _load_state(directory: Path) -> DevState:
    path = _state_path(directory)
    try:
        return msgspec.json.decode(path.read_bytes(), type=DevState)
    except FileNotFoundError:
        _check_no_snapshots(path)
        return DevState()
    except OSError as failure:
        raise StoreUnavailable(f"cannot read {path}: {failure}") from failure
    except msgspec.DecodeError as error:
        raise Corrupt(f"{path} is not what was written: {error}") from error


def _check_no_snapshots(path: Path) -> None:
    for name in names_in(path.parent):
        if name.isdigit():
            raise Corrupt(f"{path} is missing, though {path.with_name(name)} was made after it")


def _save_state(directory: Path, state: DevState) -> None:
    path = _state_path(directory)
    try:
        make_directory(path.parent)
        write_file(path, msgspec.json.encode(state))
    except OSError as failure:
        raise StoreUnavailable(f"cannot write {path}: {failure}") from failure


def _state_path(directory: Path) -> Path:
    return dev_path(directory) / "state"


def _old_path(directory: Path) -> Path:
    return dev_path(directory) / "old"


def snapshot_path(directory: Path, number: int) -> Path:
    return dev_path(directory) / str(number)
