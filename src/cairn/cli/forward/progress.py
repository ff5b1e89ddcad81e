"""How far the webhooks have come: the files in the state directory, which one process at a time may use.

DIR/cursor.json      what was delivered; written atomically and synced
DIR/status.json      for people and monitors; nothing depends on it
DIR/dead-letters.ndjson  what was given up, a webhook in each line
DIR/secret           the signing secret, unless another is given
DIR/cairn.lock       held by the process
"""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import httpx
import msgspec

from cairn.cli.forward.status import Status
from cairn.cli.report import Unreachable
from cairn.cli.user_directories import user_state
from cairn.client.models import Block
from cairn.domain.errors import DirectoryInUse, InvalidConfig
from cairn.store.directory import DirectoryLock, sync_directory, sync_file, write_at, write_file

Events = Literal["newBlock", "payment"]
NO_BLOCK = -1
"""The height of a cursor before the first block."""


class Cursor(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Everything before this block is delivered."""

    events: Events
    """What is delivered. For the other kind, the cursor says nothing."""
    chain_id: int
    block_height: int
    hash: str
    """It covers all blocks before, so another chain cannot be mistaken for this one."""
    timestamp: int
    transaction_index: int | None = None
    """Of the block itself, everything up to this transaction is delivered; None for all of it."""

    @property
    def next_height(self) -> int:
        """The first block of which anything is not delivered."""
        return self.block_height + 1 if self.transaction_index is None else self.block_height

    def covers(self, height: int, index: int) -> bool:
        """Whether the transaction at this place in the chain is delivered."""
        if self.transaction_index is None:
            return height <= self.block_height
        return (height, index) <= (self.block_height, self.transaction_index)


def cursor_at(block: Block, events: Events, transaction_index: int | None = None) -> Cursor:
    return Cursor(events, block.chain_id, block.block_height, block.hash, block.timestamp, transaction_index)


class DeadLetter(msgspec.Struct, frozen=True, rename="camel"):
    """A webhook that was given up."""

    webhook_id: str
    body: str
    attempts: int
    last_error: str
    given_up_at: int


def default_directory(url: httpx.URL) -> Path:
    """One for each receiver, in the user's state."""
    # The path may hold a token, so only its digest is shown.
    digest = hashlib.sha256(str(url).encode()).hexdigest()[:8]
    host = re.sub("[^a-z0-9.-]", "-", url.netloc.decode())
    return user_state() / "forward" / f"{host}-{digest}"


class Progress:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.cursor_file = directory / "cursor.json"
        self.secret_file = directory / "secret"
        self.status_file = directory / "status.json"
        self.dead_letters_file = directory / "dead-letters.ndjson"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory meanwhile. Raises `InvalidConfig` if another process has it."""
        try:
            lock = DirectoryLock.acquire(self.directory)
        except DirectoryInUse:
            raise InvalidConfig(
                f"another `cairn forward` uses {self.directory}: --status shows what it does; --state names another"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def load_cursor(self, events: Events) -> Cursor | None:
        """None if nothing was forwarded yet. Raises `InvalidConfig` for a damaged file, and for one of other events."""
        try:
            cursor = msgspec.json.decode(self.cursor_file.read_bytes(), type=Cursor)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InvalidConfig(f"cannot read {self.cursor_file}: {error.strerror}") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidConfig(f"{self.cursor_file} is damaged: {error}; bring it back, or remove it") from None
        if cursor.events != events:
            raise InvalidConfig(
                f"{self.directory} was used for {cursor.events} events, and now {events} events are to be sent: name "
                f"another --state for them, or remove {self.cursor_file} to start over"
            )
        return cursor

    def save_cursor(self, cursor: Cursor) -> None:
        """On disk when it returns. Raises `Unreachable`."""
        with _writing(self.cursor_file):
            write_file(self.cursor_file, msgspec.json.encode(cursor))

    def add_dead_letter(self, letter: DeadLetter) -> None:
        """On disk when it returns. Raises `Unreachable`."""
        with _writing(self.dead_letters_file):
            file = os.open(self.dead_letters_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                size = os.fstat(file).st_size
                # A crash may have left a part of a line.
                start = b"\n" if size and os.pread(file, 1, size - 1) != b"\n" else b""
                write_at(file, start + msgspec.json.encode(letter) + b"\n", size)
                sync_file(file)
            finally:
                os.close(file)
            sync_directory(self.directory)

    def count_dead_letters(self) -> int:
        """How many were given up, in all runs. Raises `InvalidConfig`."""
        try:
            with self.dead_letters_file.open("rb") as file:
                return sum(1 for _ in file)
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise InvalidConfig(f"cannot read {self.dead_letters_file}: {error.strerror}") from None

    def write_status(self, status: Status) -> None:
        """Not synced: after a crash it says nothing anyway. Raises `Unreachable`."""
        with _writing(self.status_file):
            write_file(self.status_file, msgspec.json.encode(status), is_synced=False)

    def read_status(self) -> Status | None:
        """None if there is none yet. Raises `InvalidConfig`."""
        try:
            return msgspec.json.decode(self.status_file.read_bytes(), type=Status)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InvalidConfig(f"cannot read {self.status_file}: {error.strerror}") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidConfig(f"{self.status_file} is damaged: {error}") from None


def other_chain(why: str, progress: Progress) -> InvalidConfig:
    """The error for a chain that is not the one of the cursor."""
    return InvalidConfig(
        f"the node has another chain now: {why}. A dev chain that was started over or reverted? "
        f"Remove {progress.cursor_file} to start over with this one"
    )


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """A disk that is full today is not tomorrow: whoever supervises the process starts it again."""
    try:
        yield
    except OSError as error:
        raise Unreachable(f"cannot write {path}: {error.strerror}") from None
