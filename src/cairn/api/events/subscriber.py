"""One client of the event hub: its socket, its next height, and the transactions that it follows."""

from collections.abc import Callable
from typing import Protocol

from cairn.domain.types import TxHash


class Connection(Protocol):
    """One client's socket. Writing never blocks; a write to a closed one does nothing."""

    @property
    def paused(self) -> bool:
        """Its buffer is full, or it is closing: write nothing more until it resumes."""

    def on_resume(self, listener: Callable[[], None]) -> None: ...

    def write(self, data: bytes) -> None: ...

    def close(self, code: int, reason: str) -> None: ...


class Subscriber:
    """One socket's next height, and the transactions that it follows."""

    __slots__ = ("block_frame", "client", "connection", "due", "followed", "is_queued", "next_height", "replies")

    def __init__(self, connection: Connection, client: str, block_frame: Callable[[int], bytes] | None = None) -> None:
        self.connection = connection
        self.client = client
        self.block_frame = block_frame
        """Makes the frame for a block on this socket, if it is not `newBlock`."""
        self.next_height: int | None = None
        """The next height whose newBlock is due; None without a subscription to blocks."""
        self.followed: set[TxHash] = set()
        """Followed transactions whose event is not written yet; this limits `due`, too."""
        self.due: list[tuple[int, int, TxHash, bytes]] = []
        """A heap of (height, position, hash, frame): events of followed transactions that are due."""
        self.replies: list[bytes] = []
        self.is_queued = False

    def flush_replies(self) -> None:
        replies, self.replies = self.replies, []
        self.connection.write(b"".join(replies))
