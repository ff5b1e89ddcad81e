"""Building a transaction from its fields: the signature decides."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from cairn.domain.crypto import CURVE_ORDER, keccak256
from cairn.domain.errors import InvalidField, InvalidSignature
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.transactions import build_tx, encode_tx, rebuild_tx, sign_draft, unsigned_tx
from cairn.domain.types import (
    ACCESS_LIST,
    DYNAMIC_FEE,
    LEGACY,
    MAX_UINT64,
    MAX_UINT256,
    ZERO_ADDRESS,
    Address,
    Draft,
    Tx,
)

CHAIN_ID = 1337
SENDER, KEY = DEV_KEYS[0]
OTHER = DEV_KEYS[1][0]
TX = sign_draft(Draft(SENDER, OTHER, 10**18, 21_000, 10**9, 7), KEY, CHAIN_ID)

LISTED = sign_draft(Draft(SENDER, OTHER, 10**18, 21_000, 10**9, 7, ACCESS_LIST), KEY, CHAIN_ID)


def dynamic(max_fee: int = 20, max_tip: int = 3, price: int = 13, kind: int = DYNAMIC_FEE) -> Tx:
    return sign_draft(Draft(SENDER, OTHER, 10**18, 21_000, price, 7, kind, max_fee, max_tip), KEY, CHAIN_ID)


def build(
    sender: Address = SENDER,
    to: Address = OTHER,
    value: int = 10**18,
    gas: int = 21_000,
    gas_price: int = 10**9,
    nonce: int = 7,
    signature: bytes = TX.signature,
    chain_id: int = CHAIN_ID,
) -> Tx:
    return build_tx(Draft(sender, to, value, gas, gas_price, nonce), signature, chain_id)


def test_a_draft_with_its_senders_signature_is_accepted() -> None:
    assert build() == TX
    assert TX.fee == 21_000 * 10**9
    assert TX.cost == 10**18 + TX.fee


@pytest.mark.parametrize("parity", [0, 1])
def test_both_writings_of_the_parity_give_one_transaction(parity: int) -> None:
    drafts = (Draft(SENDER, OTHER, value, 21_000, 10**9, 7) for value in range(100))
    tx = next(tx for tx in (sign_draft(draft, KEY, CHAIN_ID) for draft in drafts) if tx.signature[64] == parity)
    assert build(value=tx.value, signature=tx.signature[:64] + bytes([27 + parity])) == tx
    assert build(value=tx.value, signature=tx.signature) == tx


@pytest.mark.parametrize("recovery_id", [2, 3, 26, 29, 35, 37, 255])
def test_other_recovery_ids_are_refused(recovery_id: int) -> None:
    with pytest.raises(InvalidSignature, match=f"recovery id is {recovery_id}"):
        build(signature=TX.signature[:64] + bytes([recovery_id]))


@pytest.mark.parametrize("size", [0, 64, 66])
def test_a_signature_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(InvalidSignature, match=f"65 bytes, not {size}"):
        build(signature=(TX.signature * 2)[:size])


def test_the_mirrored_signature_is_refused_so_one_transaction_has_one_hash() -> None:
    s = int.from_bytes(TX.signature[32:64], "big")
    mirrored = TX.signature[:32] + (CURVE_ORDER - s).to_bytes(32, "big") + bytes([1 - TX.signature[64]])
    with pytest.raises(InvalidSignature, match="upper half"):
        build(signature=mirrored)


@pytest.mark.parametrize(
    "changed",
    [
        lambda: build(sender=OTHER),
        lambda: build(to=ZERO_ADDRESS),
        lambda: build(value=10**18 + 1),
        lambda: build(gas=21_001),
        lambda: build(gas_price=10**9 + 1),
        lambda: build(nonce=8),
        lambda: build(chain_id=1338),
        lambda: build(signature=TX.signature[:64] + bytes([1 - TX.signature[64]])),
        lambda: build(sender=Address(SENDER[:19])),
    ],
)
def test_every_field_is_covered_by_the_signature(changed: object) -> None:
    assert callable(changed)
    with pytest.raises(InvalidSignature, match="is by 0x|no key"):
        changed()


@pytest.mark.parametrize(
    ("draft", "field"),
    [
        (Draft(SENDER, Address(b""), 1, 21_000, 1, 0), "to"),
        (Draft(SENDER, Address(bytes(21)), 1, 21_000, 1, 0), "to"),
        (Draft(SENDER, OTHER, -1, 21_000, 1, 0), "value"),
        (Draft(SENDER, OTHER, MAX_UINT256 + 1, 21_000, 1, 0), "value"),
        (Draft(SENDER, OTHER, 1, -1, 1, 0), "gas"),
        (Draft(SENDER, OTHER, 1, MAX_UINT64 + 1, 1, 0), "gas"),
        (Draft(SENDER, OTHER, 1, 21_000, -1, 0), "gasPrice"),
        (Draft(SENDER, OTHER, 1, 21_000, MAX_UINT256 + 1, 0), "gasPrice"),
        (Draft(SENDER, OTHER, 1, 21_000, 1, -1), "nonce"),
        (Draft(SENDER, OTHER, 1, 21_000, 1, MAX_UINT64 + 1), "nonce"),
        # The others may be as low and as high as can be.
        (Draft(SENDER, OTHER, 0, 0, 0, -1), "nonce"),
        (Draft(SENDER, OTHER, MAX_UINT256, MAX_UINT64, MAX_UINT256, MAX_UINT64 + 1), "nonce"),
    ],
)
def test_a_field_that_has_no_room_in_the_record_is_refused_by_name(draft: Draft, field: str) -> None:
    assert draft.nonce is not None
    with pytest.raises(InvalidField) as from_fields:
        build(SENDER, draft.to, draft.value, draft.gas, draft.gas_price, draft.nonce)
    with pytest.raises(InvalidField) as from_draft:
        sign_draft(draft, KEY, CHAIN_ID)
    assert from_fields.value.field == from_draft.value.field == field


@pytest.mark.parametrize(("max_fee", "max_tip"), [(0, 0), (MAX_UINT256, MAX_UINT256)])
def test_caps_may_be_as_high_and_as_low_as_a_price(max_fee: int, max_tip: int) -> None:
    tx = dynamic(max_fee, max_tip)
    assert (tx.kind, tx.max_fee, tx.max_tip) == (DYNAMIC_FEE, max_fee, max_tip)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: dynamic(kind=-1), "type"),
        (lambda: dynamic(kind=3), "type"),
        (lambda: dynamic(max_fee=-1), "maxFeePerGas"),
        (lambda: dynamic(max_fee=MAX_UINT256 + 1), "maxFeePerGas"),
        (lambda: dynamic(max_tip=-1), "maxPriorityFeePerGas"),
        (lambda: dynamic(max_fee=MAX_UINT256, max_tip=-1), "maxPriorityFeePerGas"),
        (lambda: dynamic(max_tip=21), "maxPriorityFeePerGas"),
    ],
)
def test_a_type_or_a_cap_out_of_range_is_refused_by_name(make: Callable[[], Tx], field: str) -> None:
    with pytest.raises(InvalidField) as refusal:
        make()
    assert refusal.value.field == field


@pytest.mark.parametrize("tx", [TX, LISTED, dynamic()])
def test_rebuild_tx_gives_an_equal_transaction(tx: Tx) -> None:
    assert rebuild_tx(tx, CHAIN_ID, base_fee=10) == tx


@pytest.mark.parametrize(
    ("tx", "changed"),
    [
        (TX, {"max_fee": 20, "max_tip": 21}),
        (LISTED, {"max_fee": 20, "max_tip": 21}),
        (dynamic(), {"gas_price": 12}),
        (dynamic(), {"hash": TX.hash}),
    ],
)
def test_rebuild_tx_computes_hash_and_price_anew(tx: Tx, changed: dict[str, Any]) -> None:
    assert rebuild_tx(msgspec.structs.replace(tx, **changed), CHAIN_ID, base_fee=10) == tx


@pytest.mark.parametrize(
    "changed", [{"kind": LEGACY}, {"kind": ACCESS_LIST}, {"max_fee": 21}, {"max_tip": 2}, {"sender": OTHER}]
)
def test_rebuild_tx_refuses_fields_that_were_not_signed(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidSignature):
        rebuild_tx(msgspec.structs.replace(dynamic(), **changed), CHAIN_ID, base_fee=10)


@pytest.mark.parametrize("to", [SENDER, ZERO_ADDRESS])
def test_any_recipient_may_be_named(to: Address) -> None:
    tx = sign_draft(Draft(SENDER, to, MAX_UINT256, MAX_UINT64, MAX_UINT256, MAX_UINT64), KEY, CHAIN_ID)
    assert build(SENDER, to, MAX_UINT256, MAX_UINT64, MAX_UINT256, MAX_UINT64, tx.signature) == tx


def test_a_draft_without_a_nonce_cannot_be_signed() -> None:
    with pytest.raises(InvalidField) as refusal:
        sign_draft(Draft(SENDER, OTHER, 1, 21_000, 1, None), KEY, CHAIN_ID)
    assert refusal.value.field == "nonce"


@pytest.mark.parametrize("signed", [TX, LISTED, dynamic()])
def test_unsigned_tx_has_a_signature_of_zeros(signed: Tx) -> None:
    caps = (signed.max_fee, signed.max_tip)
    draft = Draft(SENDER, OTHER, 10**18, 21_000, signed.gas_price, 7, signed.kind, *caps)
    tried = unsigned_tx(draft, CHAIN_ID)
    assert msgspec.structs.replace(tried, hash=signed.hash, signature=signed.signature) == signed
    assert tried.signature == bytes(65)
    assert tried.hash == keccak256(encode_tx(tried, CHAIN_ID))
    assert unsigned_tx(draft, CHAIN_ID + 1).hash != tried.hash
    with pytest.raises(InvalidField):
        unsigned_tx(msgspec.structs.replace(draft, nonce=None), CHAIN_ID)


def test_a_draft_is_signed_with_its_senders_key_only() -> None:
    with pytest.raises(InvalidField, match="another account") as refusal:
        sign_draft(Draft(OTHER, SENDER, 1, 21_000, 1, 0), KEY, CHAIN_ID)
    assert refusal.value.field == "from"


def test_every_number_may_be_zero() -> None:
    tx = sign_draft(Draft(SENDER, OTHER, 0, 0, 0, 0), KEY, CHAIN_ID)
    assert build(SENDER, OTHER, 0, 0, 0, 0, tx.signature) == tx


def test_without_entropy_a_draft_has_one_signature() -> None:
    draft = Draft(SENDER, OTHER, 10**18, 21_000, 10**9, 7)
    assert sign_draft(draft, KEY, CHAIN_ID) == sign_draft(draft, KEY, CHAIN_ID, entropy=b"") == TX
    assert sign_draft(draft, KEY, CHAIN_ID, entropy=b"\x01" * 32) != TX
