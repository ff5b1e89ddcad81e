"""Bytes of transactions and headers: RLP as on Ethereum, and the fixed-width record of a transaction.

Record of a transaction, 217 bytes, big-endian; the link, the journal and the store carry it as it is:

    hash 32 | sender 20 | to 20 | nonce 8 | gas 8 | gas price 32 | value 32 | r 32, s 32, parity 1
"""

from collections.abc import Iterator
from functools import lru_cache
from struct import Struct
from struct import error as StructError

from cairn.domain.crypto import keccak256, recover_sender
from cairn.domain.errors import Corrupt, InvalidField, InvalidSignature, NotReplayProtected
from cairn.domain.types import MAX_UINT64, MAX_UINT256, Address, BlockHash, Header, Tx, TxHash

_RECORD = Struct(">32s20s20sQQ32s32s65s")
TX_RECORD_SIZE = _RECORD.size
_pack_record = _RECORD.pack
_unpack_record = _RECORD.unpack

_V_OF_NO_CHAIN = (0, 1, 27, 28)

# RLP marks a string of n bytes, n up to 55, with 0x80 + n (so 0xa0: 32 bytes, 0x94: 20 bytes), a list with 0xc0 + n,
# and a longer one, up to 255 bytes, with 0xf8 and n.
_PREFIX = [bytes([0x80 + length]) for length in range(56)]
_SMALL = [b"\x80"] + [bytes([number]) for number in range(1, 128)]


def _encode_uint(number: int) -> bytes:
    """RLP of an integer of at most 55 bytes: big-endian without leading zeros."""
    if number < 128:
        return _SMALL[number]
    size = (number.bit_length() + 7) >> 3
    return _PREFIX[size] + number.to_bytes(size, "big")


def _decode_list(raw: bytes, count: int) -> tuple[list[bytes], list[int]]:
    """The `count` strings of a flat list, and where each begins. Raises `ValueError` unless `raw` is canonical."""
    at, end = _decode_length(raw, 0, 0xC0)
    if end != len(raw):
        raise ValueError(f"the list takes {end} bytes of {len(raw)}")
    items: list[bytes] = []
    places: list[int] = []
    while at < end:
        first = raw[at]
        if first < 0x80:
            start, after = at, at + 1
        elif first <= 0xB7:
            start, after = at + 1, at + 1 + first - 0x80
        else:
            start, after = _decode_length(raw, at, 0x80)
        if after > end:
            raise ValueError("an item is cut short")
        if first == 0x81 and raw[start] < 0x80:
            raise ValueError("a single byte below 0x80 has a prefix")
        if len(items) == count:
            # Also bounds the work on a hostile input.
            raise ValueError(f"the list has more than {count} items")
        items.append(raw[start:after])
        places.append(at)
        at = after
    if len(items) != count:
        raise ValueError(f"the list has {len(items)} items, not {count}")
    return items, places


def _decode_length(raw: bytes, at: int, offset: int) -> tuple[int, int]:
    """Where the content of the item at `at` starts and ends; its first byte must be in `offset`'s range of 64."""
    if at >= len(raw) or not offset <= raw[at] < offset + 64:
        raise ValueError(f"no {'list' if offset == 0xC0 else 'string'} at byte {at}")
    size = raw[at] - offset
    start = at + 1
    if size > 55:
        start += size - 55
        digits = raw[at + 1 : start]
        size = int.from_bytes(digits, "big")
        if len(digits) != start - at - 1 or digits[0] == 0 or size < 56:
            raise ValueError(f"the length at byte {at} is not canonical")
    return start, start + size


def _decode_uint(item: bytes, limit: int) -> int:
    if item[:1] == b"\0":
        raise ValueError("an integer has leading zeros")
    number = int.from_bytes(item, "big")
    if number > limit:
        raise ValueError(f"an integer is above {limit}")
    return number


def _decode_word(item: bytes) -> bytes:
    """The 32 bytes of an integer that is written without its leading zeros."""
    if item[:1] == b"\0":
        raise ValueError("an integer has leading zeros")
    if len(item) > 32:
        raise ValueError(f"an integer is above {MAX_UINT256}")
    return item.rjust(32, b"\0")


def encode_transfer(nonce: int, gas_price: int, gas: int, to: Address, value: int) -> bytes:
    """The six items that the signed and the unsigned transaction share; the sixth, the data, is empty."""
    return b"".join(
        (_encode_uint(nonce), _encode_uint(gas_price), _encode_uint(gas), b"\x94", to, _encode_uint(value), b"\x80")
    )


@lru_cache(maxsize=16)
def _chain_items(chain_id: int) -> tuple[bytes, bytes, bytes]:
    """What EIP-155 appends: the last three items of the signing payload, and v for parity 0 and 1."""
    v = 2 * chain_id + 35
    return _encode_uint(chain_id) + b"\x80\x80", _encode_uint(v), _encode_uint(v + 1)


def _list(body: bytes) -> bytes:
    # No list of ours has more than 181 bytes, so one of these two forms always fits.
    size = len(body)
    return bytes((0xF8, size)) + body if size > 55 else bytes((0xC0 + size,)) + body


def signing_list(transfer: bytes, chain_id: int) -> bytes:
    """What is hashed and signed, from the shared six items."""
    return _list(transfer + _chain_items(chain_id)[0])


def signed_list(transfer: bytes, signature: bytes, chain_id: int) -> bytes:
    """The raw transaction, from the shared six items."""
    r, s = signature[:32], signature[32:64]
    return _list(
        b"".join(
            (
                transfer,
                _chain_items(chain_id)[1 + signature[64]],
                # r and s are integers: one in 256 has a leading zero byte, which RLP drops.
                b"\xa0" + r if r[0] else _encode_uint(int.from_bytes(r, "big")),
                b"\xa0" + s if s[0] else _encode_uint(int.from_bytes(s, "big")),
            )
        )
    )


def encode_tx(tx: Tx, chain_id: int) -> bytes:
    """The raw signed transaction, as `eth_sendRawTransaction` takes it; its keccak-256 is the hash."""
    return signed_list(encode_transfer(tx.nonce, tx.gas_price, tx.gas, tx.to, tx.value), tx.signature, chain_id)


def decode_tx(raw: bytes, chain_id: int) -> Tx:
    """Read a raw signed transaction and recover its sender. Raises `InvalidField` or `InvalidSignature`."""
    try:
        items, places = _decode_list(raw, 9)
        if not items[3]:
            raise InvalidField("to", "is missing, and this chain has no contracts that could be created")
        if items[5]:
            raise InvalidField("data", "must be empty: this chain has no contracts that it could be for")
        nonce, gas = _decode_uint(items[0], MAX_UINT64), _decode_uint(items[2], MAX_UINT64)
        gas_price, value = _decode_uint(items[1], MAX_UINT256), _decode_uint(items[4], MAX_UINT256)
        v = _decode_uint(items[6], MAX_UINT256)
        r_and_s = _decode_word(items[7]) + _decode_word(items[8])
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


def encode_header(header: Header) -> bytes:
    """The canonical header: an RLP list of its eight fields, in their order."""
    return _list(
        b"".join(
            (
                _encode_uint(header.height),
                b"\xa0",
                header.previous_hash,
                _encode_uint(header.timestamp),
                b"\xa0",
                header.tx_root,
                b"\xa0",
                header.state_root,
                _encode_uint(header.gas_used),
                b"\x94",
                header.proposer,
                _encode_uint(header.chain_id),
            )
        )
    )


def decode_header(raw: bytes) -> Header:
    """Read a canonical header. Raises `Corrupt`: only our own bytes come here."""
    try:
        items, _ = _decode_list(raw, 8)
        for index, size in ((1, 32), (3, 32), (4, 32), (6, 20)):
            if len(items[index]) != size:
                raise ValueError(f"field {index} has {len(items[index])} bytes, expected {size}")
        height, timestamp, gas_used, chain_id = (_decode_uint(items[index], MAX_UINT64) for index in (0, 2, 5, 7))
    except ValueError as error:
        raise Corrupt(f"a stored header cannot be read: {error}") from None
    return Header(height, BlockHash(items[1]), timestamp, items[3], items[4], gas_used, Address(items[6]), chain_id)


def block_hash(header: Header) -> BlockHash:
    return BlockHash(keccak256(encode_header(header)))
