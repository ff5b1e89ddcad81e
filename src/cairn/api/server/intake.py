"""What a client has sent on a connection and what is not parsed yet, whatever the connection is in the middle of.

It is parsed in small pieces, each in a turn of the client. So whoever sends much, or what is expensive to parse, waits
for itself, and no step takes longer because of what came before.
"""

from collections.abc import Callable

from cairn.time_shares import QueueName, TimeShares

PIECE_BYTES = 2 * 1024
"""Parsed at once: less than a millisecond of the most expensive bytes, and most requests in one piece."""
MAX_UNPARSED_BYTES = 16 * 1024
"""With more, or while it waits for a turn, nothing is read from the client: to read takes time, too."""


class Intake:
    """One per connection. A turn begins with `begin`, and ends with `end`; in between, `take` gives the pieces."""

    __slots__ = ("_account", "_began", "_first", "_go_on", "_piece_bytes", "_rest", "_shares", "size_bytes", "waits")

    def __init__(self, shares: TimeShares, go_on: Callable[[], None], piece_bytes: int = PIECE_BYTES) -> None:
        """`go_on` is called in a turn of the client, if it had to wait for one."""
        self._shares = shares
        self._go_on = go_on
        self._piece_bytes = piece_bytes
        self._first = b""
        """What came first. Mostly it is all, and is taken as it is."""
        # Appending to it and taking from its front cost nothing that grows with its length.
        self._rest = bytearray()
        self.size_bytes = 0
        self.waits = False
        """For a turn of the client."""
        self._account = ""
        self._began = 0.0

    def put(self, data: bytes) -> None:
        if self.size_bytes:
            self._rest += data
        else:
            self._first = data
        self.size_bytes += len(data)

    def put_back(self, data: bytes) -> None:
        """In front of everything else."""
        self._rest[:0] = data + self._first
        self._first = b""
        self.size_bytes += len(data)

    def starts_with(self, beginnings: tuple[bytes, ...]) -> bool:
        return (self._first or self._rest).startswith(beginnings)

    def clear(self) -> None:
        self._first = b""
        self._rest.clear()
        self.size_bytes = 0

    # Turns.

    def begin(self, account: str) -> bool:
        """Begin a turn, charged to the account; False if it has to wait for its turn."""
        began = self._shares.begin_turn(account, "intake")
        if began is None:
            self.wait(account, "intake")
            return False
        self._account, self._began = account, began
        return True

    def take(self) -> bytes:
        """The next piece."""
        first, rest, piece_bytes = self._first, self._rest, self._piece_bytes
        self._first = b""
        if 0 < len(first) <= piece_bytes:
            self.size_bytes -= len(first)
            return first
        if first:
            rest[:0] = first
        piece = bytes(rest[:piece_bytes])
        del rest[:piece_bytes]
        self.size_bytes -= len(piece)
        return piece

    def take_all(self) -> bytes:
        everything = self._first + self._rest
        self.clear()
        return everything

    def close(self) -> None:
        """Keep nothing, nor the connection, which holds on to this."""
        self.clear()
        self._go_on = _do_nothing

    def end(self) -> None:
        self._shares.end_turn(self._account, "intake", self._began)

    def wait(self, account: str, queue: QueueName) -> None:
        """Go on when it is the account's turn."""
        self.waits = True
        self._shares.call(account, self._have_turn, queue)

    def _have_turn(self) -> None:
        self.waits = False
        self._go_on()


def _do_nothing() -> None:
    pass
