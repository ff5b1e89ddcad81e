"""RLP and records: the published example, and every way to be not canonical, in geth's words."""

from contextlib import suppress
from typing import NamedTuple

import pytest
import rlp  # type: ignore[import-untyped]

from cairn.domain.crypto import CURVE_ORDER, keccak256
from cairn.domain.errors import Corrupt, DataTooLong, InvalidField, InvalidSignature, NotReplayProtected
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.transactions import (
    TX_RECORD_SIZE,
    build_tx,
    decode_record,
    decode_records,
    decode_tx,
    encode_record,
    encode_tx,
    encode_unsigned,
    gas_in_record,
    rebuild_tx,
    sign_draft,
    signing_bytes,
    split_records,
)
from cairn.domain.types import ACCESS_LIST, DYNAMIC_FEE, LEGACY, MAX_UINT64, MAX_UINT256, Address, Draft, Tx

CHAIN_ID = 1337
BASE_FEE = 10**9
SENDER, KEY = DEV_KEYS[0]
TO = Address(b"\x35" * 20)
TX = sign_draft(Draft(SENDER, TO, 10**18, 21_000, 10**9, 7), KEY, CHAIN_ID)
LISTED = sign_draft(Draft(SENDER, TO, 10**18, 21_000, 10**9, 7, ACCESS_LIST), KEY, CHAIN_ID)
DYNAMIC = sign_draft(Draft(SENDER, TO, 10**18, 21_000, BASE_FEE + 5, 7, DYNAMIC_FEE, 2 * BASE_FEE, 5), KEY, CHAIN_ID)


class Kind(NamedTuple):
    """A transaction of one type, with its items and geth's name of it and of each of them."""

    tx: Tx
    items: list[object]
    name: str
    fields: list[str]

    def raw(self, items: list[object] | None = None) -> bytes:
        kind = bytes((self.tx.kind,)) if self.tx.kind else b""
        encoded: bytes = rlp.encode(self.items if items is None else items)
        return kind + encoded

    def raw_with(self, field: str, item: object) -> bytes:
        """The transaction with one of its items changed."""
        index = self.fields.index(field)
        return self.raw([*self.items[:index], item, *self.items[index + 1 :]])


def kind_of(tx: Tx, name: str, fields: str, *first: object) -> Kind:
    r, s, parity = (
        int.from_bytes(tx.signature[:32], "big"),
        int.from_bytes(tx.signature[32:64], "big"),
        tx.signature[64],
    )
    middle: list[object] = [21_000, bytes(TO), 10**18, b""]
    last: list[object] = [[], parity] if tx.kind else [2 * CHAIN_ID + 35 + parity]
    return Kind(tx, [*first, *middle, *last, r, s], name, fields.split())


SIGNED = "Gas To Value Data AccessList V R S"
LEGACY_KIND = kind_of(TX, "LegacyTx", "Nonce GasPrice Gas To Value Data V R S", 7, 10**9)
LISTED_KIND = kind_of(LISTED, "AccessListTx", f"ChainID Nonce GasPrice {SIGNED}", CHAIN_ID, 7, 10**9)
DYNAMIC_KIND = kind_of(
    DYNAMIC, "DynamicFeeTx", f"ChainID Nonce GasTipCap GasFeeCap {SIGNED}", CHAIN_ID, 7, 5, 2 * BASE_FEE
)
TYPED = [LISTED_KIND, DYNAMIC_KIND]
KINDS = [LEGACY_KIND, *TYPED]
RAW = LEGACY_KIND.raw()
TIP = "maxPriorityFeePerGas"
V = 2 * CHAIN_ID + 35 + TX.signature[64]


def named(kind: object) -> str | None:
    return kind.name if isinstance(kind, Kind) else None


def decode(raw: bytes) -> Tx:
    return decode_tx(raw, CHAIN_ID, BASE_FEE)


def test_the_published_example_of_eip_155() -> None:
    draft = Draft(SENDER, TO, 10**18, 21_000, 20 * 10**9, 9)
    payload = signing_bytes(LEGACY, encode_unsigned(draft, 9, 1), 1)
    assert keccak256(payload).hex() == "daf5a779ae972f972197303d7b574746c7ef83eadac0f2791ad23db92e4c8e53"
    r = 18515461264373351373200002665853028612451056578545711640558177340181847433846
    s = 46948507304638947509940763649030358759909902576025900602547168820602576006531
    raw = rlp.encode([9, 20 * 10**9, 21_000, bytes(TO), 10**18, b"", 37, r, s])
    tx = decode_tx(raw, 1, 0)
    assert tx.sender.hex() == "9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f"
    assert encode_tx(tx, 1) == raw


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_a_raw_transaction_is_read_back(kind: Kind) -> None:
    assert encode_tx(kind.tx, CHAIN_ID) == kind.raw()
    assert decode(kind.raw()) == kind.tx


@pytest.mark.parametrize("size", [54, 55, 56, 57])
def test_the_length_of_a_list_takes_a_byte_of_its_own_from_56_bytes_on(size: int) -> None:
    # All but r and s take 29 bytes of chain 1, and each of those one more than it has digits. Not every r is a point.
    s_bytes = (size - 31) // 2
    r_bytes = size - 31 - s_bytes
    for tail in range(256):
        r = int.from_bytes(b"\x80" * (r_bytes - 1) + bytes((tail,)), "big")
        s = int.from_bytes(b"\x80" * s_bytes, "big")
        raw = rlp.encode([0, 0, 21_000, bytes(TO), 0, b"", 37, r, s])
        assert len(raw) - (1 if size < 56 else 2) == size
        with suppress(InvalidSignature):
            assert encode_tx(decode_tx(raw, 1, 0), 1) == raw
            break
    else:
        pytest.fail("no r is a point of the curve")


@pytest.mark.parametrize(
    ("base_fee", "price"), [(0, 5), (7, 12), (2 * BASE_FEE - 6, 2 * BASE_FEE - 1), (2 * BASE_FEE, 2 * BASE_FEE)]
)
def test_the_price_of_type_2_is_base_fee_and_tip_up_to_the_cap(base_fee: int, price: int) -> None:
    assert decode_tx(DYNAMIC_KIND.raw(), CHAIN_ID, base_fee).gas_price == price


@pytest.mark.parametrize("kind", KINDS, ids=named)
@pytest.mark.parametrize(
    ("field", "item", "why"),
    [
        ("Nonce", MAX_UINT64 + 1, "input string too long for uint64"),
        ("Gas", MAX_UINT64 + 1, "input string too long for uint64"),
        ("Nonce", b"\0", "non-canonical integer (leading zero bytes) for uint64"),
        ("Value", b"\0\1", "non-canonical integer (leading zero bytes) for *big.Int"),
        ("R", b"\0" + b"\1" * 32, "non-canonical integer (leading zero bytes) for *big.Int"),
        ("To", b"\x35" * 19, "input string too short for common.Address"),
        ("To", b"\x35" * 21, "input string too long for common.Address"),
        ("Nonce", [], "expected input string or byte for uint64"),
        ("Data", [b"x" * 60], "expected input string or byte for []uint8"),
    ],
)
def test_an_item_out_of_shape_is_refused(kind: Kind, field: str, item: object, why: str) -> None:
    with pytest.raises(InvalidField) as caught:
        decode(kind.raw_with(field, item))
    assert caught.value.detail == f"rlp: {why}, decoding into (types.{kind.name}).{field}"


GO_TYPES = {"Nonce": "uint64", "Gas": "uint64", "To": "common.Address", "Data": "[]uint8"}


@pytest.mark.parametrize(
    ("kind", "field"), [(kind, field) for kind in KINDS for field in kind.fields if field != "AccessList"], ids=named
)
def test_every_item_has_the_name_and_type_that_geth_gives_it(kind: Kind, field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        decode(kind.raw_with(field, []))
    what = f"{GO_TYPES.get(field, '*big.Int')}, decoding into (types.{kind.name}).{field}"
    assert caught.value.why == f"expected input string or byte for {what}"


@pytest.mark.parametrize("kind", TYPED, ids=named)
def test_an_access_list_that_is_a_string_is_refused(kind: Kind) -> None:
    with pytest.raises(InvalidField) as caught:
        decode(kind.raw_with("AccessList", b""))
    where = f"decoding into (types.{kind.name}).AccessList"
    assert caught.value.detail == f"rlp: expected input list for types.AccessList, {where}"


@pytest.mark.parametrize(
    ("kind", "field", "item", "ours", "why"),
    [
        (LEGACY_KIND, "GasPrice", MAX_UINT256 + 1, "gasPrice", "max fee per gas higher than 2^256-1"),
        (LEGACY_KIND, "Value", MAX_UINT256 + 1, "value", "value higher than 2^256-1"),
        (LISTED_KIND, "GasPrice", MAX_UINT256 + 1, "gasPrice", "max fee per gas higher than 2^256-1"),
        (LISTED_KIND, "Value", MAX_UINT256 + 1, "value", "value higher than 2^256-1"),
        (DYNAMIC_KIND, "GasFeeCap", b"x" * 60, "maxFeePerGas", "max fee per gas higher than 2^256-1"),
        (DYNAMIC_KIND, "Value", MAX_UINT256 + 1, "value", "value higher than 2^256-1"),
        (DYNAMIC_KIND, "GasTipCap", MAX_UINT256 + 1, TIP, "max priority fee per gas higher than 2^256-1"),
        (DYNAMIC_KIND, "GasTipCap", 2 * BASE_FEE + 1, TIP, "max priority fee per gas higher than max fee per gas"),
    ],
    ids=named,
)
def test_amounts_above_their_bound_are_refused_by_field(
    kind: Kind, field: str, item: object, ours: str, why: str
) -> None:
    with pytest.raises(InvalidField) as caught:
        decode(kind.raw_with(field, item))
    assert (caught.value.field, caught.value.why) == (ours, why)


@pytest.mark.parametrize("kind", [LEGACY, ACCESS_LIST, DYNAMIC_FEE])
def test_the_largest_fields_are_read_back(kind: int) -> None:
    caps = (MAX_UINT256, MAX_UINT256) if kind == DYNAMIC_FEE else ()
    tx = sign_draft(Draft(SENDER, TO, MAX_UINT256, MAX_UINT64, MAX_UINT256, MAX_UINT64, kind, *caps), KEY, CHAIN_ID)
    assert decode(encode_tx(tx, CHAIN_ID)) == tx
    assert decode_record(encode_record(tx)) == tx


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_a_missing_recipient_is_refused(kind: Kind) -> None:
    with pytest.raises(InvalidField, match="no contracts") as caught:
        decode(kind.raw_with("To", b""))
    assert caught.value.field == "to"


@pytest.mark.parametrize("kind", KINDS, ids=named)
@pytest.mark.parametrize("size", [257, 70_000])
def test_more_data_than_any_chain_takes_is_refused(kind: Kind, size: int) -> None:
    with pytest.raises(DataTooLong, match=f"the data has {size} bytes; no chain takes more than 256"):
        decode(kind.raw_with("Data", b"x" * size))
    with pytest.raises(DataTooLong, match=f"the data has {size} bytes"):
        sign_draft(with_data(kind.tx, b"x" * size), KEY, CHAIN_ID)


def with_data(tx: Tx, data: bytes) -> Draft:
    return Draft(tx.sender, tx.to, tx.value, tx.gas, tx.gas_price, tx.nonce, tx.kind, tx.max_fee, tx.max_tip, data)


@pytest.mark.parametrize("kind", KINDS, ids=named)
@pytest.mark.parametrize("data", [b"\0", b"\x7f", b"\x80", b"invoice 4711", b"x" * 55, b"x" * 56, b"x" * 256])
def test_data_is_signed_and_read_back(kind: Kind, data: bytes) -> None:
    tx = sign_draft(with_data(kind.tx, data), KEY, CHAIN_ID)
    raw = encode_tx(tx, CHAIN_ID)
    assert (tx.data, tx.sender, raw.count(data)) == (data, SENDER, 1) or len(data) == 1
    assert (tx.hash, decode(raw)) == (keccak256(raw), tx)
    assert rebuild_tx(tx, CHAIN_ID, BASE_FEE) == tx
    with pytest.raises(InvalidSignature):
        build_tx(with_data(kind.tx, b"!" + data[1:]), tx.signature, CHAIN_ID)


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_a_record_has_a_tail_only_if_there_is_data(kind: Kind) -> None:
    plain, long = kind.tx, sign_draft(with_data(kind.tx, b"x" * 256), KEY, CHAIN_ID)
    short = sign_draft(with_data(kind.tx, b"\0"), KEY, CHAIN_ID)
    records = [encode_record(tx) for tx in (plain, short, plain, long, short)]
    assert [len(record) - TX_RECORD_SIZE for record in records] == [0, 3, 0, 258, 3]
    joined = b"".join(records)
    assert list(split_records(joined)) == records
    assert list(decode_records(joined)) == [plain, short, plain, long, short]
    assert decode_record(memoryview(records[3])) == long


@pytest.mark.parametrize("data", [b"x", b"x" * 256])
def test_a_record_whose_tail_is_cut_or_too_long_is_corrupt(data: bytes) -> None:
    record = encode_record(sign_draft(with_data(TX, data), KEY, CHAIN_ID))
    at = TX_RECORD_SIZE
    lengths = (0, 257, 65_535)
    wrong = [record[:end] for end in range(at, len(record))] + [record + b"x"]
    wrong += [record[:at] + size.to_bytes(2, "big") + record[at + 2 :] for size in lengths]
    for changed in [*wrong, encode_record(TX) + record[at:]]:
        with pytest.raises(Corrupt):
            decode_record(changed)
    with pytest.raises(Corrupt):
        list(decode_records(encode_record(TX) + record[:-1]))


@pytest.mark.parametrize("kind", TYPED, ids=named)
def test_an_access_list_with_entries_is_refused(kind: Kind) -> None:
    with pytest.raises(InvalidField, match="no contracts") as caught:
        decode(kind.raw_with("AccessList", [[bytes(TO), []]]))
    assert caught.value.field == "accessList"


@pytest.mark.parametrize(
    ("v", "have"),
    [
        (V + 2, "1338"),
        (V - 2, "1336"),
        (37, "1"),
        (35, "0"),
        (34, "none, for v is 34,"),
        (2**70, "5"),
        (b"x" * 50_000, "more than"),
    ],
)
def test_a_signature_for_another_chain_is_refused(v: object, have: str) -> None:
    with pytest.raises(InvalidSignature, match=f"invalid chain id for signer: have {have}.* want 1337"):
        decode(LEGACY_KIND.raw_with("V", v))


@pytest.mark.parametrize("kind", TYPED, ids=named)
@pytest.mark.parametrize(
    ("chain", "have"), [(1, "1"), (0, "0"), (MAX_UINT256, str(MAX_UINT256)), (b"x" * 50_000, "more than")]
)
def test_a_typed_transaction_for_another_chain_is_refused(kind: Kind, chain: object, have: str) -> None:
    with pytest.raises(InvalidSignature, match=f"invalid chain id for signer: have {have}.* want 1337"):
        decode(kind.raw_with("ChainID", chain))


@pytest.mark.parametrize("v", [0, 1, 27, 28])
def test_a_signature_for_no_chain_is_refused(v: int) -> None:
    with pytest.raises(NotReplayProtected, match=f"v is {v}, which names no chain"):
        decode(LEGACY_KIND.raw_with("V", v))


@pytest.mark.parametrize("kind", KINDS, ids=named)
@pytest.mark.parametrize(
    ("field", "item"),
    [("R", 0), ("S", 0), ("R", CURVE_ORDER), ("S", CURVE_ORDER - 1), ("R", MAX_UINT256 + 1), ("S", MAX_UINT256 + 1)],
)
def test_a_signature_that_no_key_makes_is_refused(kind: Kind, field: str, item: int) -> None:
    with pytest.raises(InvalidSignature, match="invalid transaction v, r, s values"):
        decode(kind.raw_with(field, item))


@pytest.mark.parametrize("kind", TYPED, ids=named)
@pytest.mark.parametrize("v", [2, 27, 37, b"x" * 50_000])
def test_a_typed_transaction_with_a_parity_above_1_is_refused(kind: Kind, v: object) -> None:
    with pytest.raises(InvalidSignature, match=r"invalid transaction v, r, s values: v is .*, not 0 or 1"):
        decode(kind.raw_with("V", v))


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"\x80", "expected input list for types.LegacyTx"),
        (b"\xbf", "expected input list for types.LegacyTx"),
        (b"\xc0", "too few elements for types.LegacyTx"),
        (rlp.encode(LEGACY_KIND.items[:8]), "too few elements for types.LegacyTx"),
        (rlp.encode([*LEGACY_KIND.items, b""]), "input list has too many elements for types.LegacyTx"),
        (RAW + b"\0", "input contains more than one value"),
        (RAW[:-1], "value size exceeds available input length"),
        (b"\xf8", "unexpected EOF"),
        (b"\xf9\x01", "unexpected EOF"),
        (b"\xf8\x01\x80", "non-canonical size information for types.LegacyTx"),
        (b"\xf9\x00\x40" + b"\x80" * 64, "non-canonical size information for types.LegacyTx"),
        (b"\xc1\x81", "element is larger than containing list"),
        (b"\xc2\x82\x80", "element is larger than containing list"),
        (b"\xc2\x81\x05", "non-canonical size information for uint64, decoding into (types.LegacyTx).Nonce"),
        (b"\xc3\xb8\x01\x80", "non-canonical size information for uint64, decoding into (types.LegacyTx).Nonce"),
        (b"\xc1\xb8", "unexpected EOF"),
        (b"\xc1\xc0", "expected input string or byte for uint64, decoding into (types.LegacyTx).Nonce"),
        (b"\x02\x80", "expected input list for types.DynamicFeeTx"),
        (b"\x01\xc0", "too few elements for types.AccessListTx"),
        (b"\x02" + rlp.encode(DYNAMIC_KIND.items[:11]), "too few elements for types.DynamicFeeTx"),
        (DYNAMIC_KIND.raw([*DYNAMIC_KIND.items, b""]), "input list has too many elements for types.DynamicFeeTx"),
        (DYNAMIC_KIND.raw() + b"\0", "input contains more than one value"),
        (DYNAMIC_KIND.raw()[:-1], "value size exceeds available input length"),
    ],
)
def test_only_the_canonical_encoding_is_read(raw: bytes, why: str) -> None:
    with pytest.raises(InvalidField) as caught:
        decode(raw)
    assert (caught.value.field, caught.value.why) == ("rlp", why)


@pytest.mark.parametrize("raw", [b"", b"\x01", b"\x02", b"\x7f"])
def test_a_raw_transaction_of_no_or_one_byte_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidField) as caught:
        decode(raw)
    assert (caught.value.field, caught.value.why) == ("type", "typed transaction too short")


@pytest.mark.parametrize("kind", [0, 3, 4, 0x7F])
def test_types_other_than_1_and_2_are_refused(kind: int) -> None:
    with pytest.raises(InvalidField, match=f"transaction type not supported: type {kind:#x};") as caught:
        decode(bytes((kind,)) + rlp.encode(DYNAMIC_KIND.items))
    assert caught.value.field == "type"


def test_a_raw_transaction_of_any_length_is_refused_quickly() -> None:
    with pytest.raises(InvalidField, match="too many elements"):
        # A list of a million empty strings.
        decode(b"\xfa" + (1_000_000).to_bytes(3, "big") + b"\x80" * 1_000_000)


def test_a_record_has_a_fixed_width_and_the_drawn_layout() -> None:
    record = encode_record(TX)
    assert len(record) == TX_RECORD_SIZE == 282
    assert record == (
        TX.hash
        + TX.sender
        + TX.to
        + (7).to_bytes(8, "big")
        + (21_000).to_bytes(8, "big")
        + (10**9).to_bytes(32, "big")
        + (10**18).to_bytes(32, "big")
        + TX.signature
        + bytes(65)
    )
    assert decode_record(record) == TX


def test_a_record_of_type_2_ends_with_its_caps() -> None:
    record = encode_record(DYNAMIC)
    assert record[217:] == b"\2" + (2 * BASE_FEE).to_bytes(32, "big") + (5).to_bytes(32, "big")
    assert decode_record(record) == DYNAMIC
    assert decode_record(encode_record(LISTED)) == LISTED


def test_a_record_of_no_type_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="of type 3"):
        decode_record(encode_record(DYNAMIC)[:217] + b"\3" + bytes(64))


def test_a_record_may_be_a_part_of_a_larger_buffer() -> None:
    frame = memoryview(b"head" + encode_record(TX) + b"tail")
    assert decode_record(frame[4:-4]) == TX
    assert isinstance(decode_record(frame[4:-4]).hash, bytes)


def test_records_follow_each_other() -> None:
    txs = [TX, LISTED, DYNAMIC]
    assert list(decode_records(b"".join(map(encode_record, txs)))) == txs


@pytest.mark.parametrize("size", [0, 281, 283])
def test_a_record_of_another_size_is_corrupt(size: int) -> None:
    with pytest.raises(Corrupt, match=f"has {size} bytes, expected 282"):
        decode_record((encode_record(TX) * 2)[:size])


@pytest.mark.parametrize("data", [b"", b"\x00", b"invoice 4711", bytes(100) + b"\xff" * 156])
def test_the_gas_in_a_record_is_that_of_its_transaction(data: bytes) -> None:
    tx = sign_draft(Draft(DEV_KEYS[0][0], DEV_KEYS[1][0], 1, 30_000, 10**9, 0, data=data), DEV_KEYS[0][1], 1337)
    assert gas_in_record(encode_record(tx)) == tx.gas_used
