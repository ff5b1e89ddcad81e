"""Updates of a network, in files that its administrators pass on, and the keys that sign them."""

import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cairn.cli.network.homes import read_public_key
from cairn.cli.network.update_display import dangers_of, fields_of
from cairn.cli.shared.report import CommandFailed, warn
from cairn.cli.shared.screen import print_pairs
from cairn.cometbft import COMETBFT_DIRECTORY, CometBFT
from cairn.domain.crypto import address_of_key, recover_sender
from cairn.domain.errors import InvalidConfig, NodeError
from cairn.domain.governance import ChainIdentity, Update, ValidatorUpdate, update_digest
from cairn.domain.types import Address
from cairn.domain.update_text import encode_update_text, parse_public_key, parse_update_text
from cairn.domain.updates import sign_update

PRIVATE_KEY_BYTES = 32


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
        print("Is this right? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
        raise CommandFailed("nothing was signed or submitted")
    if isinstance(update, ValidatorUpdate) and update.before.namesakes and not update.before.power:
        raise CommandFailed(f"a validator is called {update.validator.name} already; --yes adds a second key")


def choose_key(home: Path | None, public_key: str | None) -> bytes:
    if (home is None) == (public_key is None):
        raise InvalidConfig("name the validator by --home or by --public-key")
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


def read_keys(paths: Sequence[Path]) -> dict[Address, bytes]:
    """Raises `InvalidConfig`."""
    return {address_of_key(key): key for key in map(read_key, paths)}


def with_signatures(update: Update, keys: Mapping[Address, bytes], chain: ChainIdentity) -> Update:
    """Add the signature of each key, but none twice."""
    digest = update_digest(update, chain)
    try:
        signers = {recover_sender(digest, signature) for signature in update.signatures}
    except NodeError as error:
        raise InvalidConfig(f"a signature in the file is wrong: {error.detail}") from None
    return sign_update(update, [key for address, key in keys.items() if address not in signers], chain)


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


def read_update(path: Path) -> tuple[ChainIdentity, Update]:
    try:
        return parse_update_text(path.read_bytes())
    except OSError as error:
        raise InvalidConfig(f"cannot read {path}: {error.strerror}") from None
    except NodeError as error:
        raise InvalidConfig(f"{path}: {error.detail}") from None


def write_update(path: Path, chain: ChainIdentity, update: Update) -> None:
    text = encode_update_text(chain, update)
    try:
        written = path.with_name(path.name + ".new")
        written.write_bytes(text)
        os.replace(written, path)
    except OSError as error:
        raise InvalidConfig(f"cannot write {path}: {error.strerror}") from None
    print(f"Wrote {path}; signatures so far: {len(update.signatures)}")
