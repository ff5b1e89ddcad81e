"""Updates of validators and administrators: how they are made, signed and applied.

An update names its sequence number and the chain by id and genesis, so it applies once, in order, and nowhere else. It
also names what it changes, as that is before: so what an administrator is shown of the signed bytes is true, or has no
effect.
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from cairn.domain.crypto import recover_sender, sign_digest
from cairn.domain.errors import InvalidSignature, UpdateRefused
from cairn.domain.governance import (
    MAX_VALIDATORS,
    Admins,
    AdminsUpdate,
    Before,
    ChainIdentity,
    Governance,
    Update,
    ValidatorRecord,
    ValidatorUpdate,
    update_digest,
)
from cairn.domain.types import Address

_Update = TypeVar("_Update", bound=Update)


def update_validator(governance: Governance, wanted: ValidatorRecord) -> ValidatorUpdate:
    """The next update of this governance, to be signed. Raises `UpdateRefused` when the chain could not apply it."""
    update = ValidatorUpdate(governance.sequence, wanted, before_of(governance, wanted))
    preview_update(governance, update)
    return update


def update_admins(governance: Governance, wanted: Admins) -> AdminsUpdate:
    """The next update of the administrators, to be signed. Raises `UpdateRefused` when the chain could not apply it."""
    update = AdminsUpdate(governance.sequence, wanted, governance.admins or wanted)
    preview_update(governance, update)
    return update


def sign_update(update: _Update, private_keys: Sequence[bytes], chain: ChainIdentity) -> _Update:
    """Add the signatures of these administrators' keys."""
    digest = update_digest(update, chain)
    added = tuple(sign_digest(digest, private_key) for private_key in private_keys)
    return msgspec.structs.replace(update, signatures=update.signatures + added)


def check_chain(named: ChainIdentity, chain: ChainIdentity) -> None:
    """Check that an update names this chain: otherwise its signatures would be wrong, too. Raises `UpdateRefused`."""
    if named.chain_id != chain.chain_id:
        raise UpdateRefused(f"the update is for chain {named.chain_id}, not for chain {chain.chain_id}")
    if named.genesis != chain.genesis:
        raise UpdateRefused(
            f"the update is for another chain {chain.chain_id}, with genesis 0x{named.genesis.hex()}, not with "
            f"0x{chain.genesis.hex()}"
        )


def apply_update(governance: Governance, update: Update, chain: ChainIdentity) -> Governance:
    """The governance after `update`. Raises `UpdateRefused` or `InvalidSignature`, and changes nothing then."""
    admins = _check_turn(governance, update)
    _check_signatures(update, admins, chain)
    return _change(governance, update)


def preview_update(governance: Governance, update: Update) -> Governance:
    """The governance after an update that is not signed yet. Raises `UpdateRefused`."""
    _check_turn(governance, update)
    return _change(governance, update)


def _check_turn(governance: Governance, update: Update) -> Admins:
    """Who must sign it. Raises `UpdateRefused` if nobody can, or it is not the next one."""
    if governance.admins is None:
        raise UpdateRefused("genesis names no administrators: the validators of this chain never change")
    if update.sequence != governance.sequence:
        raise UpdateRefused(f"its sequence is {update.sequence}; the next one is {governance.sequence}")
    return governance.admins


def _change(governance: Governance, update: Update) -> Governance:
    if isinstance(update, AdminsUpdate):
        return _apply_admins(governance, update)
    return _apply_validator(governance, update)


def _apply_validator(governance: Governance, update: ValidatorUpdate) -> Governance:
    wanted = update.validator
    known = governance.find(wanted.public_key)
    before = before_of(governance, wanted)
    # A known key has one name forever: an update that shows another one would be signed for the wrong validator. One
    # that has none yet may be given a name that is free, but is not removed under it.
    may_name = wanted.power > 0 and not before.namesakes
    if known is not None and known.name != wanted.name and (known.name or not may_name):
        its_name = repr(known.name) if known.name else "a validator without a name"
        raise UpdateRefused(f"its key is that of {its_name}, not of {wanted.name!r}")
    if wanted.power == 0 and known is None:
        raise UpdateRefused("it removes an unknown validator")
    others = tuple(each for each in governance.validators if each is not known)
    if not others and wanted.power == 0:
        raise UpdateRefused("it removes the last validator")
    if len(others) == MAX_VALIDATORS:
        raise UpdateRefused(f"there are {MAX_VALIDATORS} validators already")
    if update.before != before:
        raise UpdateRefused(f"it was signed for {_tell(update.before)} before it; the chain has {_tell(before)}")
    set_changes = governance.set_changes + (wanted.power != before.power)
    if wanted.power == 0:
        return _next(governance, validators=others, leaving=known, set_changes=set_changes)
    validators = tuple(sorted((*others, wanted), key=lambda each: each.public_key))
    return _next(governance, validators=validators, set_changes=set_changes)


def _apply_admins(governance: Governance, update: AdminsUpdate) -> Governance:
    if update.before != governance.admins:
        raise UpdateRefused("it was signed for other administrators before it than the chain has")
    if update.admins == update.before:
        raise UpdateRefused("it changes nothing")
    return _next(governance, admins=update.admins)


def _next(governance: Governance, leaving: ValidatorRecord | None = None, **changes: object) -> Governance:
    return msgspec.structs.replace(governance, sequence=governance.sequence + 1, leaving=leaving, **changes)


def before_of(governance: Governance, wanted: ValidatorRecord) -> Before:
    """What a true update of this validator names as it is now."""
    known = governance.find(wanted.public_key)
    others = (each for each in governance.validators if each is not known)
    return Before(
        0 if known is None else known.power,
        governance.total_power,
        len(governance.validators),
        sum(each.name == wanted.name != "" for each in others),
    )


def _tell(before: Before) -> str:
    return (
        f"power {before.power} of {before.total_power}, {before.validators} validators "
        f"and {before.namesakes} others of its name"
    )


def _check_signatures(update: Update, admins: Admins, chain: ChainIdentity) -> None:
    digest = update_digest(update, chain)
    signers: set[Address] = set()
    # One after the other: the first signature of a stranger ends it, so that an attack costs one recovery.
    for signature in update.signatures:
        signer = recover_sender(digest, signature)
        if signer in signers:
            raise InvalidSignature("one administrator has signed twice")
        if signer not in admins.addresses:
            raise InvalidSignature(f"0x{signer.hex()} is no administrator of this chain")
        signers.add(signer)
    if len(signers) < admins.threshold:
        raise UpdateRefused(f"{len(signers)} of {admins.threshold} required administrators have signed")
