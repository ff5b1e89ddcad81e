"""What can be checked of a block alone: header, transactions, their references and the signature."""

from collections import Counter

from cairn.domain.certificates import (
    CheckedCertificates,
    Step,
    engine_chain_id,
    first_validators,
    lone_certificate,
)
from cairn.domain.errors import Corrupt, InvalidProof, Rejected
from cairn.domain.genesis import Genesis
from cairn.domain.headers import block_hash
from cairn.domain.merkle import tx_root
from cairn.domain.transactions import decode_record, encode_record, rebuild_tx
from cairn.domain.types import BlockHeader, Tx
from cairn.store import keys
from cairn.store.rocks import Database
from cairn.store.verification.findings import Findings, shown

Chunk = tuple[bytes, list[Tx]]
"""A stored chunk, and the transactions in it."""


class BlockChecks:
    """Checks blocks one by one, in any order."""

    def __init__(self, database: Database, genesis: Genesis, steps: list[Step], first: int, found: Findings) -> None:
        """`first` is the lowest height that is checked: what is before it may be gone."""
        self._database = database
        self._rules = genesis.rules
        self._first = first
        self._found = found
        self._signatures = _Signatures(genesis, steps) if genesis.signer is not None else None
        self.expected: Counter[str] = Counter()
        """By column family: how many entries the blocks have that were checked."""

    def check(self, height: int) -> int:
        """Returns how many transactions the block has, as far as it can be read."""
        found = self._found
        header: BlockHeader | None = None
        with found.noted(keys.HEADERS, height):
            header = self._check_header(height)
        txs: list[Tx] = []
        with found.noted(keys.TXS, height):
            chunks = read_chunks(self._database, height)
            txs = [tx for _, part in chunks for tx in part]
            self._check_records(height, chunks)
        self.expected[keys.TX_INDEX] += len(txs)
        with found.noted(keys.TX_HASHES, height):
            self._check_hashes(height, header, txs)
        with found.noted(keys.REFERENCES, height):
            self._check_references(height, txs)
        if self._signatures is not None and header is not None:
            with found.noted(keys.SIGNATURES, height):
                self._check_signature(self._signatures, height, header)
        return len(txs)

    def _check_header(self, height: int) -> BlockHeader:
        self.expected[keys.HEADERS] += 1
        self.expected[keys.BLOCK_INDEX] += 1
        key = keys.encode_height(height)
        hashed, header = keys.decode_stored_header(_read(self._database, keys.HEADERS, key, "the header"))
        if block_hash(header) != hashed:
            raise Corrupt(f"the header has the hash 0x{block_hash(header).hex()}, and is stored with 0x{hashed.hex()}")
        if header.height != height:
            raise Corrupt(f"the header is that of block {header.height}")
        indexed = self._database.get(keys.BLOCK_INDEX, hashed)
        if indexed != key:
            self._found.add(keys.BLOCK_INDEX, f"0x{hashed.hex()} leads to {shown(indexed)}, not here", height)
        if height > self._first:
            before = self._database.get(keys.HEADERS, keys.encode_height(height - 1))
            # One that is missing has a finding of its own.
            if before is not None and keys.decode_stored_hash(before) != header.previous_hash:
                raise Corrupt(f"the header does not follow the stored block {height - 1}")
        return header

    def _check_records(self, height: int, chunks: list[Chunk]) -> None:
        """Check each transaction's signature, hash and fields, and that its chunk has nothing else."""
        self.expected[keys.TXS] += len(chunks)
        for number, (stored, txs) in enumerate(chunks):
            with self._found.noted(keys.TXS, height):
                if keys.encode_chunk([self._rebuilt(tx) for tx in txs]) != stored:
                    raise Corrupt(f"chunk {number} has other bytes than its transactions")

    def _rebuilt(self, tx: Tx) -> bytes:
        """The record of a transaction, from nothing but what its sender signed."""
        try:
            again = rebuild_tx(tx, self._rules.chain_id, self._rules.gas_price)
        except Rejected as error:
            raise Corrupt(f"transaction 0x{tx.hash.hex()} is not valid: {error.detail}") from error
        if again.hash != tx.hash:
            raise Corrupt(f"transaction 0x{tx.hash.hex()} has fields that give the hash 0x{again.hash.hex()}")
        return encode_record(again)

    def _check_hashes(self, height: int, header: BlockHeader | None, txs: list[Tx]) -> None:
        self.expected[keys.TX_HASHES] += 1
        stored = _read(self._database, keys.TX_HASHES, keys.encode_height(height), "the list of transaction hashes")
        hashes = [stored[at : at + keys.HASH_SIZE] for at in range(0, len(stored), keys.HASH_SIZE)]
        if header is not None and (tx_root(hashes) != header.tx_root or len(hashes) != header.tx_count):
            raise Corrupt("the list of transaction hashes is not the one that the header commits to")
        if len(txs) == len(hashes) and hashes != [tx.hash for tx in txs]:
            raise Corrupt("the list of transaction hashes is not that of the transactions")

    def _check_references(self, height: int, txs: list[Tx]) -> None:
        references = list(keys.reference_keys(height, enumerate(txs)))
        if not references:
            return
        references.append(keys.encode_height(height))
        self.expected[keys.REFERENCES] += len(references)
        for key in references:
            if (stored := self._database.get(keys.REFERENCES, key)) != b"":
                raise Corrupt(f"the entry 0x{key.hex()} is {shown(stored)}")

    def _check_signature(self, signatures: "_Signatures", height: int, header: BlockHeader) -> None:
        if height == 0:
            return
        self.expected[keys.SIGNATURES] += 1
        key = keys.encode_height(height)
        signatures.check(header, _read(self._database, keys.SIGNATURES, key, "the signature"))


class _Signatures:
    """Checks the signatures of a chain that one node makes alone."""

    def __init__(self, genesis: Genesis, steps: list[Step]) -> None:
        self._chain_id, self._first = engine_chain_id(genesis), first_validators(genesis)
        self._steps = steps
        self._checked = CheckedCertificates(genesis)

    def check(self, header: BlockHeader, signature: bytes) -> None:
        try:
            self._checked.check(lone_certificate(header, signature, self._chain_id, self._first, self._steps))
        except InvalidProof as refusal:
            raise Corrupt(f"the signature is not valid: {refusal}") from None


def read_chunks(database: Database, height: int) -> list[Chunk]:
    """A block's transactions as they are stored. Raises `Corrupt`."""
    hashes = _read(database, keys.TX_HASHES, keys.encode_height(height), "the list of transaction hashes")
    count = len(hashes) // keys.HASH_SIZE
    chunks: list[Chunk] = []
    for number in range(keys.chunk_count(count)):
        stored = _read(database, keys.TXS, keys.encode_location(height, number), f"chunk {number} of the transactions")
        records = keys.split_chunk(stored)
        if len(records) != keys.chunk_records(count, number):
            raise Corrupt(f"chunk {number} has {len(records)} transactions")
        chunks.append((stored, list(map(decode_record, records))))
    return chunks


def _read(database: Database, family: str, key: bytes, what: str) -> bytes:
    value = database.get(family, key)
    if value is None:
        raise Corrupt(f"{what} is missing")
    return value
