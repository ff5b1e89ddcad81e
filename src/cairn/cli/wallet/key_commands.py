"""`cairn keys`: encrypted keys on this machine. No node is needed, and no key is ever shown."""

import json
import secrets
from pathlib import Path
from typing import Annotated

import typer

from cairn.cli.options import AsJson, KeysDirectory, PasswordFile, keystore_in, party_argument
from cairn.cli.report import reported_errors
from cairn.cli.screen import print_json, print_line, print_pairs, print_table
from cairn.cli.wallet.key_files import (
    KEY_BYTES,
    Keystore,
    StoredKey,
    key_from_words,
    lock,
    parse_private_key,
    read_password,
    read_secret,
    unlock,
)
from cairn.cli.wallet.parties import find_party
from cairn.domain.crypto import CURVE_ORDER, address_of_key, checksum_address, keccak256, sign_digest
from cairn.domain.errors import InvalidConfig

FIRST_PATH = "m/44'/60'/0'/0/0"

app = typer.Typer(no_args_is_help=True, help="Encrypted keys on this machine: make, import, list, sign.")

NewName = Annotated[str, typer.Argument(help="Name of the key.", metavar="NAME", show_default=False)]


@app.command()
def new(name: NewName, keys: KeysDirectory = None, password_file: PasswordFile = None, as_json: AsJson = False) -> None:
    """Create a key and store it, encrypted with a password."""
    with reported_errors(as_json):
        keystore = keystore_in(keys)
        keystore.check_new(name)
        password = read_password(password_file, f"New password for {name}: ", confirm=True)
        key = (1 + secrets.randbelow(CURVE_ORDER - 1)).to_bytes(KEY_BYTES, "big")
        show_added(keystore.add(name, lock(key, password)), as_json)


@app.command("import")
def import_key(
    name: NewName,
    file: Annotated[
        Path | None,
        typer.Argument(
            help="File with a private key in hex, a keystore (version 3), or the words of a mnemonic. "
            "Without it, the key is read from standard input or a hidden prompt.",
            metavar="[FILE]",
            show_default=False,
        ),
    ] = None,
    path: Annotated[
        str, typer.Option(help="Derivation path of the account, for a mnemonic.", metavar="PATH")
    ] = FIRST_PATH,
    force: Annotated[bool, typer.Option("--force", help="Store the key even if it exists under another name.")] = False,
    keys: KeysDirectory = None,
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """Import a key: a private key, a keystore file from any wallet, or the words of a mnemonic.

    A keystore file keeps its password. Secrets are never arguments, because other users can see those and shells record
    them.
    """
    with reported_errors(as_json):
        keystore = keystore_in(keys)
        keystore.check_new(name)
        secret = read_secret(file, "Private key or mnemonic: ").strip()
        key, password = open_secret(secret, path, password_file)
        if not force:
            check_unknown(keystore, key)
        if password is None:
            password = read_password(password_file, f"New password for {name}: ", confirm=True)
        show_added(keystore.add(name, lock(key, password)), as_json)


@app.command("list")
def list_keys(keys: KeysDirectory = None, as_json: AsJson = False) -> None:
    """List the keys with their addresses."""
    with reported_errors(as_json):
        keystore = keystore_in(keys)
        found = keystore.load_all()
        if as_json:
            print_json([described(key) for key in found])
        elif found:
            print_table(("name", "address"), [(key.name, checksum_address(key.address)) for key in found])
        else:
            print_line(f"There is no key in {keystore.directory}. `cairn keys new NAME` makes one.")


@app.command()
def sign(
    key: Annotated[str, party_argument("KEY", "The name or address of a key, or dev0 to dev9.")],
    message: Annotated[
        str, typer.Argument(help="The text to sign; - reads standard input.", metavar="TEXT", show_default=False)
    ],
    keys: KeysDirectory = None,
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """Sign a text, to prove that you hold a key (EIP-191, which wallets call personal_sign).

    To sign a transfer, use `cairn sign`. A signature made here is never valid for a transfer.
    """
    with reported_errors(as_json):
        signer = find_party(key, keystore_in(keys), "KEY")
        text = read_secret(Path("-"), "") if message == "-" else message
        signature = "0x" + sign_text(text.encode(), signer.unlock(password_file)).hex()
        if as_json:
            print_json({"address": signer.spelled, "message": text, "signature": signature})
        else:
            print_line(signature)


def open_secret(secret: str, path: str, password_file: Path | None) -> tuple[bytes, str | None]:
    """The private key in a text that `cairn keys import` reads, and its password if the text is a keystore."""
    if secret.startswith("{"):
        password = read_password(password_file, "Password of the keystore file: ")
        try:
            return unlock(json.loads(secret), password, "the keystore file"), password
        except ValueError:
            raise InvalidConfig("the keystore file is not JSON") from None
    if len(secret.split()) > 1:
        return key_from_words(secret, path), None
    try:
        return parse_private_key(secret), None
    except ValueError:
        # Never with its content: that may be a key after all.
        raise InvalidConfig(
            "this is not a private key (64 hexadecimal digits), keystore file (JSON) or mnemonic (words)"
        ) from None


def check_unknown(keystore: Keystore, key: bytes) -> None:
    """Check that the key is not stored yet: of two names for an account, only one is shown. Raises `InvalidConfig`."""
    known = keystore.find_by_address(address_of_key(key))
    if known is not None:
        raise InvalidConfig(f"this key already exists as {known.name}; pass --force to store it under another name")


def sign_text(text: bytes, key: bytes) -> bytes:
    """EIP-191, version E. Because of the prefix, the signature is never valid for a transaction."""
    digest = keccak256(b"\x19Ethereum Signed Message:\n" + str(len(text)).encode() + text)
    signature = sign_digest(digest, key)
    return signature[:64] + bytes((27 + signature[64],))


def described(key: StoredKey) -> dict[str, str]:
    return {"name": key.name, "address": checksum_address(key.address), "path": str(key.path)}


def show_added(key: StoredKey, as_json: bool) -> None:
    if as_json:
        print_json(described(key))
        return
    print_pairs([("name", key.name), ("address", checksum_address(key.address)), ("file", str(key.path))])
    print_line("Keep a copy of this file and of its password: nobody can recover either.")
