"""What an update does, for the administrator who signs it. Everything is read from the bytes that are signed."""

from collections.abc import Sequence

from cairn.domain.crypto import checksum_address
from cairn.domain.governance import (
    Admins,
    AdminsUpdate,
    ChainIdentity,
    Update,
    ValidatorUpdate,
    decode_update,
    encode_update,
)
from cairn.domain.update_text import encode_public_key

Fields = list[tuple[str, str]]


def fields_of(chain: ChainIdentity, update: Update) -> Fields:
    """What the update changes, and what follows."""
    # From the signed form, not from the text of a file: nothing else can be shown than what is signed.
    signed = decode_update(encode_update(update))
    head = [("update", f"{signed.sequence} of chain {chain.chain_id}"), ("genesis", "0x" + chain.genesis.hex())]
    return head + (_admins_fields(signed) if isinstance(signed, AdminsUpdate) else _validator_fields(signed))


def summary(update: Update) -> str:
    if isinstance(update, AdminsUpdate):
        return f"{_of(update.admins)} administrators must sign"
    name = update.validator.name or encode_public_key(update.validator.public_key)
    return f"{name} with power {update.validator.power}" if update.validator.power else f"{name} removed"


def dangers_of(update: Update) -> list[str]:
    """What may stop the network, or lock its administrators out."""
    if isinstance(update, AdminsUpdate):
        return _admins_dangers(update)
    wanted, before = update.validator, update.before
    dangers = []
    if before.namesakes:
        follows = "changes only the one with this key" if before.power else "adds another key, and removes none"
        others = _count(before.namesakes, "other validator is", "other validators are")
        dangers.append(f"{others} called {wanted.name}, too: this {follows}.")
    may_fail = tolerated(_total_after(update))
    if not before.power and wanted.power > may_fail:
        dangers.append("Until this validator's node runs and has caught up, the network stands still.")
    elif wanted.power > max(may_fail, before.power):
        dangers.append("If this validator alone stops, the network stands still.")
    count = _count_after(update)
    if not equal_tolerance(count) and equal_tolerance(before.validators):
        dangers.append("Of validators of equal power none may then fail: if one stops, the network stands still.")
    return dangers


def tolerated(total_power: int) -> int:
    """How much power may fail: blocks need more than two thirds of it."""
    return (total_power - 1) // 3


def equal_tolerance(validators: int) -> int:
    """How many validators of equal power may fail."""
    return (validators - 1) // 3


def _total_after(update: ValidatorUpdate) -> int:
    return update.before.total_power - update.before.power + update.validator.power


def _count_after(update: ValidatorUpdate) -> int:
    return update.before.validators - bool(update.before.power) + bool(update.validator.power)


def _validator_fields(update: ValidatorUpdate) -> Fields:
    wanted, before = update.validator, update.before
    old, new = before.total_power, _total_after(update)
    count = _count_after(update)
    if not wanted.power:
        change = f"{before.power} before; it is removed"
    elif not before.power:
        change = f"{wanted.power}; it is a new validator"
    else:
        change = f"{wanted.power}; {before.power} before"
    return [
        ("name", wanted.name or "none"),
        ("key", encode_public_key(wanted.public_key)),
        ("address", wanted.engine_address.hex().upper()),
        ("power", change),
        ("fees to", checksum_address(wanted.fee_recipient)),
        ("validators", f"{count}; {before.validators} before"),
        ("all power", f"{new}; {old} before"),
        ("may fail", f"power {tolerated(new)} of {new}; {tolerated(old)} of {old} before"),
        ("", f"Of {count} validators of equal power, {equal_tolerance(count) or 'none'} may fail."),
    ]


def _admins_fields(update: AdminsUpdate) -> Fields:
    new, old = update.admins, update.before
    return [
        ("must sign", f"{_of(new)}; {_of(old)} before"),
        *_listed("added", [each for each in new.addresses if each not in old.addresses]),
        *_listed("removed", [each for each in old.addresses if each not in new.addresses]),
        *_listed("stays", [each for each in new.addresses if each in old.addresses]),
    ]


def _listed(label: str, addresses: Sequence[bytes]) -> Fields:
    return [(label, checksum_address(each)) for each in addresses]


def _of(admins: Admins) -> str:
    return f"{admins.threshold} of {len(admins.addresses)}"


def _admins_dangers(update: AdminsUpdate) -> list[str]:
    admins = update.admins
    dangers = []
    if admins.threshold == len(admins.addresses):
        dangers.append("All must sign: if one key is lost, nothing can ever be changed again.")
    if admins.threshold == 1 and update.before.threshold > 1:
        dangers.append("Each of them alone can then change the validators and the administrators.")
    return dangers


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
