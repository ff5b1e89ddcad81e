"""Bytes of block headers: Ethereum's, with the sixteen fields of London, in RLP. A block's hash is their keccak-256.

Five fields have no meaning here, and have the value that Ethereum's own code expects for an empty one. `receiptsRoot`
is the root over the accounts that the block touches, `mixHash` that over all earlier blocks. The format's version, the
chain id and the number of transactions are in `extraData`, so that the hash covers them too.
"""

from functools import lru_cache

from cairn.domain.crypto import keccak256
from cairn.domain.errors import Corrupt
from cairn.domain.rlp import Shape, decode_list, decode_uint, encode_list, encode_uint
from cairn.domain.types import Address, BlockHash, BlockHeader

NO_UNCLES = bytes.fromhex("1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347")
"""keccak-256 of the empty list in RLP."""
EMPTY_BLOOM = bytes(256)
"""Transfers write no logs."""
NO_NONCE = bytes(8)

HEADERS_KEPT = 1_024
"""Size of the cache: most reads are of a few of the newest blocks."""

_FORMAT = b"cairn\x03"
"""What `extraData` starts with; the last byte is the version of the header's format."""
_CHAIN_ID_BYTES, _COUNT_BYTES = 8, 4
_EXTRA_SIZE = len(_FORMAT) + _CHAIN_ID_BYTES + _COUNT_BYTES

_EXTRA_PREFIX = bytes((0x80 + _EXTRA_SIZE,))
_UNCLES_ITEM = b"\xa0" + NO_UNCLES
_BLOOM_AND_DIFFICULTY_ITEMS = b"\xb9\x01\x00" + EMPTY_BLOOM + b"\x80"
_NONCE_ITEM = b"\x88" + NO_NONCE
_NUMBERS_AT = len(b"\xf9\2\0") + 5 * 33 + 21 + len(_BLOOM_AND_DIFFICULTY_ITEMS)
"""Where the height is: what is before it always has the same size."""
_ZERO, _SMALL = 0x80, 0x7F
"""In RLP, the integer 0, and the largest that is a byte by itself."""
_SHAPE = Shape(
    "Header",
    (
        ("ParentHash", "common.Hash"),
        ("UncleHash", "common.Hash"),
        ("Coinbase", "common.Address"),
        ("Root", "common.Hash"),
        ("TxHash", "common.Hash"),
        ("ReceiptHash", "common.Hash"),
        ("Bloom", "types.Bloom"),
        ("Difficulty", "*big.Int"),
        ("Number", "*big.Int"),
        ("GasLimit", "uint64"),
        ("GasUsed", "uint64"),
        ("Time", "uint64"),
        ("Extra", "[]uint8"),
        ("MixDigest", "common.Hash"),
        ("Nonce", "types.BlockNonce"),
        ("BaseFee", "*big.Int"),
    ),
)
_SIZES = ((0, 32), (2, 20), (3, 32), (4, 32), (5, 32), (12, _EXTRA_SIZE), (13, 32))


def extra_data(header: BlockHeader) -> bytes:
    return _FORMAT + header.chain_id.to_bytes(_CHAIN_ID_BYTES, "big") + header.tx_count.to_bytes(_COUNT_BYTES, "big")


def encode_header(header: BlockHeader) -> bytes:
    """The header as go-ethereum's `types.Header` encodes it."""
    # In the order of `_SHAPE`. What has a fixed size has its prefix before it: 0xa0 for 32 bytes, 0x94 for 20.
    return encode_list(
        b"".join(
            (
                b"\xa0",
                header.previous_hash,
                _UNCLES_ITEM,
                b"\x94",
                header.proposer,
                b"\xa0",
                header.state_root,
                b"\xa0",
                header.tx_root,
                b"\xa0",
                header.changes_root,
                _BLOOM_AND_DIFFICULTY_ITEMS,
                encode_uint(header.height),
                encode_uint(header.gas_limit),
                encode_uint(header.gas_used),
                encode_uint(header.timestamp),
                _EXTRA_PREFIX,
                extra_data(header),
                b"\xa0",
                header.history_root,
                _NONCE_ITEM,
                encode_uint(header.base_fee),
            )
        )
    )


@lru_cache(maxsize=HEADERS_KEPT)
def decode_header(raw: bytes) -> BlockHeader:
    """Read a header of ours. Raises `Corrupt`: only our own bytes come here."""
    try:
        items, _ = decode_list(raw, 0, _SHAPE)
        for index, size in _SIZES:
            if len(items[index]) != size:
                raise ValueError(f"field {index} has {len(items[index])} bytes, expected {size}")
        height, gas_limit, gas_used, timestamp = (decode_uint(items, index, 8, _SHAPE) for index in range(8, 12))
        header = BlockHeader(
            height=height,
            previous_hash=BlockHash(items[0]),
            timestamp=timestamp,
            tx_root=items[4],
            changes_root=items[5],
            state_root=items[3],
            history_root=items[13],
            gas_used=gas_used,
            proposer=Address(items[2]),
            chain_id=int.from_bytes(items[12][len(_FORMAT) : -_COUNT_BYTES], "big"),
            gas_limit=gas_limit,
            base_fee=decode_uint(items, 15, 32, _SHAPE),
            tx_count=int.from_bytes(items[12][-_COUNT_BYTES:], "big"),
        )
        if encode_header(header) != raw:
            raise ValueError("an unused field has an unexpected value")
    except ValueError as error:
        raise Corrupt(f"a stored header cannot be read: {error}") from None
    return header


def skim_header(raw: bytes, start: int) -> tuple[int, int, int]:
    """Gas used, timestamp and number of transactions of a header of ours that begins at `start`. Raises `Corrupt`.

    It takes about a tenth of the time of `decode_header`, as nothing else is checked.
    """
    try:
        # Behind the height and the gas limit.
        used_at = _integer_end(raw, _integer_end(raw, start + _NUMBERS_AT))
        time_at = _integer_end(raw, used_at)
        extra_at = _integer_end(raw, time_at)
        end = extra_at + len(_EXTRA_PREFIX) + _EXTRA_SIZE
        is_there = raw[extra_at] == _EXTRA_PREFIX[0] and end <= len(raw)
    except IndexError:
        is_there = False
    if not is_there:
        raise Corrupt(f"a stored header of {len(raw) - start} bytes has no extra data in its place")
    tx_count = int.from_bytes(raw[end - _COUNT_BYTES : end])
    return _integer(raw, used_at, time_at), _integer(raw, time_at, extra_at), tx_count


def _integer(raw: bytes, at: int, end: int) -> int:
    return raw[at] & _SMALL if end == at + 1 else int.from_bytes(raw[at + 1 : end])


def _integer_end(raw: bytes, at: int) -> int:
    """Where the integer ends that is at `at`. A small one is its first byte; otherwise that tells how many follow."""
    first = raw[at]
    return at + 1 if first <= _ZERO else at + 1 + first - _ZERO


def block_hash(header: BlockHeader) -> BlockHash:
    return BlockHash(keccak256(encode_header(header)))
