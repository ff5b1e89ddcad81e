"""State snapshots: the whole state after one block, in parts that another node can fetch, check and start from.

    DIR/snapshots/HEIGHT/manifest      what the parts are, and their SHA-256 digests
    DIR/snapshots/HEIGHT/000000 ...    the parts, about 1 MiB each:
        first   the block's transactions in its order, each as a record; as many in a part as fit without data
        then    every account, in the order of addresses:
                address 20 | balance 32 | nonce 8 | number 4 | height of its last touch 8
        last    the changes of validators before it (`snapshot_steps`), cut where a part is full

So the number of parts, and of records in each, follow from the header, the number of accounts and the size of the last
kind. With the longest data in every record, a part has twice as many bytes.

A snapshot is only ever of a block that changed the state: its hash is the app hash that the validators sign, so all of
its header can be trusted, and through the header's two roots everything else. Of an empty block after it they sign no
hash of ours. The same height gives the same bytes on every node, whatever that node keeps of the past.

All accounts are read for it, so they are summed up and compared with the block's state root: the one moment at which a
running node sees its whole state, and the last one before others start from it.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain as chained
from itertools import islice
from pathlib import Path
from struct import Struct
from typing import NamedTuple

import msgspec

from cairn.domain.certificates import Step
from cairn.domain.errors import Corrupt, InvalidChunk, InvalidSnapshot, Rejected, StoreUnavailable, reason_of
from cairn.domain.genesis import Genesis, genesis_digest
from cairn.domain.governance import Governance, decode_governance
from cairn.domain.headers import block_hash, decode_header, encode_header
from cairn.domain.history import History, peak_places
from cairn.domain.merkle import EMPTY_ROOT, NODE_BYTES, tx_root
from cairn.domain.state_tree import StateTree, StateUpdate, TreeUpdate, record_leaf
from cairn.domain.steps import finish
from cairn.domain.transactions import (
    LONGEST_RECORD_SIZE,
    TX_RECORD_SIZE,
    decode_record,
    encode_record,
    rebuild_tx,
    split_records,
)
from cairn.domain.transition import BlockOutcome
from cairn.domain.types import TRANSFER_GAS, Account, Address, BlockHash, BlockHeader, SealedBlock, Tx
from cairn.store import keys
from cairn.store.directory import is_directory, make_directory, names_in, sync_directory, sync_file, write_file
from cairn.store.keys import NEVER, RESTORED
from cairn.store.reader import ChainReader
from cairn.store.rocks import Database, WriteBatch
from cairn.store.snapshot_steps import RestoredSteps, cut_steps
from cairn.store.state_leaves import StateLeaves, root_in_slices

FORMAT = 4
CHUNK_BYTES = 1 << 20
KEPT = 2
"""The newest ones that are kept: a node that fetches the last but one can finish."""
SLICE = 64
"""Accounts that are read and hashed between two pauses: some tenths of a millisecond of work."""

ROOM_PER_ACCOUNT = 300
"""About 90 bytes in RocksDB's log, the same in a table, and again while tables are merged."""

MANIFEST_NAME = "manifest"

_ACCOUNT = Struct(">20s32sQIQ")
ACCOUNT_SIZE = _ACCOUNT.size

Pause = Callable[[], None]
"""Called regularly during long work, to pause; it may raise to end the work."""


class Manifest(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a snapshot consists of. Peers compare it before they fetch anything."""

    genesis: bytes
    """Digest of the chain's genesis."""
    header: bytes
    """The block's header in RLP."""
    governance: bytes
    """The validators' canonical record; empty on a chain without."""
    account_count: int
    steps_bytes: int
    """Size of all changes of validators."""
    history: tuple[bytes, ...]
    """The peaks of the tree over all earlier blocks; the header's history root covers them."""
    chunks: tuple[bytes, ...]
    """SHA-256 of each part."""

    @property
    def digest(self) -> bytes:
        """Names the snapshot among peers."""
        return hashlib.sha256(encode_manifest(self)).digest()

    def decode_header(self) -> BlockHeader:
        """The header of the snapshot's block. Raises `InvalidSnapshot`."""
        try:
            return decode_header(self.header)
        except (Rejected, Corrupt, ValueError) as error:
            raise InvalidSnapshot(f"the snapshot's header cannot be read: {reason_of(error)}") from None


def encode_manifest(manifest: Manifest) -> bytes:
    return msgspec.msgpack.encode(manifest)


def decode_manifest(raw: bytes) -> Manifest:
    """Read a peer's manifest. Raises `InvalidSnapshot`."""
    try:
        manifest = msgspec.msgpack.decode(raw, type=Manifest)
    except msgspec.MsgspecError as error:
        raise InvalidSnapshot(f"the snapshot's manifest cannot be read: {error}") from None
    if encode_manifest(manifest) != raw:
        raise InvalidSnapshot("the snapshot's manifest is not in its one canonical form")
    return manifest


class AccountRecord(NamedTuple):
    """An account as a snapshot holds it."""

    address: Address
    account: Account
    number: int
    touched: int


def encode_account(record: AccountRecord) -> bytes:
    account = record.account
    balance = account.balance.to_bytes(32, "big")
    return _ACCOUNT.pack(record.address, balance, account.nonce, record.number, record.touched)


def decode_accounts(chunk: bytes) -> Iterator[AccountRecord]:
    """The accounts in a part of whole records."""
    for address, balance, nonce, number, touched in _ACCOUNT.iter_unpack(chunk):
        yield AccountRecord(Address(address), Account(int.from_bytes(balance, "big"), nonce), number, touched)


class ChunkLayout(msgspec.Struct, frozen=True):
    """How records are spread over parts: as many as fit in each if all have `record_bytes`, the rest in the last."""

    records: int
    record_bytes: int

    @property
    def count(self) -> int:
        return -(-self.records // self._each)

    def records_in(self, index: int) -> int:
        return min(self._each, self.records - index * self._each)

    @property
    def _each(self) -> int:
        return CHUNK_BYTES // self.record_bytes


class SnapshotDirectory:
    """The snapshots that this node has to offer."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def heights(self) -> list[int]:
        """The heights of all complete snapshots, ascending. Raises `StoreUnavailable`."""
        # Without a directory for them the chain goes on.
        names = names_in(self._path) if is_directory(self._path) else []
        return sorted(int(name) for name in names if name.isdigit())

    def find_manifest(self, height: int) -> Manifest | None:
        """None if there is no such snapshot, or it cannot be read any more."""
        try:
            return decode_manifest((self._path / str(height) / MANIFEST_NAME).read_bytes())
        except (OSError, InvalidSnapshot):
            return None

    def find_chunk(self, height: int, index: int) -> bytes | None:
        """A part, if it exists and is undamaged: a damaged one would make peers reject this node."""
        manifest = self.find_manifest(height)
        if manifest is None or not 0 <= index < len(manifest.chunks):
            return None
        try:
            chunk = (self._path / str(height) / _chunk_name(index)).read_bytes()
        except OSError:
            return None
        return chunk if hashlib.sha256(chunk).digest() == manifest.chunks[index] else None

    def take(self, reader: ChainReader, height: int, genesis: bytes, governance: bytes, pause: Pause) -> Manifest:
        """Write the snapshot of the state as of `height`, a block that changed it, and remove the oldest ones.

        `governance` is the validators' record as of that block. Raises `StoreUnavailable` or `Corrupt`.
        """
        found = reader.find_header(height)
        if found is None:
            raise Corrupt(f"block {height} has no header in the store")
        draft = self._path / f"{height}.new"
        try:
            make_directory(self._path)
            self._remove_drafts()
            draft.mkdir(mode=0o700)
            accounts = _Summed(reader, height, pause)
            steps = list(cut_steps(reader.step_records(height), CHUNK_BYTES))
            parts = chained(_cut(reader.records(height), TX_RECORD_SIZE), _cut(accounts, ACCOUNT_SIZE), steps)
            digests = tuple(_save(draft / _chunk_name(index), part) for index, part in enumerate(parts))
            _check_state(accounts.leaves, governance, found[1], pause)
            peaks = tuple(reader.read_history_node(level, index) for level, index in peak_places(height))
            steps_bytes = sum(map(len, steps))
            manifest = Manifest(
                genesis, encode_header(found[1]), governance, accounts.leaves.count, steps_bytes, peaks, digests
            )
            write_file(draft / MANIFEST_NAME, encode_manifest(manifest))
            draft.rename(self._path / str(height))
            sync_directory(self._path)
            self._remove_old()
        except OSError as failure:
            raise StoreUnavailable(f"cannot write a snapshot to {draft}: {failure}") from failure
        return manifest

    def _remove_drafts(self) -> None:
        for name in names_in(self._path):
            if name.endswith(".new"):
                shutil.rmtree(self._path / name)

    def _remove_old(self) -> None:
        for height in self.heights()[:-KEPT]:
            # Rename it first: a half-removed snapshot must not look like a complete one.
            draft = self._path / f"{height}.new"
            (self._path / str(height)).rename(draft)
            shutil.rmtree(draft)


class _Summed:
    """The records of all accounts, whose leaves are hashed as they are given."""

    def __init__(self, reader: ChainReader, height: int, pause: Pause) -> None:
        self._reader = reader
        self._height = height
        self._pause = pause
        self.leaves = StateLeaves()

    def __iter__(self) -> Iterator[bytes]:
        versions = self._reader.accounts_at(self._height)
        while part := list(islice(versions, SLICE)):
            self._pause()
            for address, version in part:
                self.leaves.add(address, version.account, version.number, version.touched)
                yield encode_account(AccountRecord(address, version.account, version.number, version.touched))


def _check_state(leaves: StateLeaves, governance: bytes, header: BlockHeader, pause: Pause) -> None:
    """Check that these are the accounts that the block left. Raises `Corrupt`."""
    root = root_in_slices(leaves.in_order(record_leaf(governance)), pause)
    if root != header.state_root:
        raise Corrupt(
            f"the accounts in the store have the root 0x{root.hex()}; "
            f"block {header.height} commits to 0x{header.state_root.hex()}"
        )


def _cut(records: Iterable[bytes], record_size: int) -> Iterator[bytes]:
    """Whole records, as many as fit in a part."""
    left = iter(records)
    while part := b"".join(islice(left, CHUNK_BYTES // record_size)):
        yield part


def _save(path: Path, chunk: bytes) -> bytes:
    """Put a part on disk; returns its digest."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb") as stream:
        stream.write(chunk)
        stream.flush()
        sync_file(stream.fileno())
    return hashlib.sha256(chunk).digest()


def _chunk_name(index: int) -> str:
    return f"{index:06d}"


class OldestBlock(msgspec.Struct, frozen=True):
    """What an export has of the block that a restored chain begins with, and a snapshot of a peer has not."""

    signature: bytes | None = None
    """The block's own, on a chain whose node makes its blocks alone."""
    step: Step | None = None
    """If who signs changes with this block."""
    changes_governance: bool = True
    """Otherwise an earlier block made the snapshot's governance."""
    balances: Mapping[Address, int] = {}
    """Those that the block sets, on a dev chain."""
    absent: Sequence[Sequence[bytes]] = ()
    """As `MissedVotes` takes them, of the latest blocks up to this one, ascending."""

    def add_to(self, batch: WriteBatch, height: int) -> None:
        """Add what is stored beside the block, whose batch this is."""
        if self.signature is not None:
            batch.put(keys.SIGNATURES, keys.encode_height(height), self.signature)
        if self.step is not None:
            batch.put(keys.STEPS, keys.encode_height(height + 1), msgspec.json.encode(self.step))
        for behind, absent in enumerate(reversed(self.absent)):
            batch.put(keys.META, keys.absent_key(height - behind), b"".join(absent))


OF_A_PEER = OldestBlock()


class RestoredState(NamedTuple):
    """A snapshot's block, and the tree of the state that it leaves."""

    outcome: BlockOutcome
    tree: StateTree


class Restore:
    """A snapshot that is being restored.

    Nothing of it is trusted until it is verified against the one trusted hash.

    The trusted hash is that of the snapshot's block, so its header can be checked before anything is fetched. The
    number of accounts is only claimed, and whether they are the right ones shows only at the end: until then, a false
    claim must not fill the disk. So the claim is limited by the number of accounts that the blocks up to that height
    can have made, and by the free disk space. The number and the sizes of the parts follow from the claim.

    The parts are checked against their digests as they come, so that a bad one can be fetched again; digests and
    accounts together against the header's state root at the end. Until then the accounts lie in the store as versions
    of a height above the head, which nobody reads; a mark in `meta` says so, and an opening that finds it removes them.
    """

    def __init__(self, database: Database, manifest: Manifest, trusted: BlockHash, genesis: Genesis) -> None:
        """Check that the manifest is of the trusted block of this chain. Raises `InvalidSnapshot`."""
        self._database = database
        self._manifest = manifest
        self._hash = trusted
        self._header = header = manifest.decode_header()
        self._rules = genesis.rules
        if manifest.genesis != genesis_digest(genesis):
            raise InvalidSnapshot(
                f"the snapshot belongs to genesis 0x{manifest.genesis.hex()}, not to 0x{genesis_digest(genesis).hex()}"
            )
        if block_hash(header) != trusted:
            raise InvalidSnapshot(
                f"the snapshot is of block 0x{block_hash(header).hex()}; the network's is 0x{trusted.hex()}"
            )
        if manifest.steps_bytes < 0:
            raise InvalidSnapshot(f"the snapshot names {manifest.steps_bytes} bytes of changes of validators")
        if not 0 <= manifest.account_count <= most_accounts(genesis, header.height):
            raise InvalidSnapshot(
                f"the snapshot names {manifest.account_count} accounts; "
                f"the blocks up to {header.height} can have made {most_accounts(genesis, header.height)}"
            )
        self._tx_parts = ChunkLayout(header.tx_count, TX_RECORD_SIZE)
        self._account_parts = ChunkLayout(manifest.account_count, ACCOUNT_SIZE)
        self._step_parts = ChunkLayout(manifest.steps_bytes, 1)
        self._steps = RestoredSteps(genesis, header.height)
        self._first_steps = self._tx_parts.count + self._account_parts.count
        parts = self._first_steps + self._step_parts.count
        if len(manifest.chunks) != parts:
            raise InvalidSnapshot(f"the snapshot has {len(manifest.chunks)} parts; it must have {parts}")
        self._governance = _read_governance(manifest.governance)
        self._txs: list[Tx] = []
        self._uses: dict[Address, bytearray] = {}
        self._next = 0
        self._leaves = StateLeaves()
        self._tree: StateTree | None = None
        self._before = History(header.height, manifest.history)
        # The root covers them one after the other, so it says nothing of where each ends.
        is_cut_right = [len(peak) for peak in manifest.history] == header.height.bit_count() * [NODE_BYTES]
        if not is_cut_right or self._before.root != header.history_root:
            raise InvalidSnapshot(f"the history in the snapshot is not the one that block {header.height} commits to")
        self._last_address = b""

    @property
    def height(self) -> int:
        return self._header.height

    @property
    def room_bytes(self) -> int:
        """How much disk space its accounts may take, while tables are merged."""
        return self._manifest.account_count * ROOM_PER_ACCOUNT + self._manifest.steps_bytes

    @property
    def is_complete(self) -> bool:
        """Whether every part is there."""
        return self._next == len(self._manifest.chunks)

    def add_chunk(self, index: int, chunk: bytes) -> None:
        """Take in the next part.

        Raises `InvalidChunk` when it is not the one that the manifest names; `InvalidSnapshot` when it is, but the
        manifest cannot be true.
        """
        if index != self._next or self.is_complete:
            raise InvalidChunk(f"part {index} of the snapshot came when {self._next} was due")
        digest = hashlib.sha256(chunk).digest()
        if digest != self._manifest.chunks[index]:
            raise InvalidChunk(
                f"part {index} of the snapshot has the digest {digest.hex()}, not {self._manifest.chunks[index].hex()}"
            )
        if index < self._tx_parts.count:
            self._add_txs(index, chunk)
        elif index < self._first_steps:
            self._add_accounts(index, chunk)
        else:
            size = self._step_parts.records_in(index - self._first_steps)
            _check_size(index, chunk, size, size)
            self._steps.add(chunk)
        self._next += 1
        if self._next == len(self._manifest.chunks):
            self._tree = self._check_state()

    def outcome(self) -> "RestoredState":
        """The snapshot's block with the state that it leaves. Raises `InvalidSnapshot` if the two do not agree."""
        if not self.is_complete:
            raise InvalidSnapshot(f"{self._next} parts of the snapshot are here; it has {len(self._manifest.chunks)}")
        tree = self._tree or self._check_state()
        history, nodes = self._before.append(self._hash)
        peaks = zip(peak_places(self.height), self._before.peaks, strict=True)
        nodes += [(level, index, node) for (level, index), node in peaks]
        update = StateUpdate(TreeUpdate(tree.size, tree.root, []), EMPTY_ROOT, [], {}, {})
        block = SealedBlock(self._header, self._hash, tuple(self._txs))
        return RestoredState(BlockOutcome(block, {}, update, history, nodes, self._governance), tree)

    def _check_state(self) -> StateTree:
        """The tree over all accounts, which takes long where there are many."""
        self._check_txs()
        self._steps.finish(self._governance)
        try:
            tree = StateTree.from_leaves(self._leaves.in_order(record_leaf(self._manifest.governance)))
        except Corrupt as error:
            # The peer is at fault, not our disk.
            raise InvalidSnapshot(f"the snapshot's state is not whole: {error.detail}") from error
        if tree.root != self._header.state_root:
            raise InvalidSnapshot(
                f"the state in the snapshot has the root 0x{tree.root.hex()}; "
                f"block {self.height} commits to 0x{self._header.state_root.hex()}"
            )
        self._leaves = StateLeaves()
        return tree

    @property
    def steps(self) -> list[tuple[int, bytes]]:
        """The changes of validators, in the order and with the key in which they are stored."""
        return self._steps.records

    def _add_txs(self, index: int, chunk: bytes) -> None:
        count = self._tx_parts.records_in(index)
        # A false part may be of any size: look at that before its content.
        _check_size(index, chunk, count * TX_RECORD_SIZE, count * LONGEST_RECORD_SIZE)
        try:
            records = list(split_records(chunk))
            txs = list(map(decode_record, records))
        except Corrupt as error:
            # The peer is at fault, not our disk.
            raise InvalidSnapshot(f"a transaction of the snapshot cannot be read: {error.detail}") from error
        if len(txs) != count:
            raise InvalidSnapshot(f"part {index} of the snapshot has {len(txs)} transactions; it must have {count}")
        for record, tx in zip(records, txs, strict=True):
            try:
                again = rebuild_tx(tx, self._rules.chain_id, self._rules.gas_price)
            except Rejected as error:
                raise InvalidSnapshot(f"transaction 0x{tx.hash.hex()} is not valid: {error.detail}") from error
            if encode_record(again) != record:
                raise InvalidSnapshot(f"transaction 0x{tx.hash.hex()} comes under a hash that is not its own")
            self._txs.append(tx)
        self._uses = finish(keys.uses_of(self._txs))

    def _add_accounts(self, index: int, chunk: bytes) -> None:
        if index == self._tx_parts.count:
            self._check_txs()
        size = self._account_parts.records_in(index - self._tx_parts.count) * ACCOUNT_SIZE
        _check_size(index, chunk, size, size)
        batch = WriteBatch(self._database)
        for record in decode_accounts(chunk):
            address = record.address
            if address <= self._last_address or record.touched > self.height:
                raise InvalidSnapshot(f"account 0x{address.hex()} is of a later block, or not in its place")
            self._last_address = address
            self._leaves.add(*record)
            place = (record.touched, record.number, RESTORED)
            version = keys.encode_version(record.account, NEVER, NEVER, *place) + self._uses.get(address, b"")
            batch.put(keys.ACCOUNTS, keys.version_key(address, self.height), version)
        # Unsynced: the batch that makes the block the head is synced, and comes later in the same log.
        self._database.write(batch, sync=False)

    def _check_txs(self) -> None:
        found = tx_root([tx.hash for tx in self._txs])
        if found != self._header.tx_root or len(self._txs) != self._header.tx_count:
            raise InvalidSnapshot(
                f"the transactions in the snapshot have the root 0x{found.hex()}; "
                f"block {self.height} commits to 0x{self._header.tx_root.hex()}"
            )


def _read_governance(record: bytes) -> Governance | None:
    try:
        return decode_governance(record) if record else None
    except Corrupt as error:
        raise InvalidSnapshot(f"the snapshot's validators cannot be read: {error.detail}") from None


def _check_size(index: int, chunk: bytes, least: int, most: int) -> None:
    if not least <= len(chunk) <= most:
        expected = f"{least}" if least == most else f"{least} to {most}"
        raise InvalidSnapshot(f"part {index} of the snapshot has {len(chunk)} bytes; by its manifest it has {expected}")


def most_accounts(genesis: Genesis, height: int) -> int:
    """The most accounts that there can be: a transfer makes up to two (its sender only if it is free), fees one."""
    transfers = genesis.block_gas_limit // TRANSFER_GAS
    return len(genesis.alloc) + height * (2 * transfers + 1)
