"""Removes old blocks, in small batches, while the chain goes on.

First the base is raised, and workers are told: from then on nobody reads what is below it. Then the blocks are
removed one after the other, from the oldest. With a block go the versions of accounts that it replaced, not those that
it made: these are the accounts' state until a later block replaces them. A version goes only if a newer one is found at
or below the block: naming an account is no proof that a block replaced it (one without fees leaves its proposer alone).
So each account keeps exactly one version from the blocks that are gone, and a block costs as much to remove as it has
transactions, whatever the size of the chain and of the state.

The batches are not synced. A crash may undo the last of them; `cleared` in `meta`, in the same batch as the last trace
of a block, says where to go on, and a removal that is done twice is the same.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from cairn.domain.errors import StoreUnavailable
from cairn.domain.merkle import EMPTY_ROOT
from cairn.domain.transactions import decode_record
from cairn.domain.types import Address, BlockHash, BlockHeader
from cairn.store import keys
from cairn.store.directory import check_room
from cairn.store.keys import FAMILIES
from cairn.store.reader import ChainReader
from cairn.store.rocks import Database, Entries, WriteBatch
from cairn.store.snapshot import Pause

SLICE_TXS = 128
"""Transactions that are removed between two pauses: less than a millisecond of work."""
SLICE_ACCOUNTS = 128
"""Accounts whose replaced versions are removed between two pauses: likewise."""
SWEEP_KEYS = 4_096
"""Entries that `keep_only` looks at between two pauses, and that it removes at once."""
LEAST_REMOVALS = 4_096
"""The least removals, in all families together, that are worth the writing of new files: about 2 MB of transactions."""
MARKED_SHARE = 4
"""A family is merged when one of so many entries is the mark of a removal: as many again are the removed ones."""


class Compaction:
    """Gives the disk space of removed entries back.

    RocksDB only marks a removed entry. It leaves it out when it merges the files that hold the entry and the mark, and
    on a chain that is pruned to a few blocks it may not do that for long: new files are small beside the old ones. So
    the files of a family are merged as soon as half of its entries are removed ones and their marks. Then the removal
    of an entry costs the writing of two that are kept at most.

    The counts are those of RocksDB's files, so nothing has to be remembered across a restart.
    """

    def __init__(self, directory: Path, database: Database) -> None:
        self._directory = directory
        self._database = database
        self._in_vain: dict[str, int] = {}
        """Families that a merge did not help, with the marks that they had."""
        self.merges = 0
        """How often the files of a family were replaced."""

    def give_back(self, pause: Pause) -> None:
        """Merge the files of families that hold mostly what was removed.

        Takes as long as writing what these families keep. Raises `StoreUnavailable` or `Corrupt`.
        """
        counts = {family: self._database.count_entries(family) for family in FAMILIES}
        if sum(count.removals for count in counts.values()) < LEAST_REMOVALS:
            return
        stale = [name for name, count in counts.items() if self._is_stale(name, count)]
        for family in stale:
            pause()
            self._merge(family, counts[family])

    def _is_stale(self, family: str, count: Entries) -> bool:
        is_marked = count.removals > 0 and count.total <= MARKED_SHARE * count.removals
        # RocksDB does not tell whether a merge has failed: without this, one that does would be tried without end.
        return is_marked and count.removals >= 2 * self._in_vain.get(family, 0) and self._has_room(count)

    def _has_room(self, count: Entries) -> bool:
        """Whether what is kept can be written before the old files are deleted."""
        kept = max(0, count.total - 2 * count.removals)
        try:
            check_room(self._directory, count.size_bytes * kept // count.total)
        except StoreUnavailable:
            # The more is removed, the less room is needed.
            return False
        return True

    def _merge(self, family: str, before: Entries) -> None:
        self._database.compact(family)
        self.merges += 1
        after = self._database.count_entries(family)
        if after.removals < before.removals:
            self._in_vain.pop(family, None)
        else:
            self._in_vain[family] = after.removals


def remove_blocks(database: Database, base: int, pause: Pause) -> Iterator[int]:
    """Remove all blocks below `base`, which followers know of, one for each step. Raises `StoreUnavailable`."""
    stored = database.get(keys.META, keys.CLEARED_KEY)
    for height in range(0 if stored is None else keys.decode_height(stored), base):
        pause()
        _remove_block(database, height, pause)
        yield height


def keep_only(database: Database, height: int, pause: Pause) -> None:
    """Remove everything but one block and the state after it, and the mark of the restore."""
    _sweep(database, keys.ACCOUNTS, lambda key: keys.decode_version_key(key)[1] != height, pause)
    _sweep(database, keys.REFERENCES, lambda key: keys.height_of_reference(key) != height, pause)
    batch = WriteBatch(database)
    for key, stored in database.scan(keys.HEADERS):
        other = keys.decode_height(key)
        if other != height:
            hashes = ChainReader(database, other).tx_hashes(other)
            _remove_index(batch, hashes)
            _remove_bodies(batch, *keys.decode_stored_header(stored), hashes)
    batch.delete(keys.META, keys.RESTORE_KEY)
    database.write(batch)


def _sweep(database: Database, family: str, is_old: Callable[[bytes], bool], pause: Pause) -> None:
    """Look at each entry of a family, and remove the old ones. Not synced: it can be repeated."""
    batch = WriteBatch(database)
    for number, (key, _) in enumerate(database.scan(family)):
        if number % SWEEP_KEYS == 0:
            pause()
        if is_old(key):
            batch.delete(family, key)
            if len(batch) >= SWEEP_KEYS:
                database.write(batch, sync=False)
                batch = WriteBatch(database)
    database.write(batch, sync=False)


def _remove_block(database: Database, height: int, pause: Pause) -> None:
    reader = ChainReader(database, height)
    found = reader.find_header(height)
    batch = WriteBatch(database)
    if found is not None:
        hashes = reader.tx_hashes(height)
        named = sorted(reader.named_in(height))
        for start in range(0, len(named), SLICE_ACCOUNTS):
            _remove_replaced(database, batch, named[start : start + SLICE_ACCOUNTS], height)
            batch = _go_on(database, batch, pause)
        txs = [decode_record(record) for record in reader.records(height)]
        for start in range(0, len(txs), SLICE_TXS):
            part = txs[start : start + SLICE_TXS]
            _remove_index(batch, hashes[start * keys.HASH_SIZE : (start + SLICE_TXS) * keys.HASH_SIZE])
            for reference in keys.reference_keys(height, enumerate(part, start)):
                batch.delete(keys.REFERENCES, reference)
            batch = _go_on(database, batch, pause)
        # In the last batch: until then the block can be read, and its removal can be continued.
        if database.get(keys.META, keys.balances_key(height)) is not None:
            batch.delete(keys.META, keys.balances_key(height))
        _remove_bodies(batch, *found, hashes)
        if keys.holds_data(found[1]):
            batch.delete(keys.REFERENCES, keys.encode_height(height))
    batch.put(keys.META, keys.CLEARED_KEY, keys.encode_height(height + 1))
    database.write(batch, sync=False)


def _go_on(database: Database, batch: WriteBatch, pause: Pause) -> WriteBatch:
    """Write what is removed so far, and rest before the next batch."""
    database.write(batch, sync=False)
    pause()
    return WriteBatch(database)


def _remove_replaced(database: Database, batch: WriteBatch, addresses: Iterable[Address], height: int) -> None:
    """Remove the version of these accounts before the newest one up to `height`; older ones are gone already."""
    cursor = database.cursor(keys.ACCOUNTS)
    for address in addresses:
        newest = cursor.seek(keys.version_key(address, height))
        if newest is None or not newest[0].startswith(address):
            continue
        older = cursor.next()
        if older is not None and older[0].startswith(address):
            batch.delete(keys.ACCOUNTS, older[0])


def _remove_index(batch: WriteBatch, hashes: bytes) -> None:
    for tx_hash in keys.split_hashes(hashes):
        batch.delete(keys.TX_INDEX, tx_hash)


def _remove_bodies(batch: WriteBatch, block_hash: BlockHash, header: BlockHeader, hashes: bytes) -> None:
    height = header.height
    key = keys.encode_height(height)
    for chunk in range(keys.chunk_count(len(hashes) // keys.HASH_SIZE)):
        batch.delete(keys.TXS, keys.encode_location(height, chunk))
    batch.delete(keys.TX_HASHES, key)
    if header.changes_root != EMPTY_ROOT:
        batch.delete(keys.CHANGES, key)
    batch.delete(keys.BLOCK_INDEX, block_hash)
    batch.delete(keys.SIGNATURES, key)
    batch.delete(keys.HEADERS, key)
