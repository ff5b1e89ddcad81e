"""Unlocking a keystore of version 3 (Web3 Secret Storage), which may be anybody's file.

It brings the wallet library along, a hundred modules: only what unlocks a key imports it.
"""

import json
from collections.abc import Mapping
from typing import Any

from eth_account import Account as EthAccount

from cairn.domain.crypto import CURVE_ORDER, address_of_key, checksum_address

MAX_SCRYPT_BYTES = 1 << 30
"""What scrypt may go through; geth's own files take 256 MiB. A file could ask for all memory there is."""
MAX_PBKDF2_ROUNDS = 10_000_000
"""geth's own files take 262144."""
_DERIVED_BYTES = 32


class InvalidKeystore(ValueError):
    """It is none of version 3, or not one that can be trusted."""


class WrongPassword(ValueError):
    pass


def unlock(keystore: str | Mapping[str, Any], password: str) -> bytes:
    """The private key. Raises `WrongPassword`, `InvalidKeystore`."""
    document = _read(keystore)
    _check_work(document)
    try:
        key = bytes(EthAccount.decrypt(document, password))
    except Exception as error:
        # The library raises all kinds of exceptions for malformed files.
        if "MAC mismatch" in str(error):
            raise WrongPassword("wrong password") from None
        raise InvalidKeystore(f"cannot be unlocked: {error}") from None
    _check_key(key, document)
    return key


def _read(keystore: str | Mapping[str, Any]) -> dict[str, Any]:
    """The keystore with lower-case names, as the library reads it: what is checked here must be what it uses."""
    try:
        document = json.loads(keystore) if isinstance(keystore, str) else keystore
        if isinstance(document, Mapping):
            lowered = _lowered(document)
            if lowered.get("version") == 3:
                return lowered
    except (ValueError, RecursionError):
        pass
    raise InvalidKeystore("is not a keystore file of version 3")


def _lowered(names: Mapping[str, Any]) -> dict[str, Any]:
    lowered = {name.lower(): _lowered(value) if isinstance(value, Mapping) else value for name, value in names.items()}
    if len(lowered) != len(names):
        raise ValueError("a name is given twice")
    return lowered


def _check_work(document: dict[str, Any]) -> None:
    try:
        kdf, parameters = document["crypto"]["kdf"], document["crypto"]["kdfparams"]
        names = {"scrypt": ("n", "r", "p"), "pbkdf2": ("c",)}[kdf]
        numbers = [parameters[name] for name in names]
        is_sound = parameters["dklen"] == _DERIVED_BYTES and all(type(number) is int for number in numbers)
    except (KeyError, TypeError):
        is_sound = False
    if not is_sound:
        raise InvalidKeystore("is not a keystore file of version 3")
    if kdf == "pbkdf2" and numbers[0] > MAX_PBKDF2_ROUNDS:
        raise InvalidKeystore(
            f"asks for {numbers[0]} rounds to be unlocked; more than {MAX_PBKDF2_ROUNDS} are not taken"
        )
    if kdf == "scrypt" and (size := 128 * numbers[0] * numbers[1] * numbers[2]) > MAX_SCRYPT_BYTES:
        raise InvalidKeystore(f"asks for {size >> 20} MiB to be unlocked; more than 1 GiB is not taken")


def _check_key(key: bytes, document: dict[str, Any]) -> None:
    if len(key) != 32 or not 0 < int.from_bytes(key, "big") < CURVE_ORDER:
        raise InvalidKeystore("holds no private key")
    named = str(document.get("address") or "").lower().removeprefix("0x")
    address = address_of_key(key)
    # Some wallets name none. One that is wrong would have somebody else's account shown, and this one pay.
    if named and named != address.hex():
        raise InvalidKeystore(f"names the address 0x{named}, but holds the key of {checksum_address(address)}")
