"""State snapshots: the whole state after one block, in parts that another node can fetch, check and start from.

    DIR/snapshots/HEIGHT/manifest      what the parts are, and their SHA-256 digests
    DIR/snapshots/HEIGHT/000000 ...    the parts, about 1 MiB each:
        first   the block's transactions, 282 bytes each, in its order
        then    every account that is not empty, in the order of addresses:   address 20 | balance 32 | nonce 8

A snapshot is only ever of a block that changed the state: its hash is the app hash that the validators sign, so all of
its header can be trusted, and through the header's two roots everything else. Of an empty block after it they sign no
hash of ours. The same height gives the same bytes on every node, whatever that node keeps of the past.

All accounts are read for it, so they are summed up and compared with the block's state root: the one moment at which a
running node sees its whole state, and the last one before others start from it.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import chain as chained
from itertools import islice
from pathlib import Path
from struct import Struct

import msgspec

from cairn.domain.errors import Corrupt, InvalidSnapshot, Rejected, StoreUnavailable, reason_of
from cairn.domain.headers import decode_header, encode_header
from cairn.domain.lattice import Lattice
from cairn.domain.transactions import TX_RECORD_SIZE
from cairn.domain.types import Account, Address, Header
from cairn.store.directory import is_directory, make_directory, names_in, sync_directory, sync_file, write_file
from cairn.store.reader import ChainReader

FORMAT = 2
CHUNK_BYTES = 1 << 20
KEPT = 2
"""The newest ones that are kept: a node that fetches the last but one can finish."""
SLICE = 64
"""Accounts that are read and hashed between two pauses: some tenths of a millisecond of work."""

MANIFEST_NAME = "manifest"

_ACCOUNT = Struct(">20s32sQ")
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
    chunks: tuple[bytes, ...]
    """SHA-256 of each part."""

    @property
    def digest(self) -> bytes:
        """Names the snapshot among peers."""
        return hashlib.sha256(encode_manifest(self)).digest()

    def decode_header(self) -> Header:
        """Raises `InvalidSnapshot`."""
        try:
            return decode_header(self.header)
        except (Rejected, Corrupt, ValueError) as error:
            raise InvalidSnapshot(f"the snapshot's header cannot be read: {reason_of(error)}") from None


def encode_manifest(manifest: Manifest) -> bytes:
    return msgspec.msgpack.encode(manifest)


def decode_manifest(raw: bytes) -> Manifest:
    """Raises `InvalidSnapshot`."""
    try:
        manifest = msgspec.msgpack.decode(raw, type=Manifest)
    except msgspec.MsgspecError as error:
        raise InvalidSnapshot(f"the snapshot's manifest cannot be read: {error}") from None
    if encode_manifest(manifest) != raw:
        raise InvalidSnapshot("the snapshot's manifest is not in its one canonical form")
    return manifest


def encode_account(address: Address, account: Account) -> bytes:
    return _ACCOUNT.pack(address, account.balance.to_bytes(32, "big"), account.nonce)


def decode_accounts(chunk: bytes) -> Iterator[tuple[Address, Account]]:
    """The accounts in a part of whole records."""
    for address, balance, nonce in _ACCOUNT.iter_unpack(chunk):
        yield Address(address), Account(int.from_bytes(balance, "big"), nonce)


class Parts(msgspec.Struct, frozen=True):
    """How records of one size are spread over parts: as many as fit in each, the rest in the last."""

    records: int
    record_bytes: int

    @property
    def count(self) -> int:
        return -(-self.records // self._each)

    def size_bytes(self, index: int) -> int:
        return min(self._each, self.records - index * self._each) * self.record_bytes

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
            parts = chained(_cut(reader.records(height), TX_RECORD_SIZE), _cut(accounts, ACCOUNT_SIZE))
            digests = tuple(_save(draft / _chunk_name(index), part) for index, part in enumerate(parts))
            _check_state(accounts.lattice, governance, found[1])
            manifest = Manifest(genesis, encode_header(found[1]), governance, accounts.count, digests)
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
    """The records of all accounts that are not empty, counted and summed up as they are given."""

    def __init__(self, reader: ChainReader, height: int, pause: Pause) -> None:
        self._reader = reader
        self._height = height
        self._pause = pause
        self.count = 0
        self.lattice = Lattice.empty()

    def __iter__(self) -> Iterator[bytes]:
        versions = self._reader.accounts_at(self._height)
        while part := [(address, version.account) for address, version in islice(versions, SLICE)]:
            self._pause()
            self.lattice = self.lattice.with_accounts(part)
            for address, account in part:
                if not account.is_empty:
                    self.count += 1
                    yield encode_account(address, account)


def _check_state(lattice: Lattice, governance: bytes, header: Header) -> None:
    """Raises `Corrupt` unless these are the accounts that the block left."""
    root = (lattice.with_record(None, governance) if governance else lattice).root
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
