"""Validators change only by updates that enough administrators signed, once each and in order."""

import hashlib
import json

import msgspec
import pytest

from cairn.domain import governance
from cairn.domain.crypto import address_of_key, recover_sender
from cairn.domain.errors import Corrupt, InvalidField, InvalidSignature, UpdateRefused
from cairn.domain.genesis import dev_genesis, encode_genesis, genesis_digest, genesis_outcome, parse_genesis
from cairn.domain.governance import (
    MAX_POWER,
    MAX_UPDATE_BYTES,
    MAX_VALIDATORS,
    Admins,
    Governance,
    Validator,
    ValidatorUpdate,
    apply_update,
    check_validator,
    decode_governance,
    decode_update,
    encode_governance,
    encode_update,
    first_governance,
    sign_update,
)
from cairn.domain.types import Address

CHAIN_ID = 7
KEYS = [bytes([number]) * 32 for number in (1, 2, 3)]
ADMINS = Admins(2, tuple(address_of_key(key) for key in KEYS))


def validator(number: int, power: int = 10) -> Validator:
    return Validator(bytes([number]) * 32, power, Address(bytes([number]) * 20), f"v{number}")


START = first_governance([validator(2), validator(1)])


def update(wanted: Validator, sequence: int = 0, keys: list[bytes] | None = None) -> ValidatorUpdate:
    return sign_update(ValidatorUpdate(sequence, wanted), KEYS[:2] if keys is None else keys, CHAIN_ID)


def test_a_validator_is_added_changed_and_removed() -> None:
    added = apply_update(START, ADMINS, update(validator(3)), CHAIN_ID)
    assert [v.name for v in added.validators] == ["v1", "v2", "v3"]
    changed = apply_update(added, ADMINS, update(validator(1, power=99), 1), CHAIN_ID)
    assert [v.power for v in changed.validators] == [99, 10, 10]
    removed = apply_update(changed, ADMINS, update(validator(1, power=0), 2), CHAIN_ID)
    assert [v.name for v in removed.validators] == ["v2", "v3"]
    assert removed.sequence == 3


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (update(validator(3), sequence=1), "sequence"),
        (update(validator(3), keys=KEYS[:1]), "1 of 2 required administrators have signed"),
        (update(validator(9, power=0)), "it removes an unknown validator"),
    ],
)
def test_what_the_rules_refuse(refused: ValidatorUpdate, why: str) -> None:
    with pytest.raises(UpdateRefused, match=why):
        apply_update(START, ADMINS, refused, CHAIN_ID)


def test_the_last_validator_stays() -> None:
    alone = first_governance([validator(1)])
    with pytest.raises(UpdateRefused, match="last validator"):
        apply_update(alone, ADMINS, update(validator(1, power=0)), CHAIN_ID)


def test_one_administrator_counts_once() -> None:
    with pytest.raises(InvalidSignature, match="twice"):
        apply_update(START, ADMINS, update(validator(3), keys=[KEYS[0], KEYS[0]]), CHAIN_ID)


def test_a_signature_that_cannot_be_is_not_called_a_transaction_s() -> None:
    signed = update(validator(3))
    spoilt = msgspec.structs.replace(signed, signatures=(bytes(32) + b"\xff" * 32 + b"\0",))
    with pytest.raises(InvalidSignature, match=r"^s is in the upper half of the curve order$"):
        apply_update(START, ADMINS, spoilt, CHAIN_ID)


def test_strangers_and_other_chains_are_refused() -> None:
    with pytest.raises(InvalidSignature, match="no administrator"):
        apply_update(START, ADMINS, update(validator(3), keys=[KEYS[0], b"\x09" * 32]), CHAIN_ID)
    with pytest.raises(InvalidSignature, match="no administrator"):
        apply_update(START, ADMINS, update(validator(3)), CHAIN_ID + 1)


def test_the_first_signature_of_a_stranger_ends_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs a recovery, and anybody can put a hundred under an update."""
    recovered = 0

    def counted(digest: bytes, signature: bytes) -> Address:
        nonlocal recovered
        recovered += 1
        return recover_sender(digest, signature)

    monkeypatch.setattr(governance, "recover_sender", counted)
    strangers = [bytes([number]) * 32 for number in range(9, 40)]
    with pytest.raises(InvalidSignature, match="no administrator"):
        apply_update(START, ADMINS, update(validator(3), keys=[KEYS[0], *strangers]), CHAIN_ID)
    assert recovered == 2


def test_updates_have_one_encoding() -> None:
    signed = update(validator(3))
    raw = encode_update(signed)
    assert decode_update(raw) == signed
    for broken in (raw[1:], raw + b" ", b"\x02" + raw[1:], *(raw[:length] for length in range(len(raw)))):
        with pytest.raises(InvalidField, match="not a validator update"):
            decode_update(broken)
    with pytest.raises(InvalidField, match="not a validator update"):
        decode_update(raw.replace(b"v3", b"\xc0\xb3"))
    with pytest.raises(InvalidField, match="signatures: a signature has 65 bytes, not 64"):
        encode_update(ValidatorUpdate(0, validator(3), (bytes(64),)))
    with pytest.raises(InvalidField, match="too long"):
        decode_update(raw + b" " * MAX_UPDATE_BYTES)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (Validator(b"short", 1, Address(bytes(20))), "publicKey"),
        (Validator(bytes(32), MAX_POWER + 1, Address(bytes(20))), "power"),
        (Validator(bytes(32), 1, Address(bytes(19))), "feeRecipient"),
        (Validator(bytes(32), 1, Address(bytes(20)), "x" * 65), "name"),
        (Validator(bytes(32), 1, Address(bytes(20)), "\ud800"), "name"),
        (Validator(bytes(32), 1, Address(bytes(20)), "two\nlines"), "name"),
        # Printable since Python 3.11: nodes of another Python would not agree on it.
        (Validator(bytes(32), 1, Address(bytes(20)), "\N{MELTING FACE}"), "name"),
    ],
)
def test_a_validator_out_of_shape_is_named(wrong: Validator, field: str) -> None:
    with pytest.raises(InvalidField) as refusal:
        check_validator(wrong, least_power=0)
    assert refusal.value.field == field


@pytest.mark.parametrize("leaving", [None, validator(3)])
def test_governance_round_trips_and_tells_damage(leaving: Validator | None) -> None:
    held = msgspec.structs.replace(START, leaving=leaving)
    assert decode_governance(encode_governance(held)) == held
    raw = encode_governance(held)
    whole = len(encode_governance(START))
    shortened = (raw[:length] for length in range(len(raw)) if length != whole)
    for broken in (b"{", b"\x02" + raw[1:], raw + b"\0", *shortened):
        with pytest.raises(Corrupt, match="governance"):
            decode_governance(broken)


@pytest.mark.parametrize("short", [Validator(b"k" * 31, 1, Address(bytes(20))), Validator(b"k" * 32, 1, Address(b""))])
def test_nothing_is_filled_up_on_its_way_into_a_hash(short: Validator) -> None:
    with pytest.raises(InvalidField):
        encode_governance(Governance(0, (short,)))


def test_fees_go_to_who_proposed() -> None:
    assert START.proposer_of(validator(2).engine_address) == validator(2).fee_recipient
    assert START.proposer_of(bytes(20)) is None


def test_fees_of_the_last_block_of_a_removed_validator_are_its_own() -> None:
    """An update takes effect two blocks later, so the removed one may still propose the block in between."""
    removed = apply_update(START, ADMINS, update(validator(1, power=0)), CHAIN_ID)
    assert removed.leaving == validator(1)
    assert removed.proposer_of(validator(1).engine_address) == validator(1).fee_recipient
    later = apply_update(removed, ADMINS, update(validator(3), 1), CHAIN_ID)
    assert later.leaving is None
    assert later.proposer_of(validator(1).engine_address) is None


def many(count: int) -> list[Validator]:
    return [Validator(number.to_bytes(32, "big"), 1, Address(bytes(20))) for number in range(count)]


def test_first_validators_are_told_apart() -> None:
    with pytest.raises(InvalidField, match="same public key") as refusal:
        first_governance([validator(1), validator(1)])
    assert refusal.value.field == "validators"
    with pytest.raises(InvalidField, match="there are 0") as refusal:
        first_governance([])
    assert refusal.value.field == "validators"


def test_first_validators_have_some_power_and_the_right_shape() -> None:
    assert first_governance([validator(1, power=1)]).validators == (validator(1, power=1),)
    with pytest.raises(InvalidField, match="power: it is between 1 and"):
        first_governance([validator(1, power=0)])


def test_there_are_a_thousand_validators_at_most() -> None:
    full = first_governance(many(1_000))
    with pytest.raises(InvalidField, match="there are 1001; 1 to 1000 are possible"):
        first_governance(many(1_001))
    changed = full.validators[0]
    assert len(apply_update(full, ADMINS, update(changed), CHAIN_ID).validators) == 1_000
    with pytest.raises(UpdateRefused, match="there are 1000 validators already"):
        apply_update(full, ADMINS, update(validator(255)), CHAIN_ID)


def test_all_validators_together_stay_below_the_bound_of_cometbft() -> None:
    assert MAX_POWER == 2**60 // 1_000
    assert MAX_VALIDATORS * MAX_POWER <= 2**60
    check_validator(validator(1, power=MAX_POWER), least_power=0)


def test_the_engine_calls_a_validator_by_20_bytes_of_a_hash() -> None:
    assert validator(1).engine_address == hashlib.sha256(b"\x01" * 32).digest()[:20]


def test_a_name_has_64_bytes_at_most() -> None:
    check_validator(Validator(bytes(32), 1, Address(bytes(20)), "x" * 64), least_power=0)
    with pytest.raises(InvalidField, match="at most 64 bytes"):
        check_validator(Validator(bytes(32), 1, Address(bytes(20)), "é" * 33), least_power=0)


def test_an_update_that_removes_a_validator_is_read_back() -> None:
    removal = update(validator(1, power=0))
    assert decode_update(encode_update(removal)) == removal


def test_a_validator_needs_no_name() -> None:
    assert Validator(bytes(32), 1, Address(bytes(20))).name == ""


def test_an_update_has_8_kib_at_most() -> None:
    signatures = (MAX_UPDATE_BYTES - len(encode_update(ValidatorUpdate(0, validator(3))))) // 65
    named = validator(3)
    while len(encode_update(ValidatorUpdate(0, named, (bytes(65),) * signatures))) < MAX_UPDATE_BYTES:
        named = Validator(named.public_key, named.power, named.fee_recipient, named.name + "x")
    longest = ValidatorUpdate(0, named, (bytes(65),) * signatures)
    assert len(encode_update(longest)) == 8_192
    assert decode_update(encode_update(longest)) == longest
    one_more = Validator(named.public_key, named.power, named.fee_recipient, named.name + "x")
    with pytest.raises(InvalidField, match="too long") as refusal:
        decode_update(encode_update(ValidatorUpdate(0, one_more, longest.signatures)))
    assert refusal.value.field == "raw"


def test_an_update_of_a_validator_out_of_shape_is_refused() -> None:
    raw = encode_update(ValidatorUpdate(0, validator(3, power=MAX_POWER)))
    with pytest.raises(InvalidField, match="power"):
        decode_update(raw.replace(MAX_POWER.to_bytes(8, "big"), (MAX_POWER + 1).to_bytes(8, "big")))


def network_genesis_text() -> bytes:
    genesis = dev_genesis()
    named = type(genesis)(
        genesis.chain_id,
        genesis.timestamp,
        genesis.gas_price,
        genesis.block_gas_limit,
        genesis.alloc,
        START.validators,
        ADMINS,
    )
    return encode_genesis(named)


def test_genesis_names_validators_and_administrators() -> None:
    parsed = parse_genesis(network_genesis_text())
    assert parsed.validators == START.validators
    assert parsed.admins == ADMINS
    assert encode_genesis(parsed) == network_genesis_text()


def test_the_state_root_covers_the_validators() -> None:
    plain, network = genesis_outcome(dev_genesis()), genesis_outcome(parse_genesis(network_genesis_text()))
    assert plain.block.header.state_root != network.block.header.state_root
    assert genesis_digest(dev_genesis()) == genesis_digest(parse_genesis(encode_genesis(dev_genesis())))
    other = Governance(1, START.validators)
    there = network.lattice.with_record(encode_governance(START), encode_governance(other))
    assert there.root != network.lattice.root
    assert there.with_record(encode_governance(other), encode_governance(START)) == network.lattice
    assert network.lattice.with_record(encode_governance(START), None) == plain.lattice


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (b'"threshold": 2', b'"threshold": 4', "admins.threshold"),
        (b'"power": 10', b'"power": 0', r"validators\[0\].power"),
        (b'"name": "v1"', b'"nickname": "v1"', r"validators\[0\]"),
        (b'"name": "v1"', b'"name": 1', r"validators\[0\]"),
        (b'"publicKey": "', b'"publicKey": "?', r"validators\[0\].publicKey"),
        (b'"admins": {', b'"admins": [], "x": {', "x"),
    ],
)
def test_a_wrong_network_key_is_named(old: bytes, new: bytes, field: str) -> None:
    with pytest.raises(InvalidField, match=field):
        parse_genesis(network_genesis_text().replace(old, new, 1))


def genesis_with(**changes: object) -> bytes:
    return json.dumps(json.loads(network_genesis_text()) | changes).encode()


ALICE = "0x" + "aa" * 20


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"validators": []}, "validators"),
        ({"validators": {}}, "validators"),
        ({"validators": {"a": 1}}, "validators"),
        ({"admins": []}, "admins"),
        ({"admins": {"threshold": 0, "addresses": [ALICE]}}, "admins.threshold"),
        ({"admins": {"threshold": 2, "addresses": [ALICE]}}, "admins.threshold"),
        ({"admins": {"threshold": 1, "addresses": []}}, "admins.addresses"),
        ({"admins": {"threshold": 1, "addresses": {ALICE: 1}}}, "admins.addresses"),
        ({"admins": {"threshold": 1, "addresses": [ALICE, 1]}}, "admins.addresses"),
        ({"admins": {"threshold": 1, "addresses": [ALICE, ALICE]}}, "admins.addresses"),
        ({"admins": {"threshold": 1, "addresses": [ALICE, "0x"]}}, "admins.addresses[1]"),
    ],
)
def test_validators_and_administrators_out_of_shape_are_named(changes: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidField) as refusal:
        parse_genesis(genesis_with(**changes))
    assert refusal.value.field == field


def test_one_validator_and_one_administrator_are_enough() -> None:
    one = {"publicKey": "A" * 43 + "=", "power": 1, "feeRecipient": ALICE, "name": ""}
    genesis = parse_genesis(genesis_with(validators=[one], admins={"threshold": 1, "addresses": [ALICE]}))
    assert [(each.power, each.name) for each in genesis.validators] == [(1, "")]
    assert genesis.admins == Admins(1, (Address(b"\xaa" * 20),))
