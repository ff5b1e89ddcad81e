"""Restores a snapshot. Nothing of it is trusted until it is verified against the one trusted hash.

The trusted hash is that of the snapshot's block, so its header can be checked before anything is fetched. The
number of accounts is only claimed, and whether they are the right ones shows only at the end: until then, a false claim
must not fill the disk. So the claim is limited by the number of accounts that the blocks up to that height can have
made, and by the free disk space. The number and the sizes of the parts follow from the claim.

The parts are checked against their digests as they come, so that a bad one can be fetched again; digests and accounts
together against the header's state root at the end. Until then the accounts lie in the store as versions of a height
above the head, which nobody reads; a mark in `meta` says so, and an opening that finds it removes them.
"""

import hashlib
from collections.abc import Iterable

from cairn.domain.errors import Corrupt, InvalidChunk, InvalidSnapshot, Rejected
from cairn.domain.genesis import Genesis, genesis_digest
from cairn.domain.governance import Governance
from cairn.domain.governance_codec import decode_governance
from cairn.domain.headers import block_hash
from cairn.domain.lattice import Lattice
from cairn.domain.merkle import tx_root
from cairn.domain.transactions import TX_RECORD_SIZE, decode_record, encode_record, rebuild_tx
from cairn.domain.transition import BlockOutcome
from cairn.domain.types import EMPTY_ACCOUNT, TRANSFER_GAS, Account, Address, Block, BlockHash, Tx
from cairn.store import keys
from cairn.store.keys import NEVER
from cairn.store.rocks import Batch, Database
from cairn.store.snapshot import ACCOUNT_SIZE, Manifest, Parts, decode_accounts

ROOM_PER_ACCOUNT = 300
"""About 90 bytes in RocksDB's log, the same in a table, and again while tables are merged."""


class Restore:
    """A snapshot that is being restored."""

    def __init__(self, database: Database, manifest: Manifest, trusted: BlockHash, genesis: Genesis) -> None:
        """Raises `InvalidSnapshot` unless the manifest is of the trusted block of this chain."""
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
        if not 0 <= manifest.account_count <= most_accounts(genesis, header.height):
            raise InvalidSnapshot(
                f"the snapshot names {manifest.account_count} accounts; "
                f"the blocks up to {header.height} can have made {most_accounts(genesis, header.height)}"
            )
        self._tx_parts = Parts(header.gas_used // TRANSFER_GAS, TX_RECORD_SIZE)
        self._account_parts = Parts(manifest.account_count, ACCOUNT_SIZE)
        parts = self._tx_parts.count + self._account_parts.count
        if len(manifest.chunks) != parts:
            raise InvalidSnapshot(f"the snapshot has {len(manifest.chunks)} parts; it must have {parts}")
        self._txs: list[Tx] = []
        self._positions: dict[Address, bytearray] = {}
        self._next = 0
        self._lattice = Lattice.empty()
        self._last_address = b""

    @property
    def height(self) -> int:
        return self._header.height

    @property
    def room_bytes(self) -> int:
        """How much disk space its accounts may take, while tables are merged."""
        return self._manifest.account_count * ROOM_PER_ACCOUNT

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
        txs = self._tx_parts.count
        size = self._tx_parts.size_bytes(index) if index < txs else self._account_parts.size_bytes(index - txs)
        if len(chunk) != size:
            raise InvalidSnapshot(f"part {index} of the snapshot has {len(chunk)} bytes; by its manifest it has {size}")
        if index < txs:
            self._add_txs(chunk)
        else:
            self._add_accounts(index, chunk)
        self._next += 1

    def outcome(self) -> BlockOutcome:
        """The snapshot's block with the state that it leaves. Raises `InvalidSnapshot` if the two do not agree."""
        if not self.is_complete:
            raise InvalidSnapshot(f"{self._next} parts of the snapshot are here; it has {len(self._manifest.chunks)}")
        self._check_txs()
        governance, lattice = self._governance(), self._lattice
        if governance is not None:
            lattice = lattice.with_record(None, self._manifest.governance)
        if lattice.root != self._header.state_root:
            raise InvalidSnapshot(
                f"the state in the snapshot has the root 0x{lattice.root.hex()}; "
                f"block {self.height} commits to 0x{self._header.state_root.hex()}"
            )
        # Empty accounts that a transaction names; they are needed for their history only.
        self._write_versions((address, EMPTY_ACCOUNT) for address in list(self._positions))
        return BlockOutcome(Block(self._header, self._hash, tuple(self._txs)), {}, lattice, governance)

    def _add_txs(self, chunk: bytes) -> None:
        for start in range(0, len(chunk), TX_RECORD_SIZE):
            record = chunk[start : start + TX_RECORD_SIZE]
            try:
                tx = decode_record(record)
            except Corrupt as error:
                # The peer is at fault, not our disk.
                raise InvalidSnapshot(f"a transaction of the snapshot cannot be read: {error.detail}") from error
            try:
                again = rebuild_tx(tx, self._rules.chain_id, self._rules.gas_price)
            except Rejected as error:
                raise InvalidSnapshot(f"transaction 0x{tx.hash.hex()} is not valid: {error.detail}") from error
            if encode_record(again) != record:
                raise InvalidSnapshot(f"transaction 0x{tx.hash.hex()} comes under a hash that is not its own")
            self._txs.append(tx)
        self._positions = keys.positions_of(self._txs)

    def _add_accounts(self, index: int, chunk: bytes) -> None:
        if index == self._tx_parts.count:
            self._check_txs()
        accounts: list[tuple[Address, Account]] = []
        for address, account in decode_accounts(chunk):
            if address <= self._last_address or account.is_empty:
                raise InvalidSnapshot(f"account 0x{address.hex()} is empty, or not in its place in the snapshot")
            self._last_address = address
            accounts.append((address, account))
        self._lattice = self._lattice.with_accounts(accounts)
        self._write_versions(accounts)

    def _write_versions(self, accounts: Iterable[tuple[Address, Account]]) -> None:
        batch = Batch(self._database)
        for address, account in accounts:
            # Once only: what is left at the end are those that came with no account.
            used = self._positions.pop(address, b"")
            batch.put(keys.ACCOUNTS, keys.version_key(address, self.height), keys.encode_version(account, NEVER) + used)
        # Unsynced: the batch that makes the block the head is synced, and comes later in the same log.
        self._database.write(batch, sync=False)

    def _check_txs(self) -> None:
        found = tx_root([tx.hash for tx in self._txs])
        if found != self._header.tx_root or len(self._txs) * TRANSFER_GAS != self._header.gas_used:
            raise InvalidSnapshot(
                f"the transactions in the snapshot have the root 0x{found.hex()}; "
                f"block {self.height} commits to 0x{self._header.tx_root.hex()}"
            )

    def _governance(self) -> Governance | None:
        record = self._manifest.governance
        if not record:
            return None
        try:
            return decode_governance(record)
        except Corrupt as error:
            raise InvalidSnapshot(f"the snapshot's validators cannot be read: {error.detail}") from None


def most_accounts(genesis: Genesis, height: int) -> int:
    """The most accounts that there can be: a transfer makes up to two (its sender only if it is free), fees one."""
    transfers = genesis.block_gas_limit // TRANSFER_GAS
    return len(genesis.alloc) + height * (2 * transfers + 1)
