"""Makes a chain of millions of transfers between as many accounts in minutes.

It goes past the rules, but has every key and every record that a node would have written, of the same sizes. Made up
are the signatures, the balances, which never change, and the roots; but not those that are checked when the chain is
opened, of its last blocks.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b, shake_128
from pathlib import Path
from random import Random

from msgspec.structs import replace

from bench.workload import BALANCE, GAS_PRICE, GENESIS_TIMESTAMP, account, bench_genesis
from cairn.domain.certificates import engine_chain_id, sign_block
from cairn.domain.genesis import DEV_SIGNER, Genesis
from cairn.domain.headers import block_hash
from cairn.domain.history import History
from cairn.domain.merkle import NODE_BYTES, root_of, tx_root
from cairn.domain.state_tree import StateTree, record_leaf
from cairn.domain.steps import finish
from cairn.domain.transactions import encode_record
from cairn.domain.types import TRANSFER_GAS, ZERO_ADDRESS, Account, Address, BlockHash, BlockHeader, Tx, TxHash
from cairn.store import keys
from cairn.store.chain import ChainStore
from cairn.store.directory import chain_path
from cairn.store.inspection import CHECKED_LINKS
from cairn.store.keys import NEVER, RECEIVED, SENT, StoredHead
from cairn.store.rocks import Database, WriteBatch
from cairn.store.state_leaves import StateLeaves
from tests.support.signing import KEY

PER_BLOCK = 200
MOST_ACCOUNTS = 1_000_000
MOST_SIGNERS = 5_000
_MADE_UP = bytes(range(1, 65))


@dataclass(frozen=True)
class DeepChain:
    """`stored` transfers, each between two accounts at random of all. The same on every run."""

    stored: int

    @property
    def accounts(self) -> int:
        """As many as transfers, up to a million: so in a small chain, too, a block names hardly any account twice."""
        return min(self.stored, MOST_ACCOUNTS)

    @property
    def signers(self) -> int:
        """Accounts whose keys are known. They send nothing until the measured load does."""
        return min(self.stored // 2, MOST_SIGNERS)

    @property
    def blocks(self) -> int:
        return -(-self.stored // PER_BLOCK)

    @property
    def genesis(self) -> Genesis:
        return bench_genesis(self.signers)

    @cached_property
    def addresses(self) -> list[Address]:
        """All accounts; those whose keys are known come first."""
        strangers = shake_128(b"deep chain").digest(20 * (self.accounts - self.signers))
        signers = [account(index)[0] for index in range(self.signers)]
        return signers + [Address(strangers[at : at + 20]) for at in range(0, len(strangers), 20)]

    def tx_hash(self, index: int) -> TxHash:
        return TxHash(blake2b(b"deep %d" % index, digest_size=32).digest())

    def fill(self, directory: Path) -> None:
        """Make the chain in an empty directory."""
        with closing(ChainStore.open(directory, self.genesis)) as chain:
            head, history = chain.head_hash, chain.history
        with closing(Database.open_primary(chain_path(directory), strict=True)) as database:
            filling = _Filling(self, database, head, history)
            for first in range(0, self.stored, PER_BLOCK):
                filling.add_block(range(first, min(first + PER_BLOCK, self.stored)))
        with closing(ChainStore.open(directory, self.genesis)) as chain:
            chain.save_tree()


@dataclass
class _Filling:
    """What is known of the accounts, by number in `addresses`, while blocks are added."""

    chain: DeepChain
    database: Database
    head: BlockHash
    history: History
    random: Random = field(default_factory=lambda: Random(0))

    def __post_init__(self) -> None:
        count, signers = self.chain.accounts, self.chain.signers
        self.nonces, self.sent, self.received = [0] * count, [NEVER] * count, [NEVER] * count
        self.touched = [NEVER] * count
        self.numbers = [0] * count
        # Those of block 0 are numbered in the order of their addresses.
        for number, which in enumerate(sorted(range(signers), key=lambda which: self.chain.addresses[which]), 1):
            self.numbers[which] = number
            self.touched[which] = 0
        self.size = signers + 1

    def add_block(self, indexes: range) -> None:
        addresses, height = self.chain.addresses, self.history.size
        is_last = indexes.stop == self.chain.stored
        uses: dict[int, bytes] = {}
        txs = []
        for place, index in enumerate(indexes):
            # The first transfers to each account, in turn, so that all of them are there.
            sender = self.random.randrange(self.chain.signers, len(addresses))
            to = index if index < len(addresses) else self.random.randrange(len(addresses))
            uses[sender] = uses.get(sender, b"") + keys.encode_position(keys.use_of(place, SENT))
            uses[to] = uses.get(to, b"") + keys.encode_position(keys.use_of(place, RECEIVED))
            txs.append(self._tx(index, addresses[sender], addresses[to], self.nonces[sender]))
            self.nonces[sender] += 1
        batch = WriteBatch(self.database)
        changes = self._add_versions(batch, height, uses)
        header = self._header(height, len(txs))
        if height > self.chain.blocks - CHECKED_LINKS:
            roots = {"tx_root": tx_root([tx.hash for tx in txs]), "changes_root": root_of(changes)}
            header = replace(header, **roots, state_root=self._state_root() if is_last else bytes(32))
        self._add_txs(batch, header, txs)
        # The next opening finds all of it, or begins again.
        self.database.write(batch, sync=is_last)

    def _tx(self, index: int, sender: Address, to: Address, nonce: int) -> Tx:
        return Tx(self.chain.tx_hash(index), sender, to, nonce, TRANSFER_GAS, GAS_PRICE, 1 + index, _MADE_UP + b"\0")

    def _add_versions(self, batch: WriteBatch, height: int, uses: dict[int, bytes]) -> list[bytes]:
        addresses, suffix = self.chain.addresses, keys.version_suffix(height)
        versions = []
        for number, (which, used) in enumerate(uses.items()):
            if not self.numbers[which]:
                self.numbers[which] = self.size
                self.size += 1
            version = keys.encode_version(
                Account(BALANCE, self.nonces[which]),
                *(self.sent[which], self.received[which], self.touched[which], self.numbers[which], number),
            )
            versions.append((addresses[which] + suffix, version + used))
            self.touched[which] = height
            if used[-1] & SENT:
                self.sent[which] = height
            if used[-1] & RECEIVED:
                self.received[which] = height
        finish(batch.put_sorted_steps(keys.ACCOUNTS, versions))
        changes = [_MADE_UP[:NODE_BYTES]] * len(versions)
        batch.put(keys.CHANGES, keys.encode_height(height), b"".join(changes))
        return changes

    def _header(self, height: int, tx_count: int) -> BlockHeader:
        genesis = self.chain.genesis
        return BlockHeader(
            height=height,
            previous_hash=self.head,
            timestamp=GENESIS_TIMESTAMP + height,
            tx_root=bytes(32),
            changes_root=bytes(32),
            state_root=bytes(32),
            history_root=self.history.root,
            gas_used=TRANSFER_GAS * tx_count,
            proposer=ZERO_ADDRESS,
            chain_id=genesis.chain_id,
            gas_limit=genesis.block_gas_limit,
            base_fee=genesis.gas_price,
            tx_count=tx_count,
        )

    def _state_root(self) -> bytes:
        leaves = StateLeaves()
        for which in sorted(range(self.chain.accounts), key=lambda which: self.chain.addresses[which]):
            state = Account(BALANCE, self.nonces[which])
            leaves.add(self.chain.addresses[which], state, self.numbers[which], self.touched[which])
        return StateTree.from_leaves(leaves.in_order(record_leaf(None))).root

    def _add_txs(self, batch: WriteBatch, header: BlockHeader, txs: Sequence[Tx]) -> None:
        height, self.head = header.height, block_hash(header)
        self.history, nodes = self.history.append(self.head)
        key = keys.encode_height(height)
        batch.put(keys.META, keys.HEAD_KEY, keys.encode_head(StoredHead(height, self.head)))
        batch.put(keys.META, keys.STATE_BLOCK_KEY, self.head)
        batch.put(keys.HEADERS, key, keys.encode_stored_header(self.head, header))
        batch.put(keys.BLOCK_INDEX, self.head, key)
        signed = sign_block(header, self.head, engine_chain_id(self.chain.genesis), DEV_SIGNER, KEY.sign)
        batch.put(keys.SIGNATURES, key, signed.signature)
        for level, index, node in nodes:
            batch.put(keys.HISTORY, keys.encode_history_key(level, index), node)
        batch.put(keys.TX_HASHES, key, b"".join(tx.hash for tx in txs))
        for chunk in range(keys.chunk_count(len(txs))):
            start = chunk * keys.CHUNK_RECORDS
            records = list(map(encode_record, txs[start : start + keys.CHUNK_RECORDS]))
            batch.put(keys.TXS, keys.encode_location(height, chunk), keys.encode_chunk(records))
        locations: list[tuple[bytes, bytes]] = [
            (tx.hash, keys.encode_location(height, position)) for position, tx in enumerate(txs)
        ]
        finish(batch.put_sorted_steps(keys.TX_INDEX, locations))
