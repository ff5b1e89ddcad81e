"""One client of the event hub: its socket, its place in the chain, and the transactions that it follows."""

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
    """One socket's place in the chain, and the transactions it waits for."""

    __slots__ = ("block_frame", "client", "connection", "due", "followed", "is_queued", "next_height", "replies")

    def __init__(self, connection: Connection, client: str, block_frame: Callable[[int], bytes] | None = None) -> None:
        self.connection = connection
        self.client = client
        self.block_frame = block_frame
        """How a block is told on this socket, for one that speaks another language than the events' own."""
        self.next_height: int | None = None
        """The next height whose newBlock is due; None when it has not subscribed to blocks."""
        self.followed: set[TxHash] = set()
        """Followed transactions whose end has not been written to the socket: this bounds `due` as well."""
        self.due: list[tuple[int, int, TxHash, bytes]] = []
        """A heap of (height, position, hash, frame): ends of followed transactions that wait for their turn."""
        self.replies: list[bytes] = []
        self.is_queued = False

    def flush_replies(self) -> None:
        replies, self.replies = self.replies, []
        self.connection.write(b"".join(replies))
