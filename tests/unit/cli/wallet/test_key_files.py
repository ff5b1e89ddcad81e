"""Keys on disk: private, complete or absent, never overwritten; locked and unlocked as other wallets do."""

import copy
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from cairn.cli.report import NoSuchItem, PasswordRefused
from cairn.cli.wallet.key_files import Keystore, default_directory, key_from_words, lock, unlock
from cairn.domain.crypto import address_of_key
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import DEV_KEYS, DEV_MNEMONIC

ADDRESS = DEV_KEYS[0][0]
DOCUMENT = {"address": ADDRESS.hex(), "crypto": {}, "version": 3}
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


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_key_files_have_mode_0600_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        key = Keystore(tmp_path / "a" / "keys").add("alice", DOCUMENT)
    finally:
        os.umask(before)
    assert mode_of(key.path) == 0o600
    assert mode_of(key.path.parent) == 0o700
    assert json.loads(key.path.read_text()) == DOCUMENT


def test_a_key_is_found_by_name_and_by_address(tmp_path: Path) -> None:
    keystore = Keystore(tmp_path)
    added = keystore.add("alice", DOCUMENT)
    assert keystore.names() == ["alice"]
    assert keystore.get("alice") == added
    assert keystore.find_by_address(ADDRESS) == added
    assert keystore.find_by_address(DEV_KEYS[1][0]) is None


def test_no_key_is_overwritten_and_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keystore = Keystore(tmp_path)
    first = keystore.add("alice", DOCUMENT)
    with pytest.raises(InvalidConfig, match="the key alice already exists"):
        keystore.add("alice", DOCUMENT | {"version": 4})
    # Nor by two commands that both saw that there was none.
    monkeypatch.setattr(keystore, "check_new", lambda name: None)
    with pytest.raises(InvalidConfig, match="File exists"):
        keystore.add("alice", DOCUMENT | {"version": 4})
    assert [path.name for path in tmp_path.iterdir()] == ["alice.json"]
    assert keystore.get("alice") == first


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "../up", "-n", "dev0", "dev12", "0xab", "x" * 65, "ä"])
def test_a_name_that_looks_like_an_address_or_a_dev_account_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidConfig):
        Keystore(tmp_path).check_new(name)


def test_a_name_does_not_lead_out_of_the_directory(tmp_path: Path) -> None:
    Keystore(tmp_path).add("alice", DOCUMENT)
    with pytest.raises(NoSuchItem):
        Keystore(tmp_path / "keys").get("../alice")


def test_a_missing_key_says_what_to_do(tmp_path: Path) -> None:
    keystore = Keystore(tmp_path / "keys")
    with pytest.raises(NoSuchItem, match="`cairn keys new NAME` makes one"):
        keystore.get("alice")
    keystore.add("bob", DOCUMENT)
    with pytest.raises(NoSuchItem, match="there are: bob"):
        keystore.get("alice")


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"address": 5}', b'{"address": "12"}', b"\xff"])
def test_a_file_that_is_not_a_keystore_is_skipped_with_a_warning(
    tmp_path: Path, text: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    keystore = Keystore(tmp_path)
    keystore.add("alice", DOCUMENT)
    (tmp_path / "bad.json").write_bytes(text)
    assert [key.name for key in keystore.load_all()] == ["alice"]
    assert "bad.json is not a keystore file" in capsys.readouterr().err
    with pytest.raises(InvalidConfig, match="bad.json is not a keystore file"):
        keystore.get("bad")


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidConfig, match="cannot write"):
        Keystore(tmp_path / "file").add("alice", DOCUMENT)


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"CAIRN_KEYS": "/k", "XDG_DATA_HOME": "/x"}, "/k"),
        ({"XDG_DATA_HOME": "/x"}, "/x/cairn/keys"),
        ({"XDG_DATA_HOME": "relative"}, "/home/me/.local/share/cairn/keys"),
        ({}, "/home/me/.local/share/cairn/keys"),
    ],
)
def test_the_default_directory_follows_the_environment(
    variables: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CAIRN_KEYS", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"HOME": "/home/me"} | variables).items():
        monkeypatch.setenv(name, value)
    assert default_directory() == Path(place)


def test_a_user_without_a_home_has_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CAIRN_KEYS", "XDG_DATA_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    assert Keystore(default_directory()).names() == []
    with pytest.raises(NoSuchItem, match="there is no key alice in /.local/share/cairn/keys"):
        Keystore(default_directory()).get("alice")


def test_eth_account_decrypts_a_locked_key() -> None:
    document = lock(KEY, "pässword", LIGHT)
    assert bytes(Account.decrypt(document, "pässword")) == KEY
    assert document["crypto"]["kdf"] == "scrypt"
    assert document["address"].lower() == address_of_key(KEY).hex()


def test_the_work_factor_is_that_of_geth() -> None:
    assert lock(KEY, "password")["crypto"]["kdfparams"]["n"] == 262_144


@pytest.mark.parametrize("document", [PUBLISHED, PUBLISHED_PBKDF2])
def test_the_published_examples_unlock(document: dict[str, Any]) -> None:
    assert unlock(document, "testpassword", "the example").hex() == PUBLISHED_KEY


def test_a_wrong_password_and_a_wrong_file_are_different_errors() -> None:
    with pytest.raises(PasswordRefused, match="wrong password for key alice"):
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
def test_a_mnemonic_gives_the_keys_that_every_wallet_derives(index: int) -> None:
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
def test_a_wrong_mnemonic_is_refused_without_repeating_it(words: str, path: str) -> None:
    with pytest.raises(InvalidConfig, match="these words give no key") as refused:
        key_from_words(words, path)
    assert "test" not in refused.value.detail
