"""The leaves of the state tree in a file, so that a start need not read every account: chain/state-tree.

    magic 16 | format 4 | height 8 | block hash 32 | number of leaves 8 | leaf hashes, 32 each | SHA-256 of all of it 32

It is a *fuzzy checkpoint*. It is copied from memory in slices while blocks are committed, so a leaf may already be of a
block above `height`, the head when the copying began. That does no harm: its reader computes every leaf again that
a block after `height` may have changed (`state_recovery.py`). The inner nodes are not in it. They are hashed at the
start, which takes less than a microsecond each, and so the head's state root covers every byte that is believed.

It lies within RocksDB's directory, which leaves files alone that it does not know: a revert of a dev chain moves it
with the chain that it belongs to, and a snapshot, which is a checkpoint of RocksDB, has none.
"""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from struct import Struct

import msgspec

from cairn.domain.errors import Corrupt, StoreUnavailable
from cairn.domain.types import BlockHash
from cairn.store.directory import check_room, sync_directory, sync_file, write_at

SLICE_BYTES = 1 << 20
"""What is copied while no other thread can run: some tenths of a millisecond."""
LEAF_BYTES = 32
WRITTEN_SHARE = 8
LEAST_CHANGES = 100_000
"""A small state is read from its accounts in a second, so it is written at stops only, or seldom."""

_MAGIC = b"cairn state tree"
_FORMAT = 1
_HEAD = Struct(">16sIQ32sQ")
_DIGEST_BYTES = 32


class TreeMark(msgspec.Struct, frozen=True):
    """The state tree as of a block."""

    height: int
    hash: BlockHash
    size: int
    """How many leaves it had."""


def tree_path(chain: Path) -> Path:
    """The file in the directory of RocksDB."""
    return chain / "state-tree"


def write_tree(path: Path, mark: TreeMark, leaves: bytearray, pause: Callable[[], None] = lambda: None) -> None:
    """Write the first `mark.size` leaves. Others may change `leaves` meanwhile, and add to them.

    The file is complete or the former one, whatever happens. `pause` is called after each slice; it may raise to end
    the work. Raises `OSError`.
    """
    draft = path.with_name(path.name + ".new")
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        try:
            _write_parts(file, mark, leaves, pause)
            sync_file(file)
        finally:
            os.close(file)
        draft.rename(path)
    except BaseException:
        # On a full disk its space is needed for what counts.
        with suppress(OSError):
            draft.unlink()
        raise
    sync_directory(path.parent)


def _write_parts(file: int, mark: TreeMark, leaves: bytearray, pause: Callable[[], None]) -> None:
    part = _HEAD.pack(_MAGIC, _FORMAT, mark.height, mark.hash, mark.size)
    digest, at = hashlib.sha256(part), 0
    write_at(file, part, at)
    end = mark.size * LEAF_BYTES
    for start in range(0, end, SLICE_BYTES):
        pause()
        at += len(part)
        # A copy: a view would keep a block that is committed meanwhile from adding a leaf.
        part = bytes(leaves[start : min(start + SLICE_BYTES, end)])
        digest.update(part)
        write_at(file, part, at)
    write_at(file, digest.digest(), at + len(part))


def read_tree(path: Path) -> tuple[TreeMark, bytearray] | None:
    """The mark and the leaves; None if there is no such file. Raises `Corrupt` or `OSError`."""
    try:
        content = bytearray(path.read_bytes())
    except FileNotFoundError:
        return None
    mark = _decode_head(content)
    digest = hashlib.sha256(memoryview(content)[:-_DIGEST_BYTES]).digest()
    if mark is None or digest != content[-_DIGEST_BYTES:]:
        raise Corrupt(f"{path} is not what was written; remove it, and the node rebuilds it from the accounts")
    del content[-_DIGEST_BYTES:]
    del content[: _HEAD.size]
    return mark, content


def _decode_head(content: bytearray) -> TreeMark | None:
    if len(content) < _HEAD.size + _DIGEST_BYTES:
        return None
    magic, version, height, block_hash, size = _HEAD.unpack_from(content)
    if (magic, version) != (_MAGIC, _FORMAT) or len(content) != _HEAD.size + size * LEAF_BYTES + _DIGEST_BYTES:
        return None
    return TreeMark(height, BlockHash(block_hash), size)


class TreeFile:
    """Writes the file when it has become too old, and at a stop.

    The older it is, the more leaves the next start computes again, after a kill. A leaf costs about four times as much
    then as when all accounts are read one after the other. So it is rewritten once an eighth of the leaves has
    changed, each counted as often as it did; and only then, so that a change costs the writing of eight leaves at most.
    """

    def __init__(self, path: Path, mark: TreeMark, saved: TreeMark | None, age: int) -> None:
        """`saved` is the mark of the file on disk, `age` counts the changes of leaves that it lacks, and the blocks."""
        self._path = path
        self.mark = mark
        """As of the head. Replaced as a whole, so that another thread reads what belongs together."""
        self._saved = saved
        self._changes = age
        self._saved_changes = 0

    def note(self, mark: TreeMark, leaves: int) -> None:
        """A block is on disk that changed so many leaves, and the tree has them."""
        self.mark = mark
        self._changes += leaves + 1

    @property
    def is_due(self) -> bool:
        return self._changes - self._saved_changes > max(LEAST_CHANGES, self.mark.size // WRITTEN_SHARE)

    @property
    def is_current(self) -> bool:
        """Whether the file on disk is of the head."""
        return self._saved == self.mark

    def save(self, leaves: bytearray, pause: Callable[[], None] = lambda: None) -> None:
        """Rewrite it. May run in a thread while blocks are committed. Raises `StoreUnavailable`."""
        # First, and also if it fails: then it is tried again when as much has changed again.
        # The mark last: a block that is committed in between is counted twice rather than not at all.
        self._saved_changes, mark = self._changes, self.mark
        try:
            check_room(self._path.parent, mark.size * LEAF_BYTES)
            write_tree(self._path, mark, leaves, pause)
        except OSError as failure:
            raise StoreUnavailable(f"cannot write {self._path}: {failure}") from failure
        self._saved = mark
