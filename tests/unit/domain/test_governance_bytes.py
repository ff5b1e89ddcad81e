"""Governance and updates as bytes: one form each, and whatever differs from it is told."""

import msgspec
import pytest

from cairn.domain.errors import Corrupt, InvalidField
from cairn.domain.governance import (
    MAX_ADMINS,
    MAX_POWER,
    MAX_UPDATE_BYTES,
    Admins,
    AdminsUpdate,
    Before,
    ChainIdentity,
    EvidenceKind,
    EvidenceRecord,
    Governance,
    Update,
    ValidatorRecord,
    ValidatorUpdate,
    decode_governance,
    decode_update,
    encode_governance,
    encode_update,
    first_governance,
    update_digest,
)
from cairn.domain.types import Address

SIGNATURE = b"\x11" * 65


def validator(number: int, power: int = 10) -> ValidatorRecord:
    return ValidatorRecord(bytes([number]) * 32, power, Address(bytes([number]) * 20), f"v{number}")


def admins(count: int, threshold: int = 1) -> Admins:
    return Admins(threshold, tuple(Address(number.to_bytes(20, "big")) for number in range(count)))


START = first_governance([validator(2), validator(1)])
BEFORE = Before(0, 20, 2, 0)
EVIDENCE = (
    EvidenceRecord(EvidenceKind.DUPLICATE_VOTE, b"\x05" * 20, 7, 1_000, "v5"),
    EvidenceRecord(EvidenceKind.LIGHT_CLIENT_ATTACK, b"\x06" * 20, 8, 1_001),
)
VALIDATOR_UPDATE = ValidatorUpdate(3, validator(3), BEFORE, (SIGNATURE, SIGNATURE))
ADMINS_UPDATE = AdminsUpdate(3, admins(3, 2), admins(2), (SIGNATURE,))


@pytest.mark.parametrize("update", [VALIDATOR_UPDATE, ADMINS_UPDATE])
def test_an_update_has_one_encoding(update: Update) -> None:
    raw = encode_update(update)
    assert decode_update(raw) == update
    for broken in (raw[1:], raw + b" ", b"\x02" + raw[1:], *(raw[:length] for length in range(len(raw)))):
        with pytest.raises(InvalidField, match="not a governance update"):
            decode_update(broken)
    with pytest.raises(InvalidField, match="too long"):
        decode_update(raw + b" " * MAX_UPDATE_BYTES)


def test_an_update_of_an_unknown_kind_or_without_administrators_is_refused() -> None:
    raw = encode_update(msgspec.structs.replace(ADMINS_UPDATE, signatures=()))
    with pytest.raises(InvalidField, match="unknown kind"):
        decode_update(raw[:9] + b"\x02" + raw[10:])
    with pytest.raises(InvalidField, match="it names no administrators"):
        decode_update(raw[:10] + bytes(2) + raw[12 + 3 * 20 :])


def test_updates_of_another_kind_chain_or_sequence_have_another_digest() -> None:
    chain = ChainIdentity(1, bytes(32))
    digests = {
        update_digest(update, named)
        for update in (
            VALIDATOR_UPDATE,
            ADMINS_UPDATE,
            msgspec.structs.replace(VALIDATOR_UPDATE, sequence=4),
            msgspec.structs.replace(VALIDATOR_UPDATE, before=Before(1, 20, 2, 0)),
            msgspec.structs.replace(ADMINS_UPDATE, before=admins(1)),
        )
        for named in (chain, ChainIdentity(2, bytes(32)), ChainIdentity(1, b"\x01" * 32))
    }
    assert len(digests) == 15
    unsigned = msgspec.structs.replace(ADMINS_UPDATE, signatures=())
    assert update_digest(unsigned, chain) == update_digest(ADMINS_UPDATE, chain)


@pytest.mark.parametrize(
    ("signatures", "why"),
    [
        ((bytes(64),), "a signature has 65 bytes, not 64"),
        ((SIGNATURE,) * (MAX_ADMINS + 1), "there are 101; 100 are possible"),
    ],
)
def test_signatures_out_of_shape_are_refused(signatures: tuple[bytes, ...], why: str) -> None:
    with pytest.raises(InvalidField, match=f"signatures: {why}"):
        encode_update(msgspec.structs.replace(VALIDATOR_UPDATE, signatures=signatures))


def test_more_signatures_than_administrators_can_give_are_refused() -> None:
    raw = encode_update(msgspec.structs.replace(VALIDATOR_UPDATE, signatures=(SIGNATURE,) * MAX_ADMINS))
    at = len(raw) - 65 * MAX_ADMINS - 1
    with pytest.raises(InvalidField, match="it has 101 signatures; 100 are possible"):
        decode_update(raw[:at] + bytes([MAX_ADMINS + 1]) + raw[at + 1 :] + SIGNATURE)


def test_the_longest_update_is_read_back() -> None:
    longest = AdminsUpdate(2**64 - 1, admins(MAX_ADMINS, MAX_ADMINS), admins(MAX_ADMINS), (SIGNATURE,) * MAX_ADMINS)
    raw = encode_update(longest)
    assert len(raw) == 1 + 8 + 1 + 2 * (2 + 20 * 100) + 1 + 65 * 100 < MAX_UPDATE_BYTES
    assert decode_update(raw) == longest


def test_an_update_that_removes_a_validator_is_read_back() -> None:
    removal = ValidatorUpdate(0, validator(1, power=0), Before(10, 20, 2, 0))
    assert decode_update(encode_update(removal)) == removal


def test_an_update_of_what_is_out_of_shape_is_refused() -> None:
    raw = encode_update(ValidatorUpdate(0, validator(3, power=MAX_POWER), BEFORE))
    with pytest.raises(InvalidField, match="power"):
        decode_update(raw.replace(MAX_POWER.to_bytes(8, "big"), (MAX_POWER + 1).to_bytes(8, "big")))
    with pytest.raises(InvalidField, match="name"):
        decode_update(raw.replace(b"v3", b"v "))
    with pytest.raises(InvalidField, match="not a governance update"):
        decode_update(raw.replace(b"v3", b"\xc0\xb3"))
    with pytest.raises(InvalidField, match="before"):
        decode_update(raw[: -1 - 4] + (1_001).to_bytes(4, "big") + raw[-1:])
    unreachable = encode_update(AdminsUpdate(0, admins(2), admins(1)))
    with pytest.raises(InvalidField, match="threshold"):
        decode_update(unreachable[:11] + b"\x03" + unreachable[12:])


@pytest.mark.parametrize("leaving", [None, validator(3)])
@pytest.mark.parametrize("held_admins", [None, admins(3, 2)])
@pytest.mark.parametrize("evidence", [(), EVIDENCE])
def test_governance_is_read_back_and_cut_bytes_are_corrupt(
    leaving: ValidatorRecord | None, held_admins: Admins | None, evidence: tuple[EvidenceRecord, ...]
) -> None:
    held = Governance(5, START.validators, leaving, held_admins, evidence, 2 * len(evidence), 3, 77)
    raw = encode_governance(held)
    assert decode_governance(raw) == held
    for broken in (b"{", b"\x01" + raw[1:], raw + b"\0", *(raw[:length] for length in range(len(raw)))):
        with pytest.raises(Corrupt, match="governance"):
            decode_governance(broken)


def test_a_flag_that_is_neither_0_nor_1_is_corrupt() -> None:
    raw = encode_governance(START)
    at = len(raw) - 1 - 2 - 8 - 1
    with pytest.raises(Corrupt, match="neither 0 nor 1"):
        decode_governance(raw[:at] + b"\x02" + raw[at + 1 :])


@pytest.mark.parametrize(
    "short",
    [
        Governance(0, (ValidatorRecord(b"k" * 31, 1, Address(bytes(20))),)),
        Governance(0, (ValidatorRecord(b"k" * 32, 1, Address(b"")),)),
        Governance(0, START.validators, admins=Admins(1, (Address(b"a"),))),
        Governance(0, START.validators, evidence=(EvidenceRecord(EvidenceKind.UNKNOWN, b"a", 1, 1),)),
    ],
)
def test_a_field_of_another_size_is_refused_before_it_is_hashed(short: Governance) -> None:
    with pytest.raises(InvalidField):
        encode_governance(short)
