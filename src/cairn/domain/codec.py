"""Bytes of transactions: RLP as on Ethereum, and a fixed-width record.

Record of a transaction, 217 bytes, big-endian; the link, the journal and the store carry it as it is:

    hash 32 | sender 20 | to 20 | nonce 8 | gas 8 | gas price 32 | value 32 | r 32, s 32, parity 1
"""

from collections.abc import Iterator
from functools import lru_cache
from struct import Struct
from struct import error as StructError

from cairn.domain.crypto import keccak256, recover_sender
from cairn.domain.errors import Corrupt, InvalidField, InvalidSignature, NotReplayProtected
from cairn.domain.rlp import decode_list, decode_uint, decode_word, encode_list, encode_uint
from cairn.domain.types import MAX_UINT64, MAX_UINT256, Address, Tx, TxHash

_RECORD = Struct(">32s20s20sQQ32s32s65s")
TX_RECORD_SIZE = _RECORD.size
_pack_record = _RECORD.pack
_unpack_record = _RECORD.unpack

_V_OF_NO_CHAIN = (0, 1, 27, 28)


def encode_transfer(nonce: int, gas_price: int, gas: int, to: Address, value: int) -> bytes:
    """The six items that the signed and the unsigned transaction share; the sixth, the data, is empty."""
    return b"".join(
        (encode_uint(nonce), encode_uint(gas_price), encode_uint(gas), b"\x94", to, encode_uint(value), b"\x80")
    )


@lru_cache(maxsize=16)
def _chain_items(chain_id: int) -> tuple[bytes, bytes, bytes]:
    """What EIP-155 appends: the last three items of the signing payload, and v for parity 0 and 1."""
    v = 2 * chain_id + 35
    return encode_uint(chain_id) + b"\x80\x80", encode_uint(v), encode_uint(v + 1)


def signing_list(transfer: bytes, chain_id: int) -> bytes:
    """What is hashed and signed, from the shared six items."""
    return encode_list(transfer + _chain_items(chain_id)[0])


def signed_list(transfer: bytes, signature: bytes, chain_id: int) -> bytes:
    """The raw transaction, from the shared six items."""
    r, s = signature[:32], signature[32:64]
    return encode_list(
        b"".join(
            (
                transfer,
                _chain_items(chain_id)[1 + signature[64]],
                # r and s are integers: one in 256 has a leading zero byte, which RLP drops.
                b"\xa0" + r if r[0] else encode_uint(int.from_bytes(r, "big")),
                b"\xa0" + s if s[0] else encode_uint(int.from_bytes(s, "big")),
            )
        )
    )


def encode_tx(tx: Tx, chain_id: int) -> bytes:
    """The raw signed transaction, as `eth_sendRawTransaction` takes it; its keccak-256 is the hash."""
    return signed_list(encode_transfer(tx.nonce, tx.gas_price, tx.gas, tx.to, tx.value), tx.signature, chain_id)


def decode_tx(raw: bytes, chain_id: int) -> Tx:
    """Read a raw signed transaction and recover its sender. Raises `InvalidField` or `InvalidSignature`."""
    try:
        items, places = decode_list(raw, 9)
        if not items[3]:
            raise InvalidField("to", "is missing, and this chain has no contracts that could be created")
        if items[5]:
            raise InvalidField("data", "must be empty: this chain has no contracts that it could be for")
        nonce, gas = decode_uint(items[0], MAX_UINT64), decode_uint(items[2], MAX_UINT64)
        gas_price, value = decode_uint(items[1], MAX_UINT256), decode_uint(items[4], MAX_UINT256)
        v = decode_uint(items[6], MAX_UINT256)
        r_and_s = decode_word(items[7]) + decode_word(items[8])
        if len(items[3]) != 20:
            raise ValueError("the recipient is not an address of 20 bytes")
    except ValueError as error:
        raise InvalidField("rlp", str(error)) from None
    parity = v - 2 * chain_id - 35
    if parity not in (0, 1):
        raise _wrong_chain(v, chain_id)
    signature = r_and_s + bytes((parity,))
    # There is one encoding of each transfer only: what was signed is in these very bytes.
    transfer = raw[places[0] : places[6]]
    sender = recover_sender(keccak256(signing_list(transfer, chain_id)), signature)
    return Tx(TxHash(keccak256(raw)), sender, Address(items[3]), nonce, gas, gas_price, value, signature)


def _wrong_chain(v: int, chain_id: int) -> InvalidSignature:
    if v in _V_OF_NO_CHAIN:
        return NotReplayProtected(f"v is {v}, which names no chain: sign it for chain {chain_id}")
    # Worded as Ethereum's nodes do.
    named = str((v - 35) // 2) if v >= 35 else f"none, for v is {v},"
    return InvalidSignature(f"invalid chain id for signer: have {named} want {chain_id}")


def encode_record(tx: Tx) -> bytes:
    return _pack_record(
        tx.hash,
        tx.sender,
        tx.to,
        tx.nonce,
        tx.gas,
        tx.gas_price.to_bytes(32, "big"),
        tx.value.to_bytes(32, "big"),
        tx.signature,
    )


def decode_record(record: bytes | memoryview) -> Tx:
    """Read a record of ours; it is trusted, so the signature is not checked again. Raises `Corrupt`."""
    try:
        tx_hash, sender, to, nonce, gas, gas_price, value, signature = _unpack_record(record)
    except StructError:
        raise Corrupt(f"a transaction record has {len(record)} bytes, expected {TX_RECORD_SIZE}") from None
    return Tx(
        tx_hash,
        sender,
        to,
        nonce,
        gas,
        int.from_bytes(gas_price, "big"),
        int.from_bytes(value, "big"),
        signature,
    )


def decode_records(records: bytes) -> Iterator[Tx]:
    """Read records of ours that follow each other."""
    for start in range(0, len(records), TX_RECORD_SIZE):
        yield decode_record(records[start : start + TX_RECORD_SIZE])
