"""What needs the wallet library: locking and unlocking keys, and deriving them from words.

The library takes more than half a second to load, so only the commands that use a key import this module.
"""

from typing import Any

from eth_account import Account

from cairn.cli.shared.report import WrongPassword
from cairn.client import keystore
from cairn.domain.errors import InvalidConfig

Account.enable_unaudited_hdwallet_features()


def lock(key: bytes, password: str, work_factor: int | None = None) -> dict[str, Any]:
    """A keystore document, by scrypt, with geth's work factor. Tests use a smaller one."""
    return Account.encrypt(key, password, kdf="scrypt", iterations=work_factor)


def unlock(document: dict[str, Any], password: str, label: str) -> bytes:
    """Raises `WrongPassword`, or `InvalidConfig` when the document is not one that can be unlocked."""
    try:
        return keystore.unlock(document, password)
    except keystore.WrongPassword:
        raise WrongPassword(f"wrong password for {label}; nothing was done") from None
    except keystore.InvalidKeystore as error:
        raise InvalidConfig(f"{label} {error}") from None


def key_from_words(words: str, path: str) -> bytes:
    """Raises `InvalidConfig` for an invalid mnemonic or path."""
    try:
        return bytes(Account.from_mnemonic(" ".join(words.split()), account_path=path).key)
    except Exception as error:
        # The library raises what its parts raise (its own ValidationError, ValueError, others), and its text may
        # repeat the words.
        reason = "--path is wrong" if "path" in str(error).lower() else "a word or the checksum is wrong"
        raise InvalidConfig(f"these words give no key: {reason}") from None
