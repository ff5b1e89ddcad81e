"""A header's bytes: Ethereum's, and nothing else is read."""

import msgspec
import pytest
import rlp  # type: ignore[import-untyped]
from eth_utils.crypto import keccak

from cairn.domain.errors import Corrupt
from cairn.domain.headers import block_hash, decode_header, encode_header, skim_header
from cairn.domain.merkle import EMPTY_ROOT
from cairn.domain.types import MAX_UINT64, MAX_UINT256, ZERO_HASH, Address, BlockHeader

HEADER = BlockHeader(
    height=3,
    previous_hash=ZERO_HASH,
    timestamp=1_735_689_600,
    tx_root=b"\x01" * 32,
    changes_root=b"\x0c" * 32,
    history_root=b"\x0d" * 32,
    state_root=b"\x02" * 32,
    gas_used=42_000,
    proposer=Address(b"\x03" * 20),
    chain_id=1337,
    gas_limit=210_000_000,
    base_fee=10**9,
    tx_count=2,
)


def test_a_header_is_read_back() -> None:
    assert decode_header(encode_header(HEADER)) == HEADER


@pytest.mark.parametrize("number", [0, 1, 127, 128, 255, 256, 2**32, MAX_UINT64])
@pytest.mark.parametrize("field", ["height", "gas_limit", "gas_used", "timestamp"])
def test_a_part_is_read_alone_whatever_the_size_of_the_numbers(field: str, number: int) -> None:
    header = msgspec.structs.replace(HEADER, **{field: number})
    parts = header.gas_used, header.timestamp, header.tx_count
    assert skim_header(bytes(32) + encode_header(header), 32) == parts


@pytest.mark.parametrize("count", [0, 1, 256, 65_536, 2**32 - 1])
def test_a_number_of_transactions_is_read_alone(count: int) -> None:
    header = msgspec.structs.replace(HEADER, tx_count=count)
    assert skim_header(encode_header(header), 0) == (header.gas_used, header.timestamp, count)


def test_a_header_without_its_extra_data_is_corrupt_to_whoever_reads_a_part() -> None:
    """Where it ends before that, and where other bytes are in its place. A cut behind it does not matter here."""
    raw = encode_header(HEADER)
    end = raw.index(b"cairn\x03") + 18
    assert skim_header(raw[:end], 0) == (HEADER.gas_used, HEADER.timestamp, HEADER.tx_count)
    for damaged in (*(raw[:size] for size in range(end)), raw[:-90] + bytes(90), bytes(len(raw))):
        with pytest.raises(Corrupt, match="no extra data in its place"):
            skim_header(damaged, 0)


def test_a_hash_is_the_keccak_of_the_bytes() -> None:
    assert block_hash(HEADER) == keccak(encode_header(HEADER))


def test_extra_data_fits_what_ethereum_allows_for_it() -> None:
    assert rlp.decode(encode_header(HEADER))[12] == b"cairn\x03" + (1337).to_bytes(8, "big") + bytes((0, 0, 0, 2))


def test_no_transactions_are_ethereums_empty_root() -> None:
    assert keccak(rlp.encode(b"")) == EMPTY_ROOT


@pytest.mark.parametrize(
    ("index", "item", "why"),
    [
        (0, b"\x01" * 31, "field 0 has 31 bytes, expected 32"),
        (1, b"\x01" * 32, "an unused field has an unexpected value"),
        (2, b"\x01" * 21, "field 2 has 21 bytes, expected 20"),
        (3, b"\x02" * 33, "field 3 has 33 bytes, expected 32"),
        (4, b"", "field 4 has 0 bytes"),
        (5, b"\x01" * 31, "field 5 has 31 bytes, expected 32"),
        (6, bytes(255) + b"\x01", "an unused field has an unexpected value"),
        (7, 1, "an unused field has an unexpected value"),
        (8, 2**64, "input string too long"),
        (11, b"\0\1", "leading zero bytes"),
        (12, b"cairn\x03" + bytes(11), "field 12 has 17 bytes, expected 18"),
        (12, b"cairn\x02" + bytes(12), "an unused field has an unexpected value"),
        (13, b"\x01" * 33, "field 13 has 33 bytes, expected 32"),
        (14, b"\x01" * 8, "an unused field has an unexpected value"),
        (15, MAX_UINT256 + 1, "input string too long"),
    ],
)
def test_a_header_out_of_shape_is_corrupt(index: int, item: object, why: str) -> None:
    items: list[object] = list(rlp.decode(encode_header(HEADER)))
    items[index] = item
    with pytest.raises(Corrupt, match=why):
        decode_header(rlp.encode(items))


GETH_FIELDS = [
    "common.Hash ParentHash",
    "common.Hash UncleHash",
    "common.Address Coinbase",
    "common.Hash Root",
    "common.Hash TxHash",
    "common.Hash ReceiptHash",
    "types.Bloom Bloom",
    "*big.Int Difficulty",
    "*big.Int Number",
    "uint64 GasLimit",
    "uint64 GasUsed",
    "uint64 Time",
    "[]uint8 Extra",
    "common.Hash MixDigest",
    "types.BlockNonce Nonce",
    "*big.Int BaseFee",
]


@pytest.mark.parametrize("index", range(16))
def test_a_field_out_of_shape_has_the_name_and_type_that_geth_gives_it(index: int) -> None:
    items: list[object] = list(rlp.decode(encode_header(HEADER)))
    items[index] = []
    kind, name = GETH_FIELDS[index].split()
    with pytest.raises(Corrupt) as caught:
        decode_header(rlp.encode(items))
    assert str(caught.value).endswith(f"string or byte for {kind}, decoding into (types.Header).{name}")


@pytest.mark.parametrize("raw", [b"", encode_header(HEADER)[:-1], encode_header(HEADER) + b"\0"])
def test_a_cut_header_is_corrupt(raw: bytes) -> None:
    with pytest.raises(Corrupt, match="header cannot be read"):
        decode_header(raw)


@pytest.mark.parametrize("field", ["height", "gas_limit", "gas_used", "timestamp", "base_fee", "chain_id", "tx_count"])
def test_a_negative_field_has_no_hash(field: str) -> None:
    """Else it could share one with a field from 0."""
    with pytest.raises(OverflowError):
        block_hash(msgspec.structs.replace(HEADER, **{field: -125}))
