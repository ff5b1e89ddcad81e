"""The chain's store for the processes that only read it: a RocksDB secondary that shows whole blocks only.

A secondary takes in the primary's MANIFEST (which files hold what) and then its logs, while the primary may be writing
a log out, merging files and deleting what that made obsolete. Between the two steps a log can vanish whose content the
MANIFEST did not name yet; then blocks are missing in the middle, until the next time. So a catch-up counts only when
the MANIFEST was the same before and after it: the primary deletes a file only after the MANIFEST has said so.
A new MANIFEST (the primary was reopened) is not followed at all: the secondary is reopened too, because RocksDB
can get stuck there (facebook/rocksdb#7815, #14439), and because what the old one had read of a log may not have lasted.
"""

import os
import time
from pathlib import Path
from typing import Self

from cairn.domain.errors import NodeError, StoreUnavailable
from cairn.store.directory import chain_path, check_format, watermark_path
from cairn.store.reader import ChainReader
from cairn.store.rocks import Database
from cairn.store.watermark import Watermark

ATTEMPTS = 40
PAUSE_S = 0.003
"""Pause between two attempts, longer than a primary takes to install files."""
REOPEN_AFTER = 10
"""After so many failed attempts the secondary is opened again."""
CHECKED_BLOCKS = 64
"""How many blocks are checked, at most, before they are shown."""

ManifestStamp = tuple[str, int]
"""Name and size of the MANIFEST, which is only ever appended to."""


class FollowerStore(ChainReader):
    """A view of the chain that changes only in `catch_up`."""

    def __init__(self, directory: Path, scratch: Path, watermark: Watermark) -> None:
        self._path = chain_path(directory)
        self._scratch = scratch
        self.watermark = watermark
        """The newest height on disk; `catch_up` makes it visible."""
        self._manifest = self._manifest_stamp()[0]
        self._taken_in: ManifestStamp | None = None
        """The MANIFEST as of the last catch-up."""
        super().__init__(self._open_secondary(), visible=-1)

    @classmethod
    def open(cls, directory: Path, scratch_dir: Path) -> Self:
        """Follow the store that a node has open in `directory`; `scratch_dir` is this follower's own.

        Raises `WrongFormat`, `Corrupt` or `StoreUnavailable`.
        """
        check_format(directory)
        watermark = Watermark.follow(watermark_path(directory))
        try:
            follower = cls._open_patiently(directory, scratch_dir, watermark)
        except BaseException:
            watermark.close()
            raise
        try:
            follower.catch_up()
        except BaseException:
            follower.close()
            raise
        return follower

    @classmethod
    def _open_patiently(cls, directory: Path, scratch: Path, watermark: Watermark) -> Self:
        for _ in range(ATTEMPTS - 1):
            try:
                return cls(directory, scratch, watermark)
            except NodeError:
                # As in `catch_up`: a file that it was about to open may have been replaced.
                time.sleep(PAUSE_S)
        return cls(directory, scratch, watermark)

    def catch_up(self) -> int:
        """Show every block that is on disk by now; returns the newest height. Raises `StoreUnavailable`, `Corrupt`.

        Files that the primary has deleted are released, too: until then they take up space on the disk.
        """
        failure: NodeError | None = None
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(PAUSE_S)
            # Read each time: the block that was the latest a moment ago may be pruned by now.
            target = self.watermark.height()
            failure = None
            try:
                if target == self.visible and self._taken_in == self._manifest_stamp():
                    return target
                if attempt and attempt % REOPEN_AFTER == 0:
                    self._reopen()
                if self._take_in() and self._shows(target):
                    return target
            except NodeError as error:
                # A file is gone: the primary has moved on; or it is damage, and then the next attempt fails, too.
                failure = error
        # An attempt may have taken in that blocks were removed, and their heights were told before. All others are
        # shown as before.
        self.base = max(self.base, min(self.watermark.oldest(), self.visible))
        raise failure or StoreUnavailable(f"block {target} is on disk, but the store at {self._path} does not show it")

    def close(self) -> None:
        self._database.close()
        self.watermark.close()

    def _take_in(self) -> bool:
        """Whether everything that the primary had written was read, with nothing missing in between."""
        before = self._manifest_stamp()
        if before[0] != self._manifest:
            self._reopen()
        self._database.catch_up()
        if self._manifest_stamp() != before:
            return False
        self._taken_in = before
        return True

    def _shows(self, target: int) -> bool:
        """Show the blocks up to `target`, if they are all there."""
        # Read after the blocks were taken in: nothing is removed before its height was told, so whatever is missing
        # from them by now is below this.
        base = self.watermark.oldest()
        if self.visible >= 0 and base > max(self.visible, self.base):
            # All that was shown is gone: a snapshot was restored. An attempt before it may have left other versions of
            # the same accounts, removed since; a secondary that saw those may not see what took their place.
            self._reopen()
            self.base = base
            return False
        first = max(self.visible + 1, base, target - CHECKED_BLOCKS + 1)
        if target < base or not all(self.is_whole(height) for height in range(first, target + 1)):
            return False
        self.visible, self.base = target, base
        return True

    def _reopen(self) -> None:
        manifest = self._manifest_stamp()[0]
        opened = self._open_secondary()
        # Only now: if the opening fails, the old view stays.
        self._database.close()
        self._database, self._manifest = opened, manifest

    def _open_secondary(self) -> Database:
        return Database.open_secondary(self._path, self._scratch)

    def _manifest_stamp(self) -> ManifestStamp:
        try:
            name = (self._path / "CURRENT").read_text("ascii", "replace").strip()
            return name, os.stat(self._path / name).st_size
        except (OSError, ValueError) as failure:
            # A CURRENT of zeros is no name that the system takes.
            raise StoreUnavailable(f"cannot read the store's MANIFEST at {self._path}: {failure}") from failure
