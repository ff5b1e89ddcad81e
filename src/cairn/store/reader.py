"""Reads the chain, in the core and in the workers alike."""

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from cairn.domain.certificates import Step
from cairn.domain.errors import Corrupt
from cairn.domain.governance import Governance, decode_governance
from cairn.domain.merkle import EMPTY_ROOT
from cairn.domain.transactions import TX_RECORD_SIZE, decode_record
from cairn.domain.types import EMPTY_ACCOUNT, Account, Address, BlockHash, BlockHeader, TxHash
from cairn.store import keys
from cairn.store.keys import CHUNK_RECORDS, BlockMark, Location, Version
from cairn.store.rocks import Database


class ChainReader:
    """The blocks from `base` to `visible`, and the accounts after the newest of them."""

    def __init__(self, database: Database, visible: int, base: int = 0) -> None:
        self._database = database
        self.visible = visible
        """The newest height that this reader shows."""
        self.base = base
        """The oldest height: blocks below it were pruned, or were never here."""

    def find_header(self, height: int) -> tuple[BlockHash, BlockHeader] | None:
        if not self.base <= height <= self.visible:
            return None
        value = self._database.get(keys.HEADERS, keys.encode_height(height))
        return None if value is None else keys.decode_stored_header(value)

    def find_block_hash(self, height: int) -> BlockHash | None:
        """The hash alone: to decode the header would take longer than to read it."""
        if not self.base <= height <= self.visible:
            return None
        value = self._database.get(keys.HEADERS, keys.encode_height(height))
        return None if value is None else keys.decode_stored_hash(value)

    def find_mark(self, height: int) -> BlockMark | None:
        """As `find_block_hash`, with a little more of the header."""
        if not self.base <= height <= self.visible:
            return None
        value = self._database.get(keys.HEADERS, keys.encode_height(height))
        return None if value is None else keys.decode_stored_mark(value)

    def find_height(self, block_hash: BlockHash) -> int | None:
        value = self._database.get(keys.BLOCK_INDEX, block_hash)
        if value is None:
            return None
        height = keys.decode_height(value)
        return height if self.base <= height <= self.visible else None

    def has_governance(self, height: int) -> bool:
        """Whether the block changed the governance."""
        return self._database.get(keys.META, keys.governance_key(height)) is not None

    def governance_from(self, height: int) -> Iterator[tuple[int, Governance]]:
        """The governance after each block from `height` on that changed it, ascending. Raises `Corrupt`."""
        cursor = self._database.cursor(keys.META)
        entry = cursor.seek(keys.governance_key(height))
        while entry is not None and (at := keys.find_governance_height(entry[0])) is not None:
            yield at, decode_governance(entry[1])
            entry = cursor.next()

    def tx_hashes(self, height: int) -> bytes:
        """The hashes of a block's transactions, one after the other. Raises `Corrupt` when the block is not there."""
        shown = self.base <= height <= self.visible
        value = self._database.get(keys.TX_HASHES, keys.encode_height(height)) if shown else None
        if value is None:
            raise Corrupt(f"block {height} has no transaction hashes in the store")
        return value

    def change_leaves(self, height: int) -> bytes:
        """The leaf hashes of the accounts that a block touches, one after the other, in the order of addresses."""
        shown = self.base <= height <= self.visible
        return self._database.get(keys.CHANGES, keys.encode_height(height)) or b"" if shown else b""

    def find_history_node(self, level: int, index: int) -> bytes | None:
        """A node of the tree over all block hashes; None if it is of blocks before those that ever were here."""
        return self._database.get(keys.HISTORY, keys.encode_history_key(level, index))

    def read_history_node(self, level: int, index: int) -> bytes:
        """A node that must be there. Raises `Corrupt`."""
        node = self.find_history_node(level, index)
        if node is None or len(node) != keys.HASH_SIZE:
            raise Corrupt(f"the history lacks node {index} of level {level}")
        return node

    def find_location(self, tx_hash: TxHash) -> Location | None:
        value = self._database.get(keys.TX_INDEX, tx_hash)
        if value is None:
            return None
        location = keys.decode_location(value)
        return location if self.base <= location[0] <= self.visible else None

    def find_record(self, height: int, position: int) -> bytes | None:
        if not self.base <= height <= self.visible or position < 0:
            return None
        value = self._database.get(keys.TXS, keys.encode_location(height, position // CHUNK_RECORDS))
        if value is None:
            return None
        within = position % CHUNK_RECORDS
        if len(value) % TX_RECORD_SIZE == 0:
            start = within * TX_RECORD_SIZE
            return value[start : start + TX_RECORD_SIZE] or None
        return next(islice(keys.walk_chunk(value), within, None), None)

    def records(self, height: int) -> Iterator[bytes]:
        """The records of a block's transactions, in its order. Raises `Corrupt` when one is missing."""
        for chunk in self.chunks(height):
            yield from chunk

    def chunks(self, height: int) -> Iterator[list[bytes]]:
        """The records of a block's transactions, as many at a time as are stored together. Raises `Corrupt`."""
        count = len(self.tx_hashes(height)) // keys.HASH_SIZE
        for chunk in range(keys.chunk_count(count)):
            records = self._find_chunk(height, chunk, count)
            if records is None:
                raise Corrupt(f"block {height} lacks transactions from {chunk * keys.CHUNK_RECORDS} on")
            yield records

    def named_in(self, height: int) -> set[Address]:
        """Every account that a block touched, and perhaps its proposer, and those that had the balance that it sets."""
        found = self.find_header(height)
        if found is None:
            raise Corrupt(f"block {height} has no header in the store")
        balances = self._database.get(keys.META, keys.balances_key(height))
        named = set[Address]() if balances is None else set(keys.decode_balances(balances))
        if found[1].tx_count:
            named.add(found[1].proposer)
        for tx in map(decode_record, self.records(height)):
            named.update((tx.sender, tx.to))
        return named

    def minted_in(self, first: int, last: int) -> int:
        """By how much the blocks from `first` to `last` changed the sum of all balances: those that set some do.

        No block before `first` may have been removed. Raises `Corrupt`.
        """
        cursor = self._database.cursor(keys.META)
        entry, minted = cursor.seek(keys.balances_key(first)), 0
        while entry is not None and (at := keys.find_balances_height(entry[0])) is not None and at <= last:
            for address, balance in keys.decode_balances(entry[1]).items():
                minted += balance - self.account_at(address, at - 1).balance
            entry = cursor.next()
        return minted

    def _find_chunk(self, height: int, chunk: int, tx_count: int) -> list[bytes] | None:
        """A chunk of a block of `tx_count` transactions; None unless it has all that it must. Raises `Corrupt`."""
        value = self._database.get(keys.TXS, keys.encode_location(height, chunk))
        if value is None:
            return None
        try:
            records = keys.split_chunk(value)
        except Corrupt as damage:
            first = chunk * keys.CHUNK_RECORDS
            raise Corrupt(f"the transactions of block {height} from {first} on: {damage.detail}") from None
        return records if len(records) == keys.chunk_records(tx_count, chunk) else None

    def find_signature(self, height: int) -> bytes | None:
        """The signature of a block that one node made alone; block 0 has none."""
        if not self.base <= height <= self.visible:
            return None
        return self._database.get(keys.SIGNATURES, keys.encode_height(height))

    def steps(self) -> list[Step]:
        """Every change of who signs the chain's blocks, the oldest first. Raises `Corrupt`."""
        return [_decode_step(key, stored) for key, stored in self._database.scan(keys.STEPS)]

    def step_records(self, last: int) -> Iterator[bytes]:
        """Changes of who signs, as they are stored, up to those in the engine's header of height `last`."""
        for key, stored in self._database.scan(keys.STEPS):
            if keys.decode_height(key) <= last:
                yield stored

    def account(self, address: Address) -> Account:
        """The account after block `visible`; an empty one if there is none."""
        return self.account_at(address, self.visible)

    def account_at(self, address: Address, height: int) -> Account:
        """The account after the block at `height`, which must not be below the base."""
        version = self.find_version(address, height)
        return EMPTY_ACCOUNT if version is None else version.account

    def find_version(self, address: Address, height: int) -> Version | None:
        """The account as of `height`."""
        if height < 0:
            return None
        entry = self._database.first_of_prefix(keys.ACCOUNTS, keys.version_key(address, height))
        return None if entry is None else keys.decode_version(*entry)

    def versions_between(self, address: Address, first: int, last: int, count: int) -> list[Version]:
        """At most `count` versions of the account from height `first` to `last`, the oldest first."""
        heights = self.heights_between(address, first, last, count)
        return [self._version_at(address, height) for height in heights]

    def heights_between(self, address: Address, first: int, last: int, count: int) -> list[int]:
        """Their heights. Only blocks that are kept count."""
        first, last = max(first, self.base), min(last, self.visible)
        if first > last:
            return []
        # A later version has a lower key.
        low, high = keys.version_key(address, last), keys.version_key(address, first)
        found = self._database.keys_between(keys.ACCOUNTS, low, high, count, is_ascending=False)
        return [keys.decode_version_key(key)[1] for key in found]

    def find_use(self, address: Address, how: int, height: int) -> Version | None:
        """The newest version up to `height` in which the account has such a transaction, if it is kept."""
        version = self.find_version(address, height)
        if version is None or version.height < self.base:
            return None
        return version if version.has(how) else self.find_earlier_use(address, how, version)

    def find_earlier_use(self, address: Address, how: int, version: Version) -> Version | None:
        """The newest one before `version`, if it is kept."""
        height = version.before(how)
        if height < self.base:
            return None
        return self._version_at(address, height)

    def _version_at(self, address: Address, height: int) -> Version:
        """A version that must be there. Raises `Corrupt`."""
        key = keys.version_key(address, height)
        value = self._database.get(keys.ACCOUNTS, key)
        if value is None:
            raise Corrupt(f"account 0x{address.hex()} has no entry at height {height}, though a later one says so")
        return keys.decode_version(key, value)

    def find_references(
        self, tag: bytes, first: Location, last: Location, count: int, is_ascending: bool
    ) -> list[Location]:
        """At most `count` places with this tag, from the one end or from the other."""
        low, high = keys.reference_key(tag, first), keys.reference_key(tag, last)
        found = self._database.keys_between(keys.REFERENCES, low, high, count, is_ascending)
        return [keys.decode_reference_key(key) for key in found]

    def find_data_block(self) -> int | None:
        """The newest block that has transactions with data, if it is kept. Not for followers."""
        value = self._database.get(keys.META, keys.DATA_BLOCK_KEY)
        height = None if value is None else keys.decode_height(value)
        return height if height is not None and height >= self.base else None

    def has_references(self, height: int) -> bool:
        """Whether the index has the block's transactions with data; all or none are there."""
        return self._database.get(keys.REFERENCES, keys.encode_height(height)) is not None

    def accounts_at(self, height: int) -> Iterator[tuple[Address, Version]]:
        """Every account as of `height`, in the order of addresses, as one consistent view of the time it starts."""
        cursor = self._database.cursor(keys.ACCOUNTS)
        entry = cursor.seek(b"")
        while entry is not None:
            address, newest = keys.decode_version_key(entry[0])
            if newest > height:
                entry = cursor.seek(keys.version_key(address, height))
                if entry is None or not entry[0].startswith(address):
                    continue
            yield address, keys.decode_version(*entry)
            entry = cursor.next()
            # Most accounts have few versions, so a step is mostly cheaper than a seek.
            if entry is not None and entry[0].startswith(address):
                entry = cursor.seek(keys.after_versions(address))

    def is_whole(self, height: int) -> bool:
        """Whether each column family has its part of a block: a batch reaches a family wholly or not at all."""
        get = self._database.get
        key = keys.encode_height(height)
        stored, hashes = get(keys.HEADERS, key), get(keys.TX_HASHES, key)
        if stored is None or hashes is None:
            return False
        block_hash, header = keys.decode_stored_header(stored)
        count = header.tx_count
        if get(keys.BLOCK_INDEX, block_hash) is None or len(hashes) != keys.HASH_SIZE * count:
            return False
        if keys.holds_data(header) and not self.has_references(height):
            return False
        if self.find_history_node(0, height) is None:
            return False
        if count == 0:
            balances = get(keys.META, keys.balances_key(height))
            given = {} if balances is None else keys.decode_balances(balances)
            return self._has_changes(height, header, given) and self._has_silent_changes(height, header)
        records = self._find_chunk(height, keys.chunk_count(count) - 1, count)
        if records is None:
            return False
        tx = decode_record(records[-1])
        if get(keys.ACCOUNTS, keys.version_key(tx.sender, height)) is None or get(keys.TX_INDEX, tx.hash) is None:
            return False
        return self._has_changes(height, header, [tx.sender])

    def _has_changes(self, height: int, header: BlockHeader, touched: Iterable[Address]) -> bool:
        """Whether the leaves of all accounts that the block touched are there, if it touched some; `touched` it did."""
        is_there = self._database.get(keys.CHANGES, keys.encode_height(height)) is not None
        # Those of its block are not in a snapshot.
        return is_there or header.changes_root == EMPTY_ROOT or any(self._is_restored(each, height) for each in touched)

    def _is_restored(self, address: Address, height: int) -> bool:
        key = keys.version_key(address, height)
        version = self._database.get(keys.ACCOUNTS, key)
        return version is not None and keys.decode_version(key, version).index == keys.RESTORED

    def _has_silent_changes(self, height: int, header: BlockHeader) -> bool:
        """Whether all that a block without transactions did to the state is there; most did nothing."""
        get = self._database.get
        before = get(keys.HEADERS, keys.encode_height(height - 1)) if height else None
        if before is None or keys.decode_stored_header(before)[1].state_root == header.state_root:
            return True
        balances = get(keys.META, keys.balances_key(height))
        if balances is None:
            return get(keys.META, keys.governance_key(height)) is not None
        found = (get(keys.ACCOUNTS, keys.version_key(address, height)) for address in keys.decode_balances(balances))
        # One is enough, and those that had the balance already have no version.
        return any(version is not None for version in found)


def _decode_step(key: bytes, stored: bytes) -> Step:
    try:
        return msgspec.json.decode(stored, type=Step)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt(f"the change of signers at height {keys.decode_height(key)} cannot be read: {error}") from None
