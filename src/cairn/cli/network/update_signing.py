"""Updates of a network: what they change, the keys that sign them, and the files that administrators pass on."""

import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cairn.cli.network.homes import read_public_key
from cairn.cli.network.validator_file import read_validator_file
from cairn.cli.options import keystore_in
from cairn.cli.report import CommandFailed, warn
from cairn.cli.screen import is_confirmed, print_line, print_pairs
from cairn.cli.wallet.key_files import parse_private_key
from cairn.cli.wallet.parties import find_party
from cairn.cometbft import COMETBFT_DIRECTORY, CometBFT
from cairn.domain.crypto import address_of_key, checksum_address, recover_sender
from cairn.domain.errors import InvalidConfig, NodeError
from cairn.domain.governance import (
    Admins,
    AdminsUpdate,
    ChainIdentity,
    Update,
    ValidatorUpdate,
    decode_update,
    encode_update,
    update_digest,
)
from cairn.domain.types import Address
from cairn.domain.update_json import encode_public_key, encode_update_json, parse_public_key, parse_update_json
from cairn.domain.updates import sign_update
from cairn.store.directory import write_file

Fields = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Signing:
    """How an update is signed and what becomes of it, as the command line says."""

    key_files: Sequence[Path]
    stored_keys: Sequence[str]
    """Names of encrypted keys on this machine."""
    out: Path | None
    """Where to write it for others to sign, instead of submitting it."""
    timeout_s: float
    yes: bool


def show_and_ask(chain: ChainIdentity, update: Update, yes: bool) -> None:
    """Show what would be signed, and ask: always at a terminal, and in a script what only a person can decide.

    Raises `CommandFailed` unless the answer is yes, or `yes` stands for it.
    """
    print_pairs(fields_of(chain, update))
    for danger in dangers_of(update):
        warn(danger)
    if yes:
        return
    if sys.stdin.isatty():
        if is_confirmed("Is this right?"):
            return
        raise CommandFailed("nothing was signed or submitted")
    if isinstance(update, ValidatorUpdate) and update.before.namesakes and not update.before.power:
        raise CommandFailed(f"a validator is called {update.validator.name} already; --yes adds a second key")


def choose_key(home: Path | None, public_key: str | None, file: Path | None = None) -> bytes:
    """The validator's public key, as one of three options names it. Raises `InvalidConfig`."""
    if [home, public_key, file].count(None) != 2:
        raise InvalidConfig("name the validator by --home, by --public-key or by --file")
    if file is not None:
        return read_validator_file(file).public_key
    if home is not None:
        engine = CometBFT(Path(), home / COMETBFT_DIRECTORY)
        # CometBFT makes a key file even then, and never signs with it.
        if engine.config_file.exists() and engine.signer_address():
            raise InvalidConfig(f"a remote signer signs the votes of {home}: name its key by --public-key")
        return read_public_key(engine.home)
    try:
        return parse_public_key(public_key or "")
    except NodeError as error:
        raise InvalidConfig(f"--public-key: {error.detail}") from None


def read_keys(paths: Sequence[Path], stored: Sequence[str]) -> dict[Address, bytes]:
    """The administrators' private keys, by address. Those with a name are encrypted: their passwords are asked for."""
    keystore = keystore_in(None)
    unlocked = [find_party(name, keystore, "--key").unlock(None) for name in stored]
    return {address_of_key(key): key for key in (*map(read_key, paths), *unlocked)}


def with_signatures(update: Update, keys: Mapping[Address, bytes], chain: ChainIdentity) -> Update:
    """Add the signature of each key, but none twice."""
    digest = update_digest(update, chain)
    try:
        signers = {recover_sender(digest, signature) for signature in update.signatures}
    except NodeError as error:
        raise InvalidConfig(f"a signature in the file is wrong: {error.detail}") from None
    return sign_update(update, [key for address, key in keys.items() if address not in signers], chain)


def read_key(path: Path) -> bytes:
    """A private key from a file. Raises `InvalidConfig`, including when others may read the file."""
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise InvalidConfig(f"{path} can be read by others: chmod 600 {path}")
        return parse_private_key(path.read_text())
    except OSError as error:
        raise InvalidConfig(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        # Never with its content: that may be a key after all.
        raise InvalidConfig(f"{path} holds no private key of 64 hexadecimal digits") from None


def read_update(path: Path) -> tuple[ChainIdentity, Update]:
    try:
        return parse_update_json(path.read_bytes())
    except OSError as error:
        raise InvalidConfig(f"cannot read {path}: {error.strerror}") from None
    except NodeError as error:
        raise InvalidConfig(f"{path}: {error.detail}") from None


def write_update(path: Path, chain: ChainIdentity, update: Update) -> None:
    text = encode_update_json(chain, update)
    try:
        write_file(path, text)
    except OSError as error:
        raise InvalidConfig(f"cannot write {path}: {error.strerror}") from None
    print_line(f"Wrote {path}; signatures so far: {len(update.signatures)}")


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
        others = "1 other validator is" if before.namesakes == 1 else f"{before.namesakes} other validators are"
        dangers.append(f"{others} called {wanted.name}, too: this {follows}.")
    if wanted.power and not before.power and wanted.fee_recipient == wanted.engine_address:
        dangers.append("Nobody has the key of the account that its fees go to: without --fee-recipient they are lost.")
    may_fail = tolerated(_total_after(update))
    if not before.power and wanted.power > may_fail:
        dangers.append("Until this validator's node runs and has caught up, the network stands still.")
    elif wanted.power > max(may_fail, before.power):
        dangers.append("If this validator alone stops, the network stands still.")
    count = _count_after(update)
    if not tolerated(count) and tolerated(before.validators):
        dangers.append("Of validators of equal power none may then fail: if one stops, the network stands still.")
    return dangers


def tolerated(total_power: int) -> int:
    """How much power may fail: blocks need more than two thirds of it. Of validators of equal power, how many."""
    return (total_power - 1) // 3


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
        ("", f"Of {count} validators of equal power, {tolerated(count) or 'none'} may fail."),
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
