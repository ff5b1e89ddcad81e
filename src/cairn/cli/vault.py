"""What needs the wallet library: locking and unlocking keys, and deriving them from words.

The library takes more than half a second to load, so only the commands that use a key import this module.
"""

from typing import Any

from eth_account import Account

from cairn.cli.report import WrongPassword
from cairn.domain.errors import InvalidConfig

MAX_SCRYPT_BYTES = 1 << 30
"""What unlocking may take; geth's own files take 256 MiB. A file could ask for all memory there is."""

Account.enable_unaudited_hdwallet_features()


def lock(key: bytes, password: str, work_factor: int | None = None) -> dict[str, Any]:
    """A keystore document, by scrypt; with the library's work factor, which is geth's, unless a test hurries."""
    return Account.encrypt(key, password, kdf="scrypt", iterations=work_factor)


def unlock(document: dict[str, Any], password: str, label: str) -> bytes:
    """Raises `WrongPassword`, or `InvalidConfig` when the document is not one that can be unlocked."""
    _check_work(document, label)
    try:
        return bytes(Account.decrypt(document, password))
    except ValueError as error:
        if "MAC mismatch" in str(error):
            raise WrongPassword(f"wrong password for {label}; nothing was done") from None
        raise InvalidConfig(f"{label} cannot be unlocked: {error}") from None
    except (KeyError, TypeError, AssertionError, NotImplementedError):
        raise InvalidConfig(f"{label} is no keystore file of version 3") from None


def key_from_words(words: str, path: str) -> bytes:
    """Raises `InvalidConfig` for words that are no mnemonic and for a path that is none."""
    try:
        return bytes(Account.from_mnemonic(" ".join(words.split()), account_path=path).key)
    except Exception as error:
        # The library raises what its parts raise (its own ValidationError, ValueError, others), and its text may
        # repeat the words.
        reason = "--path is wrong" if "path" in str(error).lower() else "a word or the checksum is wrong"
        raise InvalidConfig(f"these words give no key: {reason}") from None


def _check_work(document: dict[str, Any], label: str) -> None:
    try:
        crypto = {name.lower(): value for name, value in document.items()}["crypto"]
        parameters = crypto["kdfparams"] if crypto["kdf"] == "scrypt" else {}
        size = 128 * int(parameters.get("n", 0)) * int(parameters.get("r", 0))
    except (KeyError, TypeError, AttributeError, ValueError):
        raise InvalidConfig(f"{label} is no keystore file of version 3") from None
    if size > MAX_SCRYPT_BYTES:
        raise InvalidConfig(f"{label} asks for {size >> 20} MiB to be unlocked; more than 1 GiB is not taken")
