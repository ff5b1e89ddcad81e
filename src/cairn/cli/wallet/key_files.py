"""Encrypted keys on disk: a file for each, NAME.json, in the Web3 Secret Storage format (keystore V3) that geth reads.

The wallet library takes more than half a second to load, so only what locks, unlocks or derives a key imports it.
Passwords and other secrets come from a prompt that does not show them, a file or a variable; never from an argument.
"""

import getpass
import json
import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cairn.cli.report import NoSuchItem, PasswordRefused, warn
from cairn.cli.screen import is_text
from cairn.cli.user_directories import user_data
from cairn.domain.crypto import CURVE_ORDER, parse_address
from cairn.domain.errors import InvalidConfig, InvalidField
from cairn.domain.types import Address
from cairn.store.directory import sync_directory

SUFFIX = ".json"
PASSWORD_VARIABLE = "CAIRN_PASSWORD"
KEY_BYTES = 32
_is_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}").fullmatch
match_dev_name = re.compile(r"dev([0-9]+)").fullmatch


def default_directory() -> Path:
    """CAIRN_KEYS, or `keys` in the user's data."""
    chosen = os.environ.get("CAIRN_KEYS")
    if chosen:
        return Path(chosen)
    return user_data() / "keys"


@dataclass(frozen=True, slots=True)
class StoredKey:
    name: str
    path: Path
    address: Address
    document: dict[str, Any]
    """The file: the key is in it, encrypted."""


class Keystore:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def names(self) -> list[str]:
        try:
            return sorted(path.name.removesuffix(SUFFIX) for path in self.directory.glob(f"*{SUFFIX}"))
        except OSError:
            return []

    def load_all(self) -> list[StoredKey]:
        """The keys that can be read. A warning names each that cannot."""
        found = []
        for name in self.names():
            try:
                found.append(self.get(name))
            except (InvalidConfig, NoSuchItem) as error:
                warn(f"skipped: {error}")
        return found

    def get(self, name: str) -> StoredKey:
        """The key of this name. Raises `NoSuchItem`, or `InvalidConfig` when the file is not a key."""
        path = self._path_of(name)
        try:
            if not _is_name(name):
                raise FileNotFoundError(name)
            return StoredKey(name, path, *read_document(path.read_bytes(), str(path)))
        except FileNotFoundError:
            raise NoSuchItem(f"there is no key {name} in {self.directory}; {self._next_step()}") from None
        except OSError as error:
            raise InvalidConfig(f"cannot read {path}: {error.strerror}") from None

    def find_by_address(self, address: Address) -> StoredKey | None:
        return next((key for key in self.load_all() if key.address == address), None)

    def check_new(self, name: str) -> None:
        """Check that a key of this name can be added, before a password is typed. Raises `InvalidConfig`."""
        if not _is_name(name):
            raise InvalidConfig(f"{name!r} cannot name a key: use letters, digits, '.', '_' and '-', at most 64")
        if match_dev_name(name) or name.startswith("0x"):
            raise InvalidConfig(
                f"{name} cannot name a key: it looks like {'an address' if name[0] == '0' else 'a dev account'}"
            )
        if self._path_of(name).exists():
            raise InvalidConfig(f"the key {name} already exists, and is never overwritten: {self._path_of(name)}")

    def add(self, name: str, document: dict[str, Any]) -> StoredKey:
        """Write a key so that the file is either complete and on disk, or does not exist."""
        self.check_new(name)
        path = self._path_of(name)
        text = json.dumps(document, indent=2).encode() + b"\n"
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._scratch_file(text) as written:
                # Unlike a rename, a link fails when somebody else has just taken the name.
                os.link(written, path)
            sync_directory(self.directory)
        except OSError as error:
            self.check_new(name)
            raise InvalidConfig(f"cannot write {path}: {error.strerror}") from None
        return self.get(name)

    @contextmanager
    def _scratch_file(self, content: bytes) -> Iterator[Path]:
        path = self.directory / f".{secrets.token_hex(8)}.new"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            yield path
        finally:
            path.unlink()

    def _path_of(self, name: str) -> Path:
        return self.directory / f"{name}{SUFFIX}"

    def _next_step(self) -> str:
        names = self.names()
        if names:
            return f"there are: {', '.join(names)}"
        return "`cairn keys new NAME` makes one, `cairn keys import NAME` imports one"


def read_document(text: bytes, label: str) -> tuple[Address, dict[str, Any]]:
    """A keystore file and its address. Raises `InvalidConfig` if it is not a keystore."""
    try:
        document = json.loads(text)
        spelled = str(document["address"])
        # In lower case: wallets differ about the 0x and about the checksum.
        address = parse_address("0x" + spelled.removeprefix("0x").lower(), "address")
    except (ValueError, KeyError, TypeError, InvalidField):
        raise InvalidConfig(f"{label} is not a keystore file (version 3) with an address") from None
    return address, document


def parse_private_key(text: str) -> bytes:
    """The key that these hexadecimal digits are. Raises `ValueError` unless it is one of secp256k1."""
    key = bytes.fromhex(text.strip().removeprefix("0x"))
    if len(key) != KEY_BYTES or not 0 < int.from_bytes(key, "big") < CURVE_ORDER:
        raise ValueError("not a private key")
    return key


def lock(key: bytes, password: str, work_factor: int | None = None) -> dict[str, Any]:
    """A keystore document, by scrypt, with geth's work factor. Tests use a smaller one."""
    from eth_account import Account

    return Account.encrypt(key, password, kdf="scrypt", iterations=work_factor)


def unlock(document: dict[str, Any], password: str, label: str) -> bytes:
    """The private key. Raises `PasswordRefused`, or `InvalidConfig` when the document cannot be unlocked."""
    from cairn.client import account

    try:
        return account.unlock(document, password)
    except account.WrongPassword:
        raise PasswordRefused(f"wrong password for {label}; nothing was done") from None
    except account.InvalidKeystore as error:
        raise InvalidConfig(f"{label} {error}") from None


def key_from_words(words: str, path: str) -> bytes:
    """The private key at `path` of a mnemonic. Raises `InvalidConfig` for an invalid one of either."""
    from eth_account import Account

    Account.enable_unaudited_hdwallet_features()
    try:
        return bytes(Account.from_mnemonic(" ".join(words.split()), account_path=path).key)
    except Exception as error:
        # The library raises what its parts raise (its own ValidationError, ValueError, others), and its text may
        # repeat the words.
        reason = "--path is wrong" if "path" in str(error).lower() else "a word or the checksum is wrong"
        raise InvalidConfig(f"these words give no key: {reason}") from None


def read_password(file: Path | None, prompt: str, confirm: bool = False) -> str:
    """From `file`, else the variable, else asked for, twice with `confirm`. Raises `InvalidConfig` without a source."""
    if file is not None:
        password = _first_line(file)
    elif PASSWORD_VARIABLE in os.environ:
        password = os.environ[PASSWORD_VARIABLE]
    else:
        password = ask_secret(prompt, f"--password-file FILE or {PASSWORD_VARIABLE}")
        if confirm and ask_secret("Again: ", "") != password:
            raise InvalidConfig("the two passwords differ; nothing was written")
    if not password:
        raise InvalidConfig("an empty password protects nothing; nothing was done")
    return password


def ask_secret(prompt: str, otherwise: str) -> str:
    """Ask at the terminal, even when standard input is a pipe. Raises `InvalidConfig` when nobody is there."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        raise InvalidConfig(f"there is no terminal to ask at; use {otherwise}") from None
    try:
        with suppress(UnicodeDecodeError):
            typed = getpass.getpass(prompt)
            if is_text(typed):
                return typed
    except EOFError:
        raise InvalidConfig("nothing was typed; nothing was done") from None
    raise InvalidConfig("what was typed is not text in UTF-8; nothing was done")


def read_secret(file: Path | None, prompt: str) -> str:
    """A key or words: from `file`, from standard input when it is a pipe or `-`, else asked for."""
    if file is None and sys.stdin.isatty():
        return ask_secret(prompt, "a file or standard input")
    if file is None or str(file) == "-":
        return _standard_input()
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is not text'}") from None


def _standard_input() -> str:
    with suppress(UnicodeDecodeError):
        text = sys.stdin.read()
        if is_text(text):
            return text
    raise InvalidConfig("standard input is not text in UTF-8")


def _first_line(file: Path) -> str:
    try:
        with file.open() as lines:
            return lines.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is not text'}") from None
