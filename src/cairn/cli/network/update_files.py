"""Updates of a network's validators, in files that its administrators pass on, and the keys that sign them."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from cairn.cli.network.homes import read_public_key
from cairn.cometbft import COMETBFT_DIRECTORY
from cairn.domain.crypto import address_of_key, recover_sender
from cairn.domain.errors import InvalidConfig, NodeError
from cairn.domain.governance import Validator, ValidatorUpdate, sign_update, update_digest
from cairn.domain.update_text import encode_public_key, encode_update_text, parse_public_key, parse_update_text

PRIVATE_KEY_BYTES = 32


def describe(validator: Validator) -> str:
    name = validator.name or encode_public_key(validator.public_key)
    return f"{name} with power {validator.power}" if validator.power else f"{name} removed"


def choose_key(home: Path | None, public_key: str | None) -> bytes:
    if (home is None) == (public_key is None):
        raise InvalidConfig("name the validator by --home or by --public-key")
    if home is not None:
        return read_public_key(home / COMETBFT_DIRECTORY)
    try:
        return parse_public_key(public_key or "")
    except NodeError as error:
        raise InvalidConfig(f"--public-key: {error.detail}") from None


def with_signatures(update: ValidatorUpdate, key_files: Sequence[Path], chain_id: int) -> ValidatorUpdate:
    """Add the signature of each key, but none twice."""
    digest = update_digest(update, chain_id)
    try:
        signers = {recover_sender(digest, signature) for signature in update.signatures}
    except NodeError as error:
        raise InvalidConfig(f"a signature in the file is wrong: {error.detail}") from None
    keys = {address_of_key(key): key for key in map(read_key, key_files)}
    return sign_update(update, [key for address, key in keys.items() if address not in signers], chain_id)


def read_key(path: Path) -> bytes:
    """A private key from a file. Raises `InvalidConfig`, also when others may read the file."""
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise InvalidConfig(f"{path} can be read by others: chmod 600 {path}")
        key = bytes.fromhex(path.read_text().strip().removeprefix("0x"))
        if len(key) != PRIVATE_KEY_BYTES:
            raise ValueError("a key that lost a digit is not another key")
        address_of_key(key)
    except OSError as error:
        raise InvalidConfig(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        # Never with its content: that may be a key after all.
        raise InvalidConfig(f"{path} holds no private key of 64 hexadecimal digits") from None
    return key


def read_update(path: Path) -> tuple[int, ValidatorUpdate]:
    try:
        return parse_update_text(path.read_bytes())
    except OSError as error:
        raise InvalidConfig(f"cannot read {path}: {error.strerror}") from None
    except NodeError as error:
        raise InvalidConfig(f"{path}: {error.detail}") from None


def write_update(path: Path, chain_id: int, update: ValidatorUpdate) -> None:
    text = encode_update_text(chain_id, update)
    try:
        written = path.with_name(path.name + ".new")
        written.write_bytes(text)
        os.replace(written, path)
    except OSError as error:
        raise InvalidConfig(f"cannot write {path}: {error.strerror}") from None
    print(f"Wrote {path}; signatures so far: {len(update.signatures)}")
