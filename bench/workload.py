"""The load: funded accounts, their genesis, and transfers signed ahead of time as ready HTTP requests."""

import multiprocessing
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

import msgspec

from cairn.domain.crypto import address_of_key, keccak256
from cairn.domain.genesis import DEV_SIGNER, Genesis
from cairn.domain.transactions import sign_draft
from cairn.domain.types import DYNAMIC_FEE, LEGACY, Address, Draft, Tx, TxHash, intrinsic_gas

CHAIN_ID = 1337
GAS_PRICE = 10**9
BLOCK_GAS_LIMIT = 210_000_000
GENESIS_TIMESTAMP = 1_700_000_000
BALANCE = 10**24
MAX_VALUE = 10**15

_CHUNK = 1_000


@dataclass(frozen=True, slots=True)
class Submission:
    """A POST /tx as it goes over the wire, and the transaction in it."""

    request: bytes
    tx: Tx

    @property
    def tx_hash(self) -> TxHash:
        """What the node must answer with."""
        return self.tx.hash


@lru_cache(maxsize=100_000)
def account(index: int) -> tuple[Address, bytes]:
    """The address and the private key of a funded account; the same on every run."""
    key = keccak256(b"cairn bench account %d" % index)
    return address_of_key(key), key


def bench_genesis(accounts: int) -> Genesis:
    return Genesis(
        chain_id=CHAIN_ID,
        timestamp=GENESIS_TIMESTAMP,
        gas_price=GAS_PRICE,
        block_gas_limit=BLOCK_GAS_LIMIT,
        alloc={account(index)[0]: BALANCE for index in range(accounts)},
        signer=DEV_SIGNER,
    )


def presign(
    count: int,
    accounts: int,
    first: int = 0,
    *,
    to_strangers: bool = False,
    kinds: Sequence[int] = (LEGACY,),
    data: bytes = b"",
) -> list[Submission]:
    """Transfers `first` to `first + count` of the endless sequence in which the accounts take turns.

    They pay each other, or each time somebody whom the chain has never seen. `kinds` are the types of the
    transactions, one after the other and each for an equal part of them. All carry `data`.
    """
    part = -(-count // len(kinds))
    chunks = [
        (start, min(_CHUNK, end - start), accounts, to_strangers, kind, data)
        for begin, kind in zip(range(first, first + count, part), kinds, strict=True)
        for end in (min(begin + part, first + count),)
        for start in range(begin, end, _CHUNK)
    ]
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        return [submission for chunk in pool.starmap(_presign_chunk, chunks, chunksize=1) for submission in chunk]


def _presign_chunk(
    start: int, count: int, accounts: int, to_strangers: bool, kind: int, data: bytes
) -> list[Submission]:
    return [_presign_one(index, accounts, to_strangers, kind, data) for index in range(start, start + count)]


def sign_transfer(index: int, accounts: int, to_strangers: bool = False, kind: int = LEGACY, data: bytes = b"") -> Tx:
    """The one at `index` of the sequence."""
    random = Random(index)
    sender, key = account(index % accounts)
    stranger, known = Address(random.randbytes(20)), random.randrange(accounts)
    draft = Draft(
        sender=sender,
        to=stranger if to_strangers else account(known)[0],
        value=random.randrange(1, MAX_VALUE),
        gas=intrinsic_gas(data),
        gas_price=GAS_PRICE,
        nonce=index // accounts,
        kind=kind,
        # What libraries fill in: twice the base fee, and no tip, which all transfers here do without.
        max_fee=2 * GAS_PRICE if kind == DYNAMIC_FEE else 0,
        data=data,
    )
    return sign_draft(draft, key, CHAIN_ID)


def _presign_one(index: int, accounts: int, to_strangers: bool, kind: int, data: bytes) -> Submission:
    return submission_of(sign_transfer(index, accounts, to_strangers, kind, data))


def submission_of(tx: Tx) -> Submission:
    fields: dict[str, str | int] = {
        "from": f"0x{tx.sender.hex()}",
        "to": f"0x{tx.to.hex()}",
        "value": tx.value,
        "nonce": tx.nonce,
        "gas": tx.gas,
        "signature": f"0x{tx.signature.hex()}",
    }
    if tx.kind != LEGACY:
        fields["type"] = tx.kind
    if tx.kind == DYNAMIC_FEE:
        fields |= {"maxFeePerGas": tx.max_fee, "maxPriorityFeePerGas": tx.max_tip}
    if tx.data:
        fields["data"] = f"0x{tx.data.hex()}"
    body = msgspec.json.encode(fields)
    head = (
        f"POST /tx HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return Submission(head.encode() + body, tx)


def lookup(tx_hash: TxHash) -> bytes:
    return b"GET /tx/0x%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % tx_hash.hex().encode()
