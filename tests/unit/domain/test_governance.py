"""The validators and the administrators: what they are, and that genesis and the state root know them."""

import base64
import hashlib
import json

import msgspec
import pytest

from cairn.domain.crypto import address_of_key
from cairn.domain.errors import InvalidField
from cairn.domain.genesis import dev_genesis, encode_genesis, genesis_digest, genesis_outcome, parse_genesis
from cairn.domain.governance import (
    KEPT_EVIDENCE,
    MAX_ADMINS,
    MAX_POWER,
    MAX_VALIDATORS,
    Admins,
    Before,
    EvidenceKind,
    EvidenceRecord,
    Governance,
    ValidatorRecord,
    ValidatorUpdate,
    check_admins,
    check_before,
    check_update,
    check_validator,
    decode_update,
    encode_governance,
    encode_update,
    first_governance,
)
from cairn.domain.types import Address
from tests.support.memory_state import MemoryState, naive_state_root
from tests.vectors.proofs.small_order import ENCODINGS, NOT_CANONICAL

KEYS = [bytes([number]) * 32 for number in (1, 2, 3)]
ADMINS = Admins(2, tuple(address_of_key(key) for key in KEYS))
LOOKALIKES = ["\ud800", "two\nlines", "n\u043ede1", "node1 ", " node1", "no  de1", "\x7f", "\N{MELTING FACE}"]
"""Names that could be taken for another, or that no terminal shows."""


def validator(number: int, power: int = 10) -> ValidatorRecord:
    return ValidatorRecord(bytes([number]) * 32, power, Address(bytes([number]) * 20), f"v{number}")


START = first_governance([validator(2), validator(1)])
START_WITH_ADMINS = first_governance([validator(2), validator(1)], ADMINS)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (ValidatorRecord(b"short", 1, Address(bytes(20))), "publicKey"),
        (ValidatorRecord(KEYS[0], MAX_POWER + 1, Address(bytes(20))), "power"),
        (ValidatorRecord(KEYS[0], 1, Address(bytes(19))), "feeRecipient"),
        (ValidatorRecord(KEYS[0], 1, Address(bytes(20)), "x" * 65), "name"),
        *((ValidatorRecord(KEYS[0], 1, Address(bytes(20)), name), "name") for name in LOOKALIKES),
    ],
)
def test_a_validator_with_a_wrong_field_is_refused_by_that_field(wrong: ValidatorRecord, field: str) -> None:
    with pytest.raises(InvalidField) as refusal:
        check_validator(wrong, least_power=0)
    assert refusal.value.field == field


@pytest.mark.parametrize("key", [*ENCODINGS.values(), NOT_CANONICAL], ids=bytes.hex)
def test_a_key_for_which_everybody_can_sign_is_refused_in_genesis_and_updates_but_can_be_removed(key: bytes) -> None:
    weak = ValidatorRecord(key, 1, Address(bytes(20)))
    one = {"publicKey": base64.b64encode(key).decode(), "power": 1, "feeRecipient": ALICE, "name": ""}
    for refused in (
        lambda: first_governance([weak]),
        lambda: check_update(ValidatorUpdate(0, weak, Before(0, 10, 1, 0))),
        lambda: decode_update(encode_update(ValidatorUpdate(0, weak, Before(0, 10, 1, 0)))),
        lambda: parse_genesis(genesis_with(validators=[one])),
        lambda: parse_genesis(encode_genesis(msgspec.structs.replace(dev_genesis(), signer=key))),
    ):
        with pytest.raises(InvalidField, match="it is of small order, or badly encoded"):
            refused()
    removal = ValidatorUpdate(0, msgspec.structs.replace(weak, power=0), Before(0, 10, 1, 0))
    assert decode_update(encode_update(removal)) == removal


def test_fees_go_to_the_fee_recipient_of_the_proposing_validator() -> None:
    assert START.proposer_of(validator(2).engine_address) == validator(2).fee_recipient
    assert START.proposer_of(bytes(20)) is None


def many(count: int) -> list[ValidatorRecord]:
    return [ValidatorRecord(number.to_bytes(32, "little"), 1, Address(bytes(20))) for number in range(2, count + 2)]


def test_two_first_validators_with_one_key_or_none_at_all_are_refused() -> None:
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
    assert len(first_governance(many(1_000)).validators) == 1_000
    with pytest.raises(InvalidField, match="there are 1001; 1 to 1000 are possible"):
        first_governance(many(1_001))


def test_a_name_has_64_bytes_at_most() -> None:
    check_validator(ValidatorRecord(KEYS[0], 1, Address(bytes(20)), "x" * 64), least_power=0)
    with pytest.raises(InvalidField, match="at most 64 bytes"):
        check_validator(ValidatorRecord(KEYS[0], 1, Address(bytes(20)), "x" * 65), least_power=0)


@pytest.mark.parametrize("name", ["", "x", "node 4", "A-b_c.d (e) ~!"])
def test_names_are_words_of_printable_ascii(name: str) -> None:
    check_validator(ValidatorRecord(KEYS[0], 1, Address(bytes(20)), name), least_power=0)


def some(count: int) -> tuple[Address, ...]:
    return tuple(Address(number.to_bytes(20, "big")) for number in range(count))


@pytest.mark.parametrize(
    ("threshold", "addresses", "field"),
    [
        (1, (), "admins.addresses"),
        (1, some(MAX_ADMINS + 1), "admins.addresses"),
        (1, some(1) * 2, "admins.addresses"),
        (1, (Address(b"short"),), "admins.addresses"),
        (0, some(2), "admins.threshold"),
        (3, some(2), "admins.threshold"),
    ],
)
def test_administrators_who_could_never_sign_together_are_refused(
    threshold: int, addresses: tuple[Address, ...], field: str
) -> None:
    with pytest.raises(InvalidField) as refusal:
        check_admins(Admins(threshold, addresses))
    assert refusal.value.field == field


@pytest.mark.parametrize(("threshold", "count"), [(1, 1), (1, 2), (2, 2), (100, 100)])
def test_administrators_at_the_bounds_are_taken(threshold: int, count: int) -> None:
    assert MAX_ADMINS == 100
    check_admins(Admins(threshold, some(count)))


@pytest.mark.parametrize("name", ["power", "total_power", "validators", "namesakes"])
def test_numbers_before_an_update_that_no_chain_can_have_are_refused(name: str) -> None:
    most = Before(MAX_POWER, 1_000 * MAX_POWER, 1_000, 1_000)
    check_before(most)
    check_before(Before(0, 0, 0, 0))
    for wrong in (-1, getattr(most, name) + 1):
        with pytest.raises(InvalidField, match=name):
            check_before(msgspec.structs.replace(most, **{name: wrong}))


def piece(number: int, height: int) -> EvidenceRecord:
    return EvidenceRecord(EvidenceKind.DUPLICATE_VOTE, validator(number).engine_address, height, 1_000 + height)


def test_evidence_is_kept_under_the_name_of_its_validator() -> None:
    told = START.with_evidence([piece(1, 5), piece(9, 6)])
    assert [(each.name, each.height) for each in told.evidence] == [("v1", 5), ("", 6)]
    assert told.evidence_count == 2
    assert msgspec.structs.replace(told, evidence=(), evidence_count=0) == START
    leaving = msgspec.structs.replace(START, validators=(validator(2),), leaving=validator(1))
    assert leaving.with_evidence([piece(1, 5)]).evidence[0].name == "v1"


def test_the_newest_hundred_pieces_are_kept_and_all_are_counted() -> None:
    assert KEPT_EVIDENCE == 100
    held = START
    for height in range(70):
        held = held.with_evidence([piece(1, height), piece(2, height)])
    assert held.evidence_count == 140
    assert [each.height for each in held.evidence] == [height for height in range(20, 70) for _ in range(2)]


def test_all_validators_together_stay_below_the_bound_of_cometbft() -> None:
    assert MAX_POWER == 2**60 // 1_000
    assert MAX_VALIDATORS * MAX_POWER <= 2**60
    check_validator(validator(1, power=MAX_POWER), least_power=0)


def test_a_validators_address_in_cometbft_is_20_bytes_of_sha_256() -> None:
    assert validator(1).engine_address == hashlib.sha256(b"\x01" * 32).digest()[:20]


def test_a_validator_needs_no_name() -> None:
    assert ValidatorRecord(KEYS[0], 1, Address(bytes(20))).name == ""


def network_genesis_text() -> bytes:
    genesis = dev_genesis()
    named = type(genesis)(
        genesis.chain_id,
        genesis.timestamp,
        genesis.gas_price,
        genesis.block_gas_limit,
        genesis.alloc,
        START.validators,
        admins=ADMINS,
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
    other = Governance(1, START.validators, admins=ADMINS)
    state = MemoryState(network)
    assert naive_state_root(state, encode_governance(START_WITH_ADMINS)) == network.block.header.state_root
    assert naive_state_root(state, encode_governance(other)) != network.block.header.state_root


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
MANY = [f"0x{number:040x}" for number in range(101)]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"validators": []}, "validators"),
        ({"validators": {}}, "validators"),
        ({"validators": {"a": 1}}, "validators"),
        ({"admins": []}, "admins"),
        ({"admins": {"threshold": 0, "addresses": [ALICE]}}, "admins.threshold"),
        ({"admins": {"threshold": 2, "addresses": [ALICE]}}, "admins.threshold"),
        ({"admins": {"threshold": 101, "addresses": MANY}}, "admins.threshold"),
        ({"admins": {"threshold": 2, "addresses": MANY}}, "admins.addresses"),
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
    one = {"publicKey": base64.b64encode(KEYS[0]).decode(), "power": 1, "feeRecipient": ALICE, "name": ""}
    genesis = parse_genesis(genesis_with(validators=[one], admins={"threshold": 1, "addresses": [ALICE]}))
    assert [(each.power, each.name) for each in genesis.validators] == [(1, "")]
    assert genesis.admins == Admins(1, (Address(b"\xaa" * 20),))
