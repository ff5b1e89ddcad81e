"""Transactions: what they pay for gas, their bytes (RLP as on Ethereum, and a fixed-width record), their signatures.

Legacy transactions (EIP-155) are a list; the other types are a byte, their type, and a list:

    legacy    nonce, gas price, gas, to, value, data                                       v,      r, s
    type 1    chain id, nonce, gas price, gas, to, value, data, access list                parity, r, s
    type 2    chain id, nonce, max tip, max fee, gas, to, value, data, access list         parity, r, s

What is signed has the chain id and two empty items instead of v, r and s, or nothing instead of parity, r and s.
Data says what a payment is for, and nothing acts on it. The access list is empty: this chain has no use for it.

Record of a transaction, 282 bytes, big-endian; the link, the journal and the store carry it as it is:

    hash 32 | sender 20 | to 20 | nonce 8 | gas 8 | gas price 32 | value 32 | r 32, s 32, parity 1
    | type 1 | max fee 32 | max tip 32

If it has data, 0x80 is added to its type, and a tail follows: length 2 | data.
"""

from collections.abc import Iterator
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from cairn.domain.crypto import address_of_key, keccak256, recover_sender, sign_digest
from cairn.domain.errors import Corrupt, DataTooLong, InvalidField, InvalidSignature, NotReplayProtected
from cairn.domain.rlp import Shape, decode_list, decode_uint, decode_word, encode_list, encode_string, encode_uint
from cairn.domain.types import (
    ACCESS_LIST,
    DYNAMIC_FEE,
    LEGACY,
    MAX_DATA_BYTES,
    MAX_UINT64,
    MAX_UINT256,
    Address,
    Draft,
    Tx,
    TxHash,
    intrinsic_gas,
)

_RECORD = Struct(">32s20s20sQQ32s32s65sB32s32s")
TX_RECORD_SIZE = _RECORD.size
"""Of a transaction without data; otherwise a tail follows."""
_TYPE_AT = Struct(">32s20s20sQQ32s32s65s").size
_HAS_DATA = 0x80
"""Added to the type in the record of a transaction with data."""
_TAIL_HEAD = Struct(">H")
LONGEST_RECORD_SIZE = TX_RECORD_SIZE + _TAIL_HEAD.size + MAX_DATA_BYTES
_pack_record = _RECORD.pack
_unpack_record = _RECORD.unpack
_NO_CAP = bytes(32)
_SENDER_AT, _TO_AT, _NONCE_AT = 32, 52, 72
_PRICE_AT = Struct(">32s20s20sQQ").size

_V_OF_NO_CHAIN = (0, 1, 27, 28)
"""What v is in a legacy signature from before EIP-155, which is valid on every chain."""
_LAST_TYPE = 0x7F
"""EIP-2718 has no type above it, so no type looks like the beginning of a list."""

# Names and types are those of geth's structs: its messages name them, and libraries compare its messages.
_NONCE, _GAS_PRICE, _GAS = ("Nonce", "uint64"), ("GasPrice", "*big.Int"), ("Gas", "uint64")
_TO, _VALUE, _DATA = ("To", "common.Address"), ("Value", "*big.Int"), ("Data", "[]uint8")
_TIP_CAP, _FEE_CAP, _CHAIN_ID = ("GasTipCap", "*big.Int"), ("GasFeeCap", "*big.Int"), ("ChainID", "*big.Int")
_ACCESS_LIST = ("AccessList", "types.AccessList")
_SIGNATURE = (("V", "*big.Int"), ("R", "*big.Int"), ("S", "*big.Int"))
_LEGACY_SHAPE = Shape("LegacyTx", (_NONCE, _GAS_PRICE, _GAS, _TO, _VALUE, _DATA, *_SIGNATURE))
_TYPED_SHAPES = {
    ACCESS_LIST: Shape(
        "AccessListTx", (_CHAIN_ID, _NONCE, _GAS_PRICE, _GAS, _TO, _VALUE, _DATA, _ACCESS_LIST, *_SIGNATURE), 7
    ),
    DYNAMIC_FEE: Shape(
        "DynamicFeeTx", (_CHAIN_ID, _NONCE, _TIP_CAP, _FEE_CAP, _GAS, _TO, _VALUE, _DATA, _ACCESS_LIST, *_SIGNATURE), 8
    ),
}
_ANY_SIZE = 2**64
"""The size limit of an integer whose range is checked after it is read, as geth does with big ones."""

_TYPE_BYTE = (b"", b"\x01", b"\x02")
"""What comes before the list, by type."""
_encode_common = lru_cache(maxsize=1_024)(encode_uint)
"""For the chain id, prices and gas limits: most transactions have the same."""


# Prices.


def effective_price(max_fee: int, max_tip: int, base_fee: int) -> int:
    """What a type 2 transaction pays for a unit of gas (EIP-1559)."""
    return min(max_fee, base_fee + max_tip)


class Terms(NamedTuple):
    """The price fields of a `Draft`."""

    gas_price: int
    kind: int
    max_fee: int = 0
    max_tip: int = 0


def price_terms(
    kind: int | None, gas_price: int | None, max_fee: int | None, max_tip: int | None, base_fee: int
) -> Terms:
    """The terms of a transaction that gives those fields that are not None.

    A missing price means the chain's gas price, a missing tip 0. Raises `InvalidField`.
    """
    if kind is None:
        kind = LEGACY if max_fee is None and max_tip is None else DYNAMIC_FEE
    if kind == DYNAMIC_FEE:
        if gas_price is not None:
            raise InvalidField("gasPrice", "both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified")
        tip = max_tip or 0
        fee = base_fee + tip if max_fee is None else max_fee
        return Terms(effective_price(fee, tip, base_fee), kind, fee, tip)
    if max_fee is not None or max_tip is not None:
        field = "maxPriorityFeePerGas" if max_fee is None else "maxFeePerGas"
        raise InvalidField(field, f"a transaction of type {kind} has no {field}")
    return Terms(base_fee if gas_price is None else gas_price, kind)


def check_caps(max_fee: int, max_tip: int) -> None:
    """Check that the tip is within the maximum fee. Raises `InvalidField`."""
    if max_tip > max_fee:
        raise InvalidField("maxPriorityFeePerGas", "max priority fee per gas higher than max fee per gas")


# RLP.


def encode_unsigned(tx: Tx | Draft, nonce: int, chain_id: int) -> bytes:
    """The items that the signed and the unsigned transaction share."""
    if tx.kind == LEGACY:
        return b"".join(
            (
                encode_uint(nonce),
                _encode_common(tx.gas_price),
                _encode_common(tx.gas),
                b"\x94",
                tx.to,
                encode_uint(tx.value),
                encode_string(tx.data) if tx.data else b"\x80",
            )
        )
    is_dynamic = tx.kind == DYNAMIC_FEE
    return b"".join(
        (
            _encode_common(chain_id),
            encode_uint(nonce),
            _encode_common(tx.max_tip) if is_dynamic else b"",
            _encode_common(tx.max_fee if is_dynamic else tx.gas_price),
            _encode_common(tx.gas),
            b"\x94",
            tx.to,
            encode_uint(tx.value),
            encode_string(tx.data) + b"\xc0" if tx.data else b"\x80\xc0",
        )
    )


@lru_cache(maxsize=16)
def _chain_items(chain_id: int) -> tuple[bytes, bytes, bytes]:
    """What EIP-155 appends: the last three items of the signing payload, and v for parity 0 and 1."""
    v = 2 * chain_id + 35
    return encode_uint(chain_id) + b"\x80\x80", encode_uint(v), encode_uint(v + 1)


def signing_bytes(kind: int, unsigned: bytes, chain_id: int) -> bytes:
    """What is hashed and signed, from the shared items."""
    if kind == LEGACY:
        return encode_list(unsigned + _chain_items(chain_id)[0])
    return _TYPE_BYTE[kind] + encode_list(unsigned)


def signed_bytes(kind: int, unsigned: bytes, signature: bytes, chain_id: int) -> bytes:
    """The raw transaction, from the shared items."""
    r, s, parity = signature[:32], signature[32:64], signature[64]
    # Joined by hand, with the prefixes of fixed sizes written out: each transaction is encoded at least once.
    return _TYPE_BYTE[kind] + encode_list(
        b"".join(
            (
                unsigned,
                encode_uint(parity) if kind else _chain_items(chain_id)[1 + parity],
                # r and s are integers: one in 256 has a leading zero byte, which RLP drops.
                b"\xa0" + r if r[0] else encode_uint(int.from_bytes(r, "big")),
                b"\xa0" + s if s[0] else encode_uint(int.from_bytes(s, "big")),
            )
        )
    )


def encode_tx(tx: Tx, chain_id: int) -> bytes:
    """The raw signed transaction, as `eth_sendRawTransaction` takes it; its keccak-256 is the hash."""
    return signed_bytes(tx.kind, encode_unsigned(tx, tx.nonce, chain_id), tx.signature, chain_id)


def decode_tx(raw: bytes, chain_id: int, base_fee: int) -> Tx:
    """Read a raw signed transaction and recover its sender. Raises `InvalidField` or `InvalidSignature`."""
    if not raw or raw[0] <= _LAST_TYPE:
        return _decode_typed(raw, chain_id, base_fee)
    shape = _LEGACY_SHAPE
    try:
        items, places = decode_list(raw, 0, shape)
        nonce, gas = decode_uint(items, 0, 8, shape), decode_uint(items, 2, 8, shape)
        gas_price, value = decode_uint(items, 1, _ANY_SIZE, shape), decode_uint(items, 4, _ANY_SIZE, shape)
        v = decode_uint(items, 6, _ANY_SIZE, shape)
        r_and_s = decode_word(items, 7, shape) + decode_word(items, 8, shape)
        to, data = items[3], items[5]
        if len(to) != 20 or len(data) > MAX_DATA_BYTES or len(items[1]) > 32 or len(items[4]) > 32:
            _check_recipient(items, 3, shape)
            _check_fields(to, data)
            _check_amount("gasPrice", items[1], "max fee per gas")
            _check_amount("value", items[4], "value")
    except ValueError as error:
        raise InvalidField("rlp", str(error)) from None
    parity = v - 2 * chain_id - 35
    if parity not in (0, 1):
        raise _wrong_chain(v, chain_id)
    signature = r_and_s + bytes((parity,))
    # Each transfer has only one encoding, so what was signed can be taken from these bytes.
    sender = recover_tx_sender(keccak256(signing_bytes(LEGACY, raw[places[0] : places[6]], chain_id)), signature)
    # As `_signed` does: most have no data, and two arguments less are faster than an empty one.
    if data:
        return Tx(TxHash(keccak256(raw)), sender, Address(to), nonce, gas, gas_price, value, signature, data=data)
    return Tx(TxHash(keccak256(raw)), sender, Address(to), nonce, gas, gas_price, value, signature)


def recover_tx_sender(digest: bytes, signature: bytes) -> Address:
    """Who signed a transaction. Raises `InvalidSignature` in the words of geth."""
    try:
        return recover_sender(digest, signature)
    except InvalidSignature as refused:
        raise InvalidSignature(f"invalid transaction v, r, s values: {refused.detail}") from None


def _decode_typed(raw: bytes, chain_id: int, base_fee: int) -> Tx:
    if len(raw) <= 1:
        raise InvalidField("type", "typed transaction too short")
    kind = raw[0]
    shape = _TYPED_SHAPES.get(kind)
    if shape is None:
        raise type_not_supported(kind)
    # A type 2 transaction has one item more, so later items are shifted by one.
    more = kind - ACCESS_LIST
    try:
        items, places = decode_list(raw, 1, shape)
        named, max_tip = decode_uint(items, 0, _ANY_SIZE, shape), decode_uint(items, 2, _ANY_SIZE, shape)
        max_fee, value = decode_uint(items, 2 + more, _ANY_SIZE, shape), decode_uint(items, 5 + more, _ANY_SIZE, shape)
        parity = decode_uint(items, 8 + more, _ANY_SIZE, shape)
        r_and_s = decode_word(items, 9 + more, shape) + decode_word(items, 10 + more, shape)
        nonce, gas = decode_uint(items, 1, 8, shape), decode_uint(items, 3 + more, 8, shape)
        _check_recipient(items, 4 + more, shape)
    except ValueError as error:
        raise InvalidField("rlp", str(error)) from None
    to, data = items[4 + more], items[6 + more]
    _check_fields(to, data, items[7 + more])
    _check_amount("maxFeePerGas" if more else "gasPrice", items[2 + more], "max fee per gas")
    _check_amount("maxPriorityFeePerGas", items[2], "max priority fee per gas")
    _check_amount("value", items[5 + more], "value")
    if named != chain_id:
        raise InvalidSignature(f"invalid chain id for signer: have {_shown(named)} want {chain_id}")
    if parity > 1:
        raise InvalidSignature(f"invalid transaction v, r, s values: v is {_shown(parity)}, not 0 or 1")
    signature = r_and_s + bytes((parity,))
    tx_hash = TxHash(keccak256(raw))
    sender = recover_tx_sender(keccak256(signing_bytes(kind, raw[places[0] : places[8 + more]], chain_id)), signature)
    if not more:
        return Tx(tx_hash, sender, Address(to), nonce, gas, max_fee, value, signature, kind, data=data)
    check_caps(max_fee, max_tip)
    price = effective_price(max_fee, max_tip, base_fee)
    return Tx(tx_hash, sender, Address(to), nonce, gas, price, value, signature, kind, max_fee, max_tip, data)


def type_not_supported(kind: int) -> InvalidField:
    return InvalidField("type", f"transaction type not supported: type {kind:#x}; this chain takes types 0, 1 and 2")


def _check_recipient(items: list[bytes], index: int, shape: Shape) -> None:
    size = len(items[index])
    if size not in (0, 20):
        raise shape.wrong(f"input string too {'short' if size < 20 else 'long'}", index)


def _check_fields(to: bytes, data: bytes, access_list: bytes = b"") -> None:
    if not to:
        raise InvalidField("to", "is missing, and this chain has no contracts that could be created")
    if len(data) > MAX_DATA_BYTES:
        raise _data_too_long(data)
    if access_list:
        raise InvalidField("accessList", "must be empty: this chain has no contracts that it could be for")


def _data_too_long(data: bytes) -> DataTooLong:
    return DataTooLong(f"the data has {len(data)} bytes; no chain takes more than {MAX_DATA_BYTES}")


def _check_amount(field: str, item: bytes, name: str) -> None:
    if len(item) > 32:
        raise InvalidField(field, f"{name} higher than 2^256-1")


def _wrong_chain(v: int, chain_id: int) -> InvalidSignature:
    if v in _V_OF_NO_CHAIN:
        return NotReplayProtected(f"v is {v}, which names no chain: sign it for chain {chain_id}")
    # Worded as Ethereum's nodes do.
    named = _shown((v - 35) // 2) if v >= 35 else f"none, for v is {v},"
    return InvalidSignature(f"invalid chain id for signer: have {named} want {chain_id}")


def _shown(number: int) -> str:
    """An integer for a message, which may be as long as what was sent."""
    return str(number) if number <= MAX_UINT256 else "more than 2^256-1"


# Signatures.


def build_tx(draft: Draft, signature: bytes, chain_id: int) -> Tx:
    """Check the signature over a draft that has its nonce, and compute the hash.

    Raises `InvalidField`, or `InvalidSignature` when it is not the sender's.
    """
    nonce = _validate(draft)
    # Wallets write the parity as 27 or 28, libraries as 0 or 1: one form from here on.
    if signature[64:] in (b"\x1b", b"\x1c"):
        signature = signature[:64] + bytes((signature[64] - 27,))
    kind = draft.kind
    unsigned = encode_unsigned(draft, nonce, chain_id)
    recovered = recover_tx_sender(keccak256(signing_bytes(kind, unsigned, chain_id)), signature)
    if recovered != draft.sender:
        raise InvalidSignature(
            f"the signature over these fields is by 0x{recovered.hex()}, not by 0x{draft.sender.hex()}"
        )
    tx_hash = TxHash(keccak256(signed_bytes(kind, unsigned, signature, chain_id)))
    return _signed(draft, nonce, tx_hash, signature)


def sign_draft(draft: Draft, private_key: bytes, chain_id: int, entropy: bytes = b"") -> Tx:
    """Sign a draft that has its nonce. With `entropy`, the signature differs from every earlier one.

    Raises `InvalidField` when the key is not the sender's.
    """
    if address_of_key(private_key) != draft.sender:
        raise InvalidField("from", "the key is of another account")
    nonce, kind = _validate(draft), draft.kind
    unsigned = encode_unsigned(draft, nonce, chain_id)
    signature = sign_digest(keccak256(signing_bytes(kind, unsigned, chain_id)), private_key, entropy)
    return _signed(draft, nonce, TxHash(keccak256(signed_bytes(kind, unsigned, signature, chain_id))), signature)


def unsigned_tx(draft: Draft, chain_id: int) -> Tx:
    """A draft that has its nonce, to be tried as if it were signed: its signature is all zeros.

    Raises `InvalidField`.
    """
    nonce, signature = _validate(draft), bytes(65)
    raw = signed_bytes(draft.kind, encode_unsigned(draft, nonce, chain_id), signature, chain_id)
    return _signed(draft, nonce, TxHash(keccak256(raw)), signature)


def rebuild_tx(tx: Tx, chain_id: int, base_fee: int) -> Tx:
    """Compute the transaction again from the fields of `tx`: the result is equal, unless they are inconsistent.

    Raises `InvalidField` or `InvalidSignature`.
    """
    is_dynamic = tx.kind == DYNAMIC_FEE
    price = effective_price(tx.max_fee, tx.max_tip, base_fee) if is_dynamic else tx.gas_price
    max_fee, max_tip = (tx.max_fee, tx.max_tip) if is_dynamic else (0, 0)
    draft = Draft(tx.sender, tx.to, tx.value, tx.gas, price, tx.nonce, tx.kind, max_fee, max_tip, tx.data)
    return build_tx(draft, tx.signature, chain_id)


def _signed(draft: Draft, nonce: int, tx_hash: TxHash, signature: bytes) -> Tx:
    sender, to, gas, price, value = draft.sender, draft.to, draft.gas, draft.gas_price, draft.value
    kind, data = draft.kind, draft.data
    if kind == DYNAMIC_FEE:
        caps = draft.max_fee, draft.max_tip
        return Tx(tx_hash, sender, to, nonce, gas, price, value, signature, kind, *caps, data)
    if data:
        return Tx(tx_hash, sender, to, nonce, gas, price, value, signature, kind, data=data)
    return Tx(tx_hash, sender, to, nonce, gas, price, value, signature, kind)


def _validate(draft: Draft) -> int:
    """The nonce. Raises `InvalidField` unless every field fits its place in the record."""
    nonce = draft.nonce
    if nonce is None:
        raise InvalidField("nonce", "a draft is signed once its nonce is known")
    # One expression, since each submission passes here. Which field is wrong is found out only when one is.
    if (
        len(draft.to) == 20
        # Something is left if any of them is negative or has more bits.
        and not (draft.value | draft.gas_price | draft.max_fee) >> 256
        and not (draft.gas | nonce) >> 64
        and LEGACY <= draft.kind <= DYNAMIC_FEE
        and 0 <= draft.max_tip <= draft.max_fee
        and len(draft.data) <= MAX_DATA_BYTES
    ):
        return nonce
    if len(draft.data) > MAX_DATA_BYTES:
        raise _data_too_long(draft.data)
    _validate_caps(draft)
    raise _out_of_range(draft)


def _out_of_range(draft: Draft) -> InvalidField:
    if len(draft.to) != 20:
        return InvalidField("to", f"an address has 20 bytes, not {len(draft.to)}")
    if not 0 <= draft.value <= MAX_UINT256:
        return InvalidField("value", "not between 0 and 2^256-1")
    if not 0 <= draft.gas_price <= MAX_UINT256:
        return InvalidField("gasPrice", "not between 0 and 2^256-1")
    if not 0 <= draft.gas <= MAX_UINT64:
        return InvalidField("gas", "not between 0 and 2^64-1")
    return InvalidField("nonce", "not between 0 and 2^64-1")


def _validate_caps(draft: Draft) -> None:
    if not LEGACY <= draft.kind <= DYNAMIC_FEE:
        raise InvalidField("type", "not 0, 1 or 2")
    if not 0 <= draft.max_fee <= MAX_UINT256:
        raise InvalidField("maxFeePerGas", "not between 0 and 2^256-1")
    if draft.max_tip < 0:
        raise InvalidField("maxPriorityFeePerGas", "not between 0 and 2^256-1")
    check_caps(draft.max_fee, draft.max_tip)


# Records.


def encode_record(tx: Tx) -> bytes:
    kind = tx.kind
    dynamic = kind == DYNAMIC_FEE
    record = _pack_record(
        tx.hash,
        tx.sender,
        tx.to,
        tx.nonce,
        tx.gas,
        tx.gas_price.to_bytes(32),
        tx.value.to_bytes(32),
        tx.signature,
        kind,
        tx.max_fee.to_bytes(32) if dynamic else _NO_CAP,
        tx.max_tip.to_bytes(32) if dynamic else _NO_CAP,
    )
    return _with_tail(record, tx.data) if tx.data else record


def _with_tail(record: bytes, data: bytes) -> bytes:
    marked = bytes((record[_TYPE_AT] + _HAS_DATA,))
    return b"".join((record[:_TYPE_AT], marked, record[_TYPE_AT + 1 :], _TAIL_HEAD.pack(len(data)), data))


def decode_record(record: bytes | memoryview) -> Tx:
    """Read a record of ours; it is trusted, so the signature is not checked again. Raises `Corrupt`."""
    try:
        tx_hash, sender, to, nonce, gas, gas_price, value, signature, kind, max_fee, max_tip = _unpack_record(record)
    except StructError:
        return _decode_long_record(bytes(record))
    price, amount = int.from_bytes(gas_price, "big"), int.from_bytes(value, "big")
    if kind < DYNAMIC_FEE:
        return Tx(tx_hash, sender, to, nonce, gas, price, amount, signature, kind)
    if kind > DYNAMIC_FEE:
        raise Corrupt(f"a transaction record is of type {kind}, and there is none without data")
    fee_cap, tip_cap = int.from_bytes(max_fee, "big"), int.from_bytes(max_tip, "big")
    return Tx(tx_hash, sender, to, nonce, gas, price, amount, signature, kind, fee_cap, tip_cap)


def _decode_long_record(record: bytes) -> Tx:
    """As `decode_record`, for one with data."""
    end = record_end(record, 0)
    if end != len(record):
        raise Corrupt(f"a transaction record has {len(record)} bytes, expected {end}")
    fixed, data = record[:TX_RECORD_SIZE], record[TX_RECORD_SIZE + _TAIL_HEAD.size :]
    tx_hash, sender, to, nonce, gas, gas_price, value, signature, marked, max_fee, max_tip = _unpack_record(fixed)
    kind = marked - _HAS_DATA
    if kind > DYNAMIC_FEE:
        raise Corrupt(f"a transaction record with data is of type {kind}, and there is none")
    price, amount = int.from_bytes(gas_price), int.from_bytes(value)
    fee_cap, tip_cap = (int.from_bytes(max_fee), int.from_bytes(max_tip)) if kind == DYNAMIC_FEE else (0, 0)
    return Tx(tx_hash, sender, to, nonce, gas, price, amount, signature, kind, fee_cap, tip_cap, data)


def price_in_record(record: bytes) -> bytes:
    """The gas price alone, 32 bytes in the order of the numbers, for those who compare thousands of them."""
    return record[_PRICE_AT : _PRICE_AT + 32]


def gas_in_record(record: bytes) -> int:
    """The gas that the transaction uses, for those who add up thousands of them."""
    return intrinsic_gas(record[TX_RECORD_SIZE + _TAIL_HEAD.size :])


def parties_in_record(record: bytes) -> tuple[bytes, bytes]:
    """Sender and recipient alone, for those who look for an address among thousands of transactions."""
    return record[_SENDER_AT:_TO_AT], record[_TO_AT:_NONCE_AT]


def record_end(records: bytes, at: int) -> int:
    """Where the record that begins at `at` ends, with its tail. Raises `Corrupt` when that is not all there."""
    end = at + TX_RECORD_SIZE
    try:
        if records[at + _TYPE_AT] >= _HAS_DATA:
            end += _TAIL_HEAD.size
            size = records[end - 2] << 8 | records[end - 1]
            if not 0 < size <= MAX_DATA_BYTES:
                raise Corrupt(f"a transaction record has {size} bytes of data, expected 1 to {MAX_DATA_BYTES}")
            end += size
    except IndexError:
        raise _cut_off(records, at, end) from None
    if end > len(records):
        raise _cut_off(records, at, end)
    return end


def _cut_off(records: bytes, at: int, end: int) -> Corrupt:
    return Corrupt(f"a transaction record has {len(records) - at} bytes, expected {end - at}")


def decode_records(records: bytes) -> Iterator[Tx]:
    """Read records of ours that follow each other. Raises `Corrupt`."""
    return map(decode_record, split_records(records))


def split_records(records: bytes) -> Iterator[bytes]:
    """The records that follow each other in `records`, each with its tail. Raises `Corrupt`."""
    # Mostly none has a tail: then each type is where it would be, and none is marked. One that has would be the first
    # to be seen, since all before it are where they seem to be.
    if records[_TYPE_AT::TX_RECORD_SIZE].isascii() and len(records) % TX_RECORD_SIZE == 0:
        for at in range(0, len(records), TX_RECORD_SIZE):
            yield records[at : at + TX_RECORD_SIZE]
        return
    at = 0
    while at < len(records):
        end = record_end(records, at)
        yield records[at:end]
        at = end
