"""Keystores of strangers. tests/unit/cli/wallet/test_key_files.py has the published examples."""

import json
from typing import Any

import pytest
from eth_account import Account as EthAccount

from cairn.client import Account
from cairn.client.account import InvalidKeystore, WrongPassword, unlock

KEY = bytes.fromhex("4c" * 32)
PASSWORD = "open sesame"


def locked(kdf: str = "scrypt", key: bytes = KEY) -> dict[str, Any]:
    return EthAccount.encrypt(key, PASSWORD, kdf=kdf, iterations=2)  # type: ignore[arg-type]


def changed(kdf: str, **parameters: object) -> dict[str, Any]:
    document = locked(kdf)
    document["crypto"]["kdfparams"] |= parameters
    return document


@pytest.mark.parametrize("kdf", ["scrypt", "pbkdf2"])
def test_the_right_password_unlocks_and_another_does_not(kdf: str) -> None:
    assert unlock(locked(kdf), PASSWORD) == KEY
    assert unlock(json.dumps(locked(kdf)), PASSWORD) == KEY
    with pytest.raises(WrongPassword):
        unlock(locked(kdf), "open says me")


@pytest.mark.parametrize(
    "document",
    [
        changed("scrypt", n=2**40),
        changed("scrypt", r=2**30),
        changed("scrypt", p=2**30),
        changed("pbkdf2", c=2**40),
    ],
)
def test_more_work_than_wallets_ask_for_is_refused_before_it_is_done(document: dict[str, Any]) -> None:
    with pytest.raises(InvalidKeystore, match="asks for"):
        unlock(document, PASSWORD)


def test_an_upper_case_parameter_does_not_hide_the_work() -> None:
    document = changed("scrypt", N=2**40)
    with pytest.raises(InvalidKeystore, match="is not a keystore"):
        unlock(document, PASSWORD)
    del document["crypto"]["kdfparams"]["n"]
    with pytest.raises(InvalidKeystore, match="asks for"):
        unlock(document, PASSWORD)


@pytest.mark.parametrize(
    "keystore",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        {},
        {"version": 3},
        {"version": 3, "crypto": 5},
        locked() | {"version": 4},
        locked() | {"crypto": locked()["crypto"] | {"kdf": "md5"}},
        locked() | {"crypto": locked()["crypto"] | {"kdf": {}}},
        locked() | {"crypto": locked()["crypto"] | {"mac": 5}},
        locked() | {"crypto": locked()["crypto"] | {"cipherparams": []}},
        changed("scrypt", n="2"),
        changed("scrypt", n=3),
        changed("scrypt", n=-2),
        changed("scrypt", dklen=2**40),
        changed("scrypt", salt=None),
        changed("pbkdf2", c=0),
        changed("pbkdf2", prf="md5"),
    ],
)
def test_a_malformed_keystore_raises_invalid_keystore(keystore: str | dict[str, Any]) -> None:
    with pytest.raises(InvalidKeystore):
        Account.from_keystore(keystore, PASSWORD)


def test_a_keystore_that_names_another_address_is_refused() -> None:
    own = Account(KEY).address
    for address in (own, own.lower(), own[2:], "", None):
        assert unlock(locked() | {"address": address}, PASSWORD) == KEY
    with pytest.raises(InvalidKeystore, match=f"names the address 0x7099.*, but holds the key of {own}"):
        unlock(locked() | {"address": Account.dev(1).address}, PASSWORD)
