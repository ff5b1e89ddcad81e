"""Validators and administrators change only by updates that enough administrators signed, once each and in order."""

import msgspec
import pytest

from cairn.domain import updates
from cairn.domain.crypto import address_of_key, recover_sender
from cairn.domain.errors import InvalidSignature, UpdateRefused
from cairn.domain.governance import (
    MAX_VALIDATORS,
    Admins,
    AdminsUpdate,
    Before,
    ChainIdentity,
    Governance,
    ValidatorRecord,
    ValidatorUpdate,
    first_governance,
)
from cairn.domain.types import Address
from cairn.domain.updates import apply_update, before_of, sign_update, update_admins, update_validator

CHAIN = ChainIdentity(7, b"\x07" * 32)
OTHER_CHAINS = [ChainIdentity(8, CHAIN.genesis), ChainIdentity(7, b"\x08" * 32)]
"""With another id, and with another genesis."""
KEYS = [bytes([number]) * 32 for number in (1, 2, 3)]
ADMINS = Admins(2, tuple(address_of_key(key) for key in KEYS))


def validator(number: int, power: int = 10, name: str | None = None) -> ValidatorRecord:
    return ValidatorRecord(
        bytes([number]) * 32, power, Address(bytes([number]) * 20), f"v{number}" if name is None else name
    )


START = first_governance([validator(2), validator(1)], ADMINS)


def update(
    wanted: ValidatorRecord,
    governance: Governance = START,
    sequence: int | None = None,
    keys: list[bytes] | None = None,
) -> ValidatorUpdate:
    """As somebody could make it who does not care for the rules."""
    number = governance.sequence if sequence is None else sequence
    unsigned = ValidatorUpdate(number, wanted, before_of(governance, wanted))
    return sign_update(unsigned, KEYS[:2] if keys is None else keys, CHAIN)


def admins_update(wanted: Admins, governance: Governance = START, keys: list[bytes] | None = None) -> AdminsUpdate:
    unsigned = AdminsUpdate(governance.sequence, wanted, governance.admins or ADMINS)
    return sign_update(unsigned, KEYS[:2] if keys is None else keys, CHAIN)


def test_a_validator_is_added_changed_and_removed() -> None:
    added = apply_update(START, update(validator(3)), CHAIN)
    assert [v.name for v in added.validators] == ["v1", "v2", "v3"]
    changed = apply_update(added, update(validator(1, power=99), added), CHAIN)
    assert [v.power for v in changed.validators] == [99, 10, 10]
    removed = apply_update(changed, update(validator(1, power=0), changed), CHAIN)
    assert [v.name for v in removed.validators] == ["v2", "v3"]
    assert (removed.sequence, removed.admins) == (3, ADMINS)


def test_only_an_update_that_changes_a_power_counts_as_a_change_of_the_set() -> None:
    added = apply_update(START, update(validator(3)), CHAIN)
    elsewhere = msgspec.structs.replace(validator(3), fee_recipient=Address(bytes(20)))
    paid_elsewhere = apply_update(added, update(elsewhere, added), CHAIN)
    led_by_two = apply_update(paid_elsewhere, admins_update(Admins(2, ADMINS.addresses[:2]), paid_elsewhere), CHAIN)
    stronger = apply_update(led_by_two, update(validator(3, power=11), led_by_two), CHAIN)
    removed = apply_update(stronger, update(validator(3, power=0), stronger), CHAIN)
    counts = [each.set_changes for each in (START, added, paid_elsewhere, led_by_two, stronger, removed)]
    assert counts == [0, 1, 1, 1, 2, 3]


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (update(validator(3), sequence=1), "its sequence is 1; the next one is 0"),
        (update(validator(3), keys=KEYS[:1]), "1 of 2 required administrators have signed"),
        (update(validator(9, power=0)), "it removes an unknown validator"),
        # What is shown to the administrators as the removal of v2 must not remove v1.
        (update(validator(1, power=0, name="v2")), "its key is that of 'v1', not of 'v2'"),
        (update(validator(1, power=20, name="v2")), "its key is that of 'v1', not of 'v2'"),
        (update(validator(1, power=20, name="")), "its key is that of 'v1', not of ''"),
    ],
)
def test_an_update_against_the_rules_is_refused(refused: ValidatorUpdate, why: str) -> None:
    with pytest.raises(UpdateRefused, match=why):
        apply_update(START, refused, CHAIN)


@pytest.mark.parametrize(
    ("wanted", "its_name"),
    [
        # It is shown as v2 to those who sign.
        (validator(1, power=0, name="v2"), "v2"),
        (validator(1, power=0, name="free"), "free"),
        (validator(1, power=20, name="v2"), "v2"),
    ],
)
def test_a_validator_without_a_name_is_not_removed_under_one_nor_given_anothers(
    wanted: ValidatorRecord, its_name: str
) -> None:
    nameless = first_governance([validator(1, name=""), validator(2)], ADMINS)
    changed = sign_update(ValidatorUpdate(0, wanted, before_of(nameless, wanted)), KEYS[:2], CHAIN)
    with pytest.raises(UpdateRefused, match=f"its key is that of a validator without a name, not of '{its_name}'"):
        apply_update(nameless, changed, CHAIN)


@pytest.mark.parametrize(
    "false",
    [{"power": 0}, {"power": 11}, {"total_power": 19}, {"validators": 3}, {"namesakes": 1}],
)
def test_an_update_with_false_numbers_before_it_is_refused(false: dict[str, int]) -> None:
    true = update(validator(1, power=0))
    assert true.before == Before(10, 20, 2, 0)
    lie = msgspec.structs.replace(true, before=msgspec.structs.replace(true.before, **false), signatures=())
    with pytest.raises(UpdateRefused, match="before it; the chain has power 10 of 20, 2 validators and 0 others"):
        apply_update(START, sign_update(lie, KEYS[:2], CHAIN), CHAIN)


def test_a_second_key_under_a_known_name_is_counted_as_that() -> None:
    assert before_of(START, validator(3, name="v1")) == Before(0, 20, 2, 1)
    assert before_of(START, validator(1)) == Before(10, 20, 2, 0)
    nameless = first_governance([validator(1, name=""), validator(2, name="")], ADMINS)
    assert before_of(nameless, validator(3, name="")).namesakes == 0
    both = apply_update(START, update(validator(3, name="v1")), CHAIN)
    assert before_of(both, validator(1)).namesakes == 1


def test_a_validator_without_a_name_is_given_one_once() -> None:
    nameless = first_governance([validator(1, name=""), validator(2)], ADMINS)
    named = apply_update(nameless, update(validator(1, name="v1"), nameless), CHAIN)
    with pytest.raises(UpdateRefused, match="its key is that of 'v1'"):
        apply_update(named, update(validator(1, name="other"), named), CHAIN)


def test_the_last_validator_stays() -> None:
    alone = first_governance([validator(1)], ADMINS)
    with pytest.raises(UpdateRefused, match="last validator"):
        apply_update(alone, update(validator(1, power=0), alone), CHAIN)


def test_two_signatures_of_one_administrator_are_refused() -> None:
    with pytest.raises(InvalidSignature, match="twice"):
        apply_update(START, update(validator(3), keys=[KEYS[0], KEYS[0]]), CHAIN)


def test_an_impossible_signature_is_refused_without_naming_a_transaction() -> None:
    spoilt = msgspec.structs.replace(update(validator(3)), signatures=(bytes(32) + b"\xff" * 32 + b"\0",))
    with pytest.raises(InvalidSignature, match=r": s is in the upper half of the curve order$"):
        apply_update(START, spoilt, CHAIN)


@pytest.mark.parametrize("other", OTHER_CHAINS)
def test_signatures_of_strangers_or_for_other_chains_are_refused(other: ChainIdentity) -> None:
    with pytest.raises(InvalidSignature, match="no administrator"):
        apply_update(START, update(validator(3), keys=[KEYS[0], b"\x09" * 32]), CHAIN)
    with pytest.raises(InvalidSignature, match="no administrator"):
        apply_update(START, update(validator(3)), other)


def test_an_update_with_any_field_changed_after_signing_is_refused() -> None:
    signed = update(validator(3))
    for other in (
        msgspec.structs.replace(signed, validator=validator(3, power=11)),
        msgspec.structs.replace(signed, validator=validator(3, name="v4")),
        msgspec.structs.replace(signed, before=Before(0, 20, 2, 1)),
    ):
        with pytest.raises(InvalidSignature, match="no administrator"):
            apply_update(START, other, CHAIN)


def test_the_first_signature_of_a_stranger_ends_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs a recovery, and anybody can put a hundred under an update."""
    recovered = 0

    def counted(digest: bytes, signature: bytes) -> Address:
        nonlocal recovered
        recovered += 1
        return recover_sender(digest, signature)

    monkeypatch.setattr(updates, "recover_sender", counted)
    strangers = [bytes([number]) * 32 for number in range(9, 40)]
    with pytest.raises(InvalidSignature, match="no administrator"):
        apply_update(START, update(validator(3), keys=[KEYS[0], *strangers]), CHAIN)
    assert recovered == 2


def test_fees_of_the_last_block_of_a_removed_validator_are_its_own() -> None:
    """An update takes effect two blocks later, so the removed one may still propose the block in between."""
    removed = apply_update(START, update(validator(1, power=0)), CHAIN)
    assert removed.leaving == validator(1)
    assert removed.proposer_of(validator(1).engine_address) == validator(1).fee_recipient
    later = apply_update(removed, update(validator(3), removed), CHAIN)
    assert later.leaving is None
    assert later.proposer_of(validator(1).engine_address) is None


def test_there_are_a_thousand_validators_at_most() -> None:
    keys = [number.to_bytes(32, "little") for number in range(2, MAX_VALIDATORS + 2)]
    many = [ValidatorRecord(key, 1, Address(bytes(20))) for key in keys]
    full = first_governance(many, ADMINS)
    assert len(apply_update(full, update(full.validators[0], full), CHAIN).validators) == 1_000
    with pytest.raises(UpdateRefused, match="there are 1000 validators already"):
        apply_update(full, update(validator(254), full), CHAIN)


def test_without_administrators_nothing_ever_changes() -> None:
    fixed = first_governance([validator(1)])
    for refused in (update(validator(3), fixed), admins_update(ADMINS, fixed)):
        with pytest.raises(UpdateRefused, match="genesis names no administrators"):
            apply_update(fixed, refused, CHAIN)


# The administrators themselves.

FOURTH = address_of_key(b"\x04" * 32)
WITHOUT_THE_LOST = Admins(2, (*ADMINS.addresses[:2], FOURTH))


def test_administrators_replace_a_lost_key_and_the_old_one_is_worth_nothing() -> None:
    changed = apply_update(START, admins_update(WITHOUT_THE_LOST), CHAIN)
    assert (changed.admins, changed.sequence) == (WITHOUT_THE_LOST, 1)
    assert changed.validators == START.validators
    with pytest.raises(InvalidSignature, match="no administrator"):
        apply_update(changed, update(validator(3), changed, keys=[KEYS[0], KEYS[2]]), CHAIN)
    by_the_new = update(validator(3), changed, keys=[KEYS[0], b"\x04" * 32])
    assert len(apply_update(changed, by_the_new, CHAIN).validators) == 3


def test_a_new_threshold_counts_from_the_next_update_on() -> None:
    alone = apply_update(START, admins_update(Admins(1, ADMINS.addresses[:1])), CHAIN)
    assert apply_update(alone, update(validator(3), alone, keys=KEYS[:1]), CHAIN).sequence == 2
    with pytest.raises(UpdateRefused, match="1 of 2 required"):
        apply_update(START, admins_update(Admins(1, ADMINS.addresses[:1]), keys=KEYS[:1]), CHAIN)


@pytest.mark.parametrize("other", OTHER_CHAINS)
def test_a_change_of_the_administrators_applies_once_in_order_and_on_its_chain(other: ChainIdentity) -> None:
    signed = admins_update(WITHOUT_THE_LOST)
    changed = apply_update(START, signed, CHAIN)
    with pytest.raises(UpdateRefused, match="its sequence is 0; the next one is 1"):
        apply_update(changed, signed, CHAIN)
    with pytest.raises(InvalidSignature, match="no administrator"):
        apply_update(START, signed, other)


@pytest.mark.parametrize(
    ("unsigned", "why"),
    [
        (AdminsUpdate(0, WITHOUT_THE_LOST, WITHOUT_THE_LOST), "signed for other administrators"),
        (AdminsUpdate(0, ADMINS, ADMINS), "it changes nothing"),
    ],
)
def test_an_administrators_update_with_a_false_before_or_no_change_is_refused(unsigned: AdminsUpdate, why: str) -> None:
    with pytest.raises(UpdateRefused, match=why):
        apply_update(START, sign_update(unsigned, KEYS[:2], CHAIN), CHAIN)


def test_an_update_that_the_chain_would_refuse_cannot_be_made() -> None:
    assert update_validator(START, validator(3)) == msgspec.structs.replace(update(validator(3)), signatures=())
    assert update_admins(START, WITHOUT_THE_LOST).before == ADMINS
    with pytest.raises(UpdateRefused, match="its key is that of 'v1'"):
        update_validator(START, validator(1, power=0, name="v2"))
    with pytest.raises(UpdateRefused, match="it changes nothing"):
        update_admins(START, ADMINS)
    with pytest.raises(UpdateRefused, match="genesis names no administrators"):
        update_admins(first_governance([validator(1)]), ADMINS)
