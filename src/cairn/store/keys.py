"""Every column family, key and value of the chain's store, drawn once. Numbers are big-endian.

    family       key                              value
    -----------  -------------------------------  -------------------------------------------------------
    meta         "genesis"                        digest of the genesis 32
                 "head"                           height 8 | block hash 32
                 "state block"                    hash of the newest block that changed the state 32
                 "governance"                     the validators as of the head, on a chain that has any
                 "governance" | height 8          the validators from this block on
                 "absent" | height 8              of the latest 100 blocks: who did not vote on the block before it,
                                                  as addresses in CometBFT, 20 each
                 "balances" | height 8            on a dev chain, what this block sets: address 20 | balance 32, each
                 "base"                           the oldest height that is kept, when that is not genesis 8
                 "cleared"                        blocks below the base and from this height on are yet to be removed 8
                 "restore"                        height of the snapshot that is being restored 8
                 "data block"                     height of the newest block that has transactions with data 8
                 "probe"                          the last check's number 8
    headers      height 8                         block hash 32 | header in RLP
    block_index  block hash 32                    height 8
    tx_hashes    height 8                         the block's transaction hashes, 32 each, in its order
    txs          height 8 | chunk 4               records, each with its tail: number 16 * chunk to 16 * chunk + 15
    tx_index     tx hash 32                       height 8 | position 4
    accounts     address 20 | 2^64-1 - height 8   balance 32 | nonce 8 | sent before 8 | received before 8
                                                  | touched before 8 | number 4 | index 4 | uses 4 each
    changes      height 8                         leaf hashes of the accounts that the block touches, 32 each
    history      level 1 | index 8                node of the tree over all block hashes 32; kept forever
    references   tag 8 | height 8 | position 4    empty: the transaction there may have this data, and this account
                 height 8                         empty: the block has transactions with data
    signatures   height 8                         Ed25519 64; of a node that makes its blocks alone
    steps        height in the engine 8           a change of who signs, as certificates have it, in JSON; never removed

Outside `meta` no key is ever written twice, at most it is removed; of `meta` followers read only what ends in a
height, which is not written twice either. A RocksDB secondary may go on showing an old value of an overwritten key
after a flush (facebook/rocksdb#15051); a key that has one value forever cannot be stale, and what is removed is below
the base, where nobody looks.
So an account is not one record that changes: each block that touches it adds a version, the newest one first.

`uses` of a version are the block's transactions that the account sends or receives: position * 4, plus 1 if it sends,
plus 2 if it receives. So the versions are the account's history too. `sent before` and `received before` are heights:
of the newest earlier version in which it sends, and receives (-1: none). So whoever looks for one of the two steps over
no version without it, such as those of a proposer that only got fees. `touched before` is the height of the version
before this one, which may be removed since. `number` is that of the account's leaf in the state tree, `index` that of
its leaf in the block's `changes`: versions are exactly of the accounts that a block touches. Only a snapshot that is
restored gives all accounts a version, of its own height: the index is then 2^32-1, and `touched before` the last touch.

The tag of a reference is made from an account and the data of a transaction: each transaction with data has one for its
sender and one for its recipient. Different ones may have the same tag, so whoever finds one reads the transaction.

Sixteen records share a key: one insertion, one index entry and one checksum instead of sixteen. A chunk in which no
record has a tail is known by its length, a multiple of 282, so that each record is found where it must be. One in which
some have tails is read from its beginning; where its length would be such a multiple too, a byte 0 follows.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import count
from struct import Struct, error
from typing import Final

import msgspec

from cairn.domain.errors import Corrupt
from cairn.domain.headers import decode_header, encode_header, skim_header
from cairn.domain.steps import Steps, in_groups
from cairn.domain.transactions import TX_RECORD_SIZE, record_end
from cairn.domain.types import MAX_UINT64, TRANSFER_GAS, Account, Address, BlockHash, BlockHeader, Tx, TxHash

META: Final = "meta"
HEADERS: Final = "headers"
BLOCK_INDEX: Final = "block_index"
TX_HASHES: Final = "tx_hashes"
TXS: Final = "txs"
TX_INDEX: Final = "tx_index"
ACCOUNTS: Final = "accounts"
REFERENCES: Final = "references"
CHANGES: Final = "changes"
HISTORY: Final = "history"
SIGNATURES: Final = "signatures"
STEPS: Final = "steps"
FAMILIES: Final = (
    *(META, HEADERS, BLOCK_INDEX, TX_HASHES, TXS, TX_INDEX, ACCOUNTS, REFERENCES, CHANGES, HISTORY),
    *(SIGNATURES, STEPS),
)

GENESIS_KEY: Final = b"genesis"
HEAD_KEY: Final = b"head"
STATE_BLOCK_KEY: Final = b"state block"
GOVERNANCE_KEY: Final = b"governance"
BALANCES_KEY: Final = b"balances"
ABSENT_KEY: Final = b"absent"
BASE_KEY: Final = b"base"
CLEARED_KEY: Final = b"cleared"
RESTORE_KEY: Final = b"restore"
DATA_BLOCK_KEY: Final = b"data block"
PROBE_KEY: Final = b"probe"

HASH_SIZE: Final = 32
ADDRESS_SIZE: Final = 20
TAG_SIZE: Final = 8
CHUNK_RECORDS: Final = 16
LAST_VERSION_KEY: Final = b"\xff" * 29
"""Behind the keys of all versions."""
_FILLER: Final = b"\0"
RESTORED: Final = 2**32 - 1
"""The index of a version that comes from a snapshot: its `touched before` is the height of its last touch."""
NEVER: Final = -1
"""The height at which an account last sent, or received, that never did: below every other."""
SENT: Final = 1
RECEIVED: Final = 2
EITHER: Final = SENT | RECEIVED
"""What an account has to do with a transaction. A transfer to itself is both."""
POSITION_STEP: Final = 4

Location = tuple[int, int]
"""Height and position of a transaction."""

_HEIGHT = Struct(">Q")
_LOCATION = Struct(">QI")
_VERSION_KEY = Struct(">20sQ")
VERSION_KEY_SIZE: Final = _VERSION_KEY.size
_VERSION = Struct(">32sQqqqII")
_HISTORY_KEY = Struct(">BQ")
_REFERENCE = Struct(">8sQI")
_BALANCE = Struct(">20s32s")
_pack_version = _VERSION.pack

encode_height = _HEIGHT.pack
encode_position = Struct(">I").pack
encode_history_key = _HISTORY_KEY.pack
encode_location = _LOCATION.pack
"""A location; or, as a key of `txs`, a height and the number of a chunk."""


class Version(msgspec.Struct, frozen=True, gc=False):
    """An account as one block left it."""

    height: int
    account: Account
    sent_before: int
    """Height of the newest earlier version in which the account sends, or `NEVER`."""
    received_before: int
    touched_before: int
    """Height of the newest earlier version, or `NEVER`."""
    number: int
    """Of its leaf in the state tree."""
    index: int
    """Of its leaf among those that the block touches, or `RESTORED`."""
    uses: tuple[int, ...]
    """`use_of` each of its transactions in the block, ascending."""

    @property
    def touched(self) -> int:
        """Height of the block that made it so: the version's own, unless it comes from a snapshot."""
        return self.touched_before if self.index == RESTORED else self.height

    def before(self, how: int) -> int:
        """Height of the newest earlier version that has a use of this kind, or `NEVER`."""
        return max(self.sent_before if how & SENT else NEVER, self.received_before if how & RECEIVED else NEVER)

    def has(self, how: int) -> bool:
        return any(use & how for use in self.uses)

    def latest(self, how: int) -> int:
        """Like `before`, with this version."""
        return self.height if self.has(how) else self.before(how)


class StoredHead(msgspec.Struct, frozen=True):
    height: int
    hash: BlockHash


class BlockMark(msgspec.Struct, frozen=True, gc=False):
    """What an answer about a transaction tells of its block, besides the height."""

    hash: BlockHash
    timestamp: int
    holds_data: bool
    """Whether any of its transactions has data."""


def decode_height(value: bytes) -> int:
    try:
        return int(_HEIGHT.unpack(value)[0])
    except error:
        raise Corrupt(f"a stored height has {len(value)} bytes, expected {_HEIGHT.size}") from None


def decode_location(value: bytes) -> Location:
    try:
        height, position = _LOCATION.unpack(value)
    except error:
        raise Corrupt(f"a stored location has {len(value)} bytes, expected {_LOCATION.size}") from None
    return height, position


def encode_stored_header(block_hash: BlockHash, header: BlockHeader) -> bytes:
    return block_hash + encode_header(header)


def decode_stored_header(value: bytes) -> tuple[BlockHash, BlockHeader]:
    return BlockHash(value[:HASH_SIZE]), decode_header(value[HASH_SIZE:])


def decode_stored_mark(value: bytes) -> BlockMark:
    """What `BlockMark` has of a stored header. Raises `Corrupt`."""
    block_hash = decode_stored_hash(value)
    gas_used, timestamp, tx_count = skim_header(value, HASH_SIZE)
    return BlockMark(block_hash, timestamp, gas_used > TRANSFER_GAS * tx_count)


def mark_of(block_hash: BlockHash, header: BlockHeader) -> BlockMark:
    return BlockMark(block_hash, header.timestamp, holds_data(header))


def decode_stored_hash(value: bytes) -> BlockHash:
    """The hash alone of a stored header. Raises `Corrupt`."""
    if len(value) <= HASH_SIZE:
        raise Corrupt(f"a stored header has {len(value)} bytes, with its hash of {HASH_SIZE}")
    return BlockHash(value[:HASH_SIZE])


def encode_head(head: StoredHead) -> bytes:
    return encode_height(head.height) + head.hash


def decode_head(value: bytes) -> StoredHead:
    if len(value) != _HEIGHT.size + HASH_SIZE:
        raise Corrupt(f"the stored head has {len(value)} bytes, expected {_HEIGHT.size + HASH_SIZE}")
    return StoredHead(decode_height(value[:8]), BlockHash(value[8:40]))


def version_suffix(height: int) -> bytes:
    """What follows the address in the key of a version."""
    return _HEIGHT.pack(MAX_UINT64 - height)


def version_key(address: Address, height: int) -> bytes:
    return address + _HEIGHT.pack(MAX_UINT64 - height)


def after_versions(address: Address) -> bytes:
    """A key behind all versions of an account and before those of any other."""
    return address + b"\xff" * 9


def decode_version_key(key: bytes) -> tuple[Address, int]:
    address, inverted = _VERSION_KEY.unpack(key)
    return Address(address), MAX_UINT64 - inverted


def encode_version(
    account: Account, sent_before: int, received_before: int, touched_before: int, number: int, index: int
) -> bytes:
    """A version up to its uses, which follow ascending, each by `encode_position`."""
    balance = account.balance.to_bytes(32, "big")
    return _pack_version(balance, account.nonce, sent_before, received_before, touched_before, number, index)


def decode_version(key: bytes, value: bytes) -> Version:
    extra = len(value) - _VERSION.size
    if len(key) != _VERSION_KEY.size or extra < 0 or extra % 4:
        raise Corrupt(f"a stored account has a key of {len(key)} and a value of {len(value)} bytes")
    balance, nonce, sent_before, received_before, touched_before, number, index = _VERSION.unpack_from(value)
    uses = Struct(f">{extra // 4}I").unpack_from(value, _VERSION.size)
    account = Account(int.from_bytes(balance, "big"), nonce)
    height = decode_version_key(key)[1]
    return Version(height, account, sent_before, received_before, touched_before, number, index, uses)


def use_of(position: int, how: int) -> int:
    """A transaction of a block as the versions of its accounts name it: by position, then by what it is to them."""
    return position * POSITION_STEP + how


def uses_of(txs: Sequence[Tx]) -> Steps[dict[Address, bytearray]]:
    """For each account, the transactions that it sends or receives, as a version holds them."""
    uses: dict[Address, bytearray] = defaultdict(bytearray)
    places = count(0, POSITION_STEP)
    for group in in_groups(txs):
        # The transactions first: a place that nothing is paired with would be lost.
        for tx, place in zip(group, places, strict=False):
            if tx.to == tx.sender:
                uses[tx.sender] += encode_position(place + EITHER)
            else:
                uses[tx.sender] += encode_position(place + SENT)
                uses[tx.to] += encode_position(place + RECEIVED)
        yield
    return uses


def holds_data(header: BlockHeader) -> bool:
    """Whether a transaction of the block has data: then they use more gas than so many without."""
    return header.gas_used > TRANSFER_GAS * header.tx_count


def reference_tag(address: Address, data: bytes) -> bytes:
    return blake2b(address + data, digest_size=TAG_SIZE).digest()


def reference_key(tag: bytes, location: Location) -> bytes:
    return _REFERENCE.pack(tag, *location)


def decode_reference_key(key: bytes) -> Location:
    try:
        _, height, position = _REFERENCE.unpack(key)
    except error:
        raise Corrupt(f"a stored reference has a key of {len(key)} bytes, expected {_REFERENCE.size}") from None
    return height, position


def height_of_reference(key: bytes) -> int:
    """The height of the block that any entry of `references` belongs to."""
    return decode_height(key) if len(key) == _HEIGHT.size else decode_reference_key(key)[0]


def reference_keys(height: int, txs: Iterable[tuple[int, Tx]]) -> Iterator[bytes]:
    """The keys of transactions with data, for each of their accounts; they come with their positions."""
    for position, tx in txs:
        if tx.data:
            for address in {tx.sender, tx.to}:
                yield reference_key(reference_tag(address, tx.data), (height, position))


def chunk_count(tx_count: int) -> int:
    return -(-tx_count // CHUNK_RECORDS)


def chunk_records(tx_count: int, chunk: int) -> int:
    """How many records a chunk of a block of `tx_count` transactions must have."""
    return min(CHUNK_RECORDS, tx_count - chunk * CHUNK_RECORDS)


def encode_chunk(records: Sequence[bytes]) -> bytes:
    chunk = b"".join(records)
    has_tails = len(chunk) != TX_RECORD_SIZE * len(records)
    return chunk + _FILLER if has_tails and len(chunk) % TX_RECORD_SIZE == 0 else chunk


def split_chunk(chunk: bytes) -> list[bytes]:
    """The records in a chunk. Raises `Corrupt`."""
    if len(chunk) % TX_RECORD_SIZE == 0:
        return [chunk[at : at + TX_RECORD_SIZE] for at in range(0, len(chunk), TX_RECORD_SIZE)]
    return list(walk_chunk(chunk))


def walk_chunk(chunk: bytes) -> Iterator[bytes]:
    """The records in a chunk of which some have tails, read as far as they are taken. Raises `Corrupt`."""
    at, last = 0, len(chunk) - len(_FILLER)
    while at < last:
        end = record_end(chunk, at)
        yield chunk[at:end]
        at = end
    if at == last and (chunk[at:] != _FILLER or at % TX_RECORD_SIZE):
        raise Corrupt(f"behind the last record there is the byte 0x{chunk[at:].hex()}")


def split_hashes(hashes: bytes) -> Iterator[TxHash]:
    """The transactions of a block, one by one."""
    for start in range(0, len(hashes), HASH_SIZE):
        yield TxHash(hashes[start : start + HASH_SIZE])


def governance_key(height: int) -> bytes:
    return GOVERNANCE_KEY + encode_height(height)


def find_governance_height(key: bytes) -> int | None:
    """The height in a key of `governance_key`; None for any other key."""
    head, height = key[: len(GOVERNANCE_KEY)], key[len(GOVERNANCE_KEY) :]
    return decode_height(height) if head == GOVERNANCE_KEY and height else None


def absent_key(height: int) -> bytes:
    return ABSENT_KEY + encode_height(height)


def balances_key(height: int) -> bytes:
    return BALANCES_KEY + encode_height(height)


def find_balances_height(key: bytes) -> int | None:
    """The height in a key of `balances_key`; None for any other key."""
    head, height = key[: len(BALANCES_KEY)], key[len(BALANCES_KEY) :]
    return decode_height(height) if head == BALANCES_KEY and height else None


def encode_balances(balances: Mapping[Address, int]) -> bytes:
    return b"".join(_BALANCE.pack(address, balance.to_bytes(32, "big")) for address, balance in balances.items())


def decode_balances(value: bytes) -> dict[Address, int]:
    if not value or len(value) % _BALANCE.size:
        raise Corrupt(f"the balances that a block sets have {len(value)} bytes, not {_BALANCE.size} each")
    return {Address(address): int.from_bytes(balance, "big") for address, balance in _BALANCE.iter_unpack(value)}
