"""Locking and unlocking: the files that wallets exchange, both ways, and the words they come from."""

import copy
from typing import Any

import pytest
from eth_account import Account

from cairn.cli.shared.report import WrongPassword
from cairn.cli.wallet.vault import key_from_words, lock, unlock
from cairn.domain.crypto import address_of_key
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import DEV_KEYS, DEV_MNEMONIC

KEY = DEV_KEYS[0][1]
LIGHT = 2**4
"""A work factor for keys that protect nothing."""

# The two examples of the Web3 Secret Storage Definition, as the Ethereum wiki gives them.
PUBLISHED_KEY = "7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d"
PUBLISHED = {
    "crypto": {
        "cipher": "aes-128-ctr",
        "cipherparams": {"iv": "83dbcc02d8ccb40e466191a123791e0e"},
        "ciphertext": "d172bf743a674da9cdad04534d56926ef8358534d458fffccd4e6ad2fbde479c",
        "kdf": "scrypt",
        "kdfparams": {
            "dklen": 32,
            "n": 262144,
            "p": 8,
            "r": 1,
            "salt": "ab0c7876052600dd703518d6fc3fe8984592145b591fc8fb5c6d43190334ba19",
        },
        "mac": "2103ac29920d71da29f15d75b4a16dbe95cfd7ff8faea1056c33131d846e3097",
    },
    "id": "3198bc9c-6672-5ab3-d995-4942343ae5b6",
    "version": 3,
}
PUBLISHED_PBKDF2 = {
    "Crypto": {
        "cipher": "aes-128-ctr",
        "cipherparams": {"iv": "6087dab2f9fdbbfaddc31a909735c1e6"},
        "ciphertext": "5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46",
        "kdf": "pbkdf2",
        "kdfparams": {
            "c": 262144,
            "dklen": 32,
            "prf": "hmac-sha256",
            "salt": "ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd",
        },
        "mac": "517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2",
    },
    "id": "3198bc9c-6672-5ab3-d995-4942343ae5b6",
    "version": 3,
}


def test_another_library_reads_what_we_lock() -> None:
    document = lock(KEY, "pässword", LIGHT)
    assert bytes(Account.decrypt(document, "pässword")) == KEY
    assert document["crypto"]["kdf"] == "scrypt"
    assert document["address"].lower() == address_of_key(KEY).hex()


def test_unless_a_test_hurries_it_is_as_hard_as_geth_makes_it() -> None:
    assert lock(KEY, "password")["crypto"]["kdfparams"]["n"] == 262_144


@pytest.mark.parametrize("document", [PUBLISHED, PUBLISHED_PBKDF2])
def test_the_published_examples_unlock(document: dict[str, Any]) -> None:
    assert unlock(document, "testpassword", "the example").hex() == PUBLISHED_KEY


def test_a_wrong_password_is_told_from_a_wrong_file() -> None:
    with pytest.raises(WrongPassword, match="wrong password for key alice"):
        unlock(lock(KEY, "right", LIGHT), "wrong", "key alice")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("version",), 1, "is not a keystore file of version 3"),
        (("version",), 4, "is not a keystore file of version 3"),
        (("address",), "00" * 20, "names the address 0x0{40}, but holds the key of 0xf39F"),
        (("crypto",), None, "is not a keystore file of version 3"),
        (("crypto", "kdf"), "md5", "is not a keystore file of version 3"),
        (("crypto", "kdfparams"), {}, "is not a keystore file of version 3"),
        (("crypto", "kdfparams", "n"), 2**40, "asks for 1073741824 MiB"),
        (("crypto", "ciphertext"), "zz", "cannot be unlocked"),
    ],
)
def test_a_file_that_cannot_be_unlocked_is_named(path: tuple[str, ...], value: object, message: str) -> None:
    document = copy.deepcopy(lock(KEY, "password", LIGHT))
    part = document
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    with pytest.raises(InvalidConfig, match=f"key alice {message}"):
        unlock(document, "password", "key alice")


@pytest.mark.parametrize("index", [0, 9])
def test_words_give_the_keys_that_every_wallet_derives(index: int) -> None:
    spaced = DEV_MNEMONIC.replace(" ", "  \n")
    assert key_from_words(spaced, f"m/44'/60'/0'/0/{index}") == DEV_KEYS[index][1]


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (DEV_MNEMONIC.replace("junk", "test"), "m/44'/60'/0'/0/0"),
        ("one two", "m/0"),
        (DEV_MNEMONIC, "44/60"),
        (DEV_MNEMONIC, "m/x"),
    ],
)
def test_words_that_give_no_key_are_not_repeated(words: str, path: str) -> None:
    with pytest.raises(InvalidConfig, match="these words give no key") as refused:
        key_from_words(words, path)
    assert "test" not in refused.value.detail
