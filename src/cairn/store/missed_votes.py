"""Who did not vote on the latest blocks of a network."""

from collections import Counter, deque
from collections.abc import Sequence

from cairn.domain.errors import Corrupt
from cairn.domain.governance import VOTED_BLOCKS
from cairn.store import keys
from cairn.store.rocks import Database, WriteBatch


class MissedVotes:
    """Which validators were absent from the latest blocks. Not part of the state: it changes with every block.

    A block holds the signatures of the block before it. So each record is of the block below its height. Records exist
    from where this node began to apply blocks: after a snapshot was restored, there are none at first.
    """

    def __init__(self) -> None:
        self._latest: deque[tuple[bytes, ...]] = deque(maxlen=VOTED_BLOCKS)
        """The absent of each block, the newest block last."""

    @classmethod
    def load(cls, database: Database, head: int) -> "MissedVotes":
        """As it was left. Raises `Corrupt`."""
        loaded = cls()
        for height in range(head, max(0, head - VOTED_BLOCKS), -1):
            record = database.get(keys.META, keys.absent_key(height))
            if record is None:
                break
            if len(record) % keys.ADDRESS_SIZE:
                raise Corrupt(f"the absent validators of block {height} have {len(record)} bytes")
            loaded._latest.appendleft(
                tuple(record[at : at + keys.ADDRESS_SIZE] for at in range(0, len(record), keys.ADDRESS_SIZE))
            )
        return loaded

    def put(self, batch: WriteBatch, height: int, absent: Sequence[bytes]) -> None:
        """Add the record of a block to its batch, and remove the oldest; `add` follows once the batch is written."""
        batch.put(keys.META, keys.absent_key(height), b"".join(absent))
        if height > VOTED_BLOCKS:
            batch.delete(keys.META, keys.absent_key(height - VOTED_BLOCKS))

    def add(self, absent: Sequence[bytes]) -> None:
        self._latest.append(tuple(absent))

    @property
    def blocks(self) -> int:
        """How many blocks are counted."""
        return len(self._latest)

    @property
    def latest(self) -> int:
        """How many validators were absent from the latest block that was voted on."""
        return len(self._latest[-1]) if self._latest else 0

    def by_validator(self) -> Counter[bytes]:
        """By address in CometBFT: in how many of them a validator was absent."""
        return Counter(address for absent in self._latest for address in absent)
