"""RLP and records: the published example, and every way to be not canonical."""

import pytest
import rlp  # type: ignore[import-untyped]

from cairn.domain.codec import (
    TX_RECORD_SIZE,
    decode_record,
    decode_tx,
    encode_record,
    encode_transfer,
    encode_tx,
    signing_list,
)
from cairn.domain.crypto import CURVE_ORDER, keccak256
from cairn.domain.errors import Corrupt, InvalidField, InvalidSignature, NotReplayProtected
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.txs import sign_draft
from cairn.domain.types import MAX_UINT64, MAX_UINT256, Address, Draft

CHAIN_ID = 1337
SENDER, KEY = DEV_KEYS[0]
TO = Address(b"\x35" * 20)
TX = sign_draft(Draft(SENDER, TO, 10**18, 21_000, 10**9, 7), KEY, CHAIN_ID)
RAW = encode_tx(TX, CHAIN_ID)
V = 2 * CHAIN_ID + 35 + TX.signature[64]
R, S = int.from_bytes(TX.signature[:32], "big"), int.from_bytes(TX.signature[32:64], "big")
ITEMS: list[object] = [7, 10**9, 21_000, bytes(TO), 10**18, b"", V, R, S]


def raw_with(index: int, item: object) -> bytes:
    """The transaction with one of its nine items changed."""
    raw: bytes = rlp.encode([*ITEMS[:index], item, *ITEMS[index + 1 :]])
    return raw


def test_the_published_example_of_eip_155() -> None:
    payload = signing_list(encode_transfer(9, 20 * 10**9, 21_000, TO, 10**18), 1)
    assert keccak256(payload).hex() == "daf5a779ae972f972197303d7b574746c7ef83eadac0f2791ad23db92e4c8e53"
    r = 18515461264373351373200002665853028612451056578545711640558177340181847433846
    s = 46948507304638947509940763649030358759909902576025900602547168820602576006531
    raw = rlp.encode([9, 20 * 10**9, 21_000, bytes(TO), 10**18, b"", 37, r, s])
    tx = decode_tx(raw, 1)
    assert tx.sender.hex() == "9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f"
    assert encode_tx(tx, 1) == raw


def test_a_raw_transaction_is_read_back() -> None:
    assert rlp.encode(ITEMS) == RAW
    assert decode_tx(RAW, CHAIN_ID) == TX


@pytest.mark.parametrize(
    ("index", "item", "why"),
    [
        (0, MAX_UINT64 + 1, "above"),
        (1, MAX_UINT256 + 1, "above"),
        (2, MAX_UINT64 + 1, "above"),
        (4, MAX_UINT256 + 1, "above"),
        (7, MAX_UINT256 + 1, "above"),
        (8, MAX_UINT256 + 1, "above"),
        (0, b"\0", "leading zeros"),
        (4, b"\0\1", "leading zeros"),
        (7, b"\0" + R.to_bytes(32, "big"), "leading zeros"),
        (3, b"\x35" * 19, "20 bytes"),
        (3, b"\x35" * 21, "20 bytes"),
        (0, [], "no string at byte"),
        (4, b"x" * 60, "above"),
    ],
)
def test_an_item_out_of_shape_is_refused(index: int, item: object, why: str) -> None:
    with pytest.raises(InvalidField, match=why) as caught:
        decode_tx(raw_with(index, item), CHAIN_ID)
    assert caught.value.field == "rlp"


@pytest.mark.parametrize(("index", "item", "field"), [(3, b"", "to"), (5, b"\x01", "data"), (5, b"x" * 70_000, "data")])
def test_what_is_for_contracts_is_refused_by_its_field(index: int, item: bytes, field: str) -> None:
    with pytest.raises(InvalidField, match="no contracts") as caught:
        decode_tx(raw_with(index, item), CHAIN_ID)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("v", "have"), [(V + 2, "1338"), (V - 2, "1336"), (37, "1"), (35, "0"), (34, "none, for v is 34,"), (2**70, "5")]
)
def test_a_signature_for_another_chain_is_refused(v: int, have: str) -> None:
    with pytest.raises(InvalidSignature, match=f"invalid chain id for signer: have {have}.* want 1337"):
        decode_tx(raw_with(6, v), CHAIN_ID)


@pytest.mark.parametrize("v", [0, 1, 27, 28])
def test_a_signature_for_no_chain_is_refused(v: int) -> None:
    with pytest.raises(NotReplayProtected, match=f"v is {v}, which names no chain"):
        decode_tx(raw_with(6, v), CHAIN_ID)


@pytest.mark.parametrize(("index", "item"), [(7, 0), (8, 0), (7, CURVE_ORDER), (8, CURVE_ORDER - S)])
def test_a_signature_that_no_key_makes_is_refused(index: int, item: int) -> None:
    with pytest.raises(InvalidSignature):
        decode_tx(raw_with(index, item), CHAIN_ID)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "no list at byte 0"),
        (b"\x80", "no list at byte 0"),
        (b"\x01", "no list at byte 0"),
        (b"\xc0", "0 items, not 9"),
        (rlp.encode(ITEMS[:8]), "8 items, not 9"),
        (rlp.encode([*ITEMS, b""]), "more than 9 items"),
        (RAW + b"\0", "bytes of"),
        (RAW[:-1], "bytes of"),
        (b"\xf8", "not canonical"),
        (b"\xf9\x01", "not canonical"),
        (b"\xf8\x01\x80", "not canonical"),
        (b"\xf9\x00\x40" + b"\x80" * 64, "not canonical"),
        (b"\xc1\x81", "cut short"),
        (b"\xc2\x82\x80", "cut short"),
        (b"\xc2\x81\x05", "has a prefix"),
        (b"\xc3\xb8\x01\x80", "not canonical"),
        (b"\xc1\xb8", "not canonical"),
        (b"\xc1\xc0", "no string at byte 1"),
    ],
)
def test_only_the_canonical_encoding_is_read(raw: bytes, why: str) -> None:
    with pytest.raises(InvalidField, match=why):
        decode_tx(raw, CHAIN_ID)


def test_a_raw_transaction_of_any_length_is_refused_quickly() -> None:
    with pytest.raises(InvalidField, match="more than 9 items"):
        # A list of a million empty strings.
        decode_tx(b"\xfa" + (1_000_000).to_bytes(3, "big") + b"\x80" * 1_000_000, CHAIN_ID)


def test_a_record_has_a_fixed_width_and_the_drawn_layout() -> None:
    record = encode_record(TX)
    assert len(record) == TX_RECORD_SIZE == 217
    assert record == (
        TX.hash
        + TX.sender
        + TX.to
        + (7).to_bytes(8, "big")
        + (21_000).to_bytes(8, "big")
        + (10**9).to_bytes(32, "big")
        + (10**18).to_bytes(32, "big")
        + TX.signature
    )
    assert decode_record(record) == TX


def test_a_record_may_be_a_part_of_a_larger_buffer() -> None:
    frame = memoryview(b"head" + encode_record(TX) + b"tail")
    assert decode_record(frame[4:-4]) == TX
    assert isinstance(decode_record(frame[4:-4]).hash, bytes)


def test_a_record_holds_the_largest_fields() -> None:
    tx = sign_draft(Draft(SENDER, TO, MAX_UINT256, MAX_UINT64, MAX_UINT256, MAX_UINT64), KEY, CHAIN_ID)
    assert decode_record(encode_record(tx)) == tx


@pytest.mark.parametrize("size", [0, 216, 218])
def test_a_record_of_another_size_is_corrupt(size: int) -> None:
    with pytest.raises(Corrupt, match=f"has {size} bytes, expected 217"):
        decode_record((encode_record(TX) * 2)[:size])
