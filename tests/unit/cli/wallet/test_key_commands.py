"""`cairn keys` without a terminal; tests/e2e/cli asks and answers at a real one."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct
from typer.testing import CliRunner, Result

from cairn.cli.main import app
from cairn.cli.wallet import key_commands, key_files
from cairn.domain.crypto import checksum_address
from cairn.domain.genesis import DEV_KEYS, DEV_MNEMONIC

FIRST, KEY = checksum_address(DEV_KEYS[0][0]), DEV_KEYS[0][1].hex()
PASSWORD = {"CAIRN_PASSWORD": "correct horse"}

lock_as_hard_as_geth = key_files.lock


@pytest.fixture(autouse=True)
def own_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CAIRN_KEYS", str(tmp_path / "keys"))
    monkeypatch.delenv("CAIRN_PASSWORD", raising=False)
    # Keys that protect nothing need not take a second each.
    monkeypatch.setattr(key_commands, "lock", lambda key, password: lock_as_hard_as_geth(key, password, 2**4))
    return tmp_path / "keys"


def run(*args: str, stdin: str | None = None, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, ["keys", *args], input=stdin, env=env)


def made(result: Result) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_new_key_is_locked_with_the_password(own_keys: Path) -> None:
    told = made(run("new", "alice", "--json", env=PASSWORD))
    path = own_keys / "alice.json"
    assert told == {"name": "alice", "address": told["address"], "path": str(path)}
    key = Account.decrypt(path.read_text(), "correct horse")
    assert Account.from_key(key).address == told["address"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_two_keys_are_the_same() -> None:
    assert (
        made(run("new", "a", "--json", env=PASSWORD))["address"]
        != made(run("new", "b", "--json", env=PASSWORD))["address"]
    )


@pytest.mark.parametrize("text", [KEY, f"0x{KEY}\n", DEV_MNEMONIC, DEV_MNEMONIC.replace(" ", "\n")])
def test_a_key_is_imported_from_standard_input_or_a_file(text: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(text)
    for name, args, stdin in (("piped", [], text), ("dash", ["-"], text), ("filed", [str(tmp_path / "secret")], None)):
        own = ["--keys", str(tmp_path / name)]
        assert made(run("import", name, *args, *own, "--json", stdin=stdin, env=PASSWORD))["address"] == FIRST


def test_a_stored_key_gets_a_second_name_only_with_force(own_keys: Path) -> None:
    run("import", "carl", stdin=KEY, env=PASSWORD)
    # Before a password is asked for: none is given.
    again = run("import", "karl", stdin=KEY)
    assert (again.exit_code, again.stdout) == (2, "")
    assert again.stderr == "cairn: this key already exists as carl; pass --force to store it under another name\n"
    assert not (own_keys / "karl.json").exists()
    assert made(run("import", "karl", "--force", "--json", stdin=KEY, env=PASSWORD))["address"] == FIRST


def test_the_path_chooses_the_account_of_a_mnemonic() -> None:
    told = made(run("import", "ninth", "--path", "m/44'/60'/0'/0/9", "--json", stdin=DEV_MNEMONIC, env=PASSWORD))
    assert told["address"] == checksum_address(DEV_KEYS[9][0])


def test_a_keystore_file_of_another_wallet_keeps_its_password(own_keys: Path, tmp_path: Path) -> None:
    theirs = Account.encrypt(DEV_KEYS[0][1], "their password", kdf="pbkdf2", iterations=10)
    # geth writes the address without 0x, some wallets none at all.
    del theirs["address"]
    (tmp_path / "UTC--2026").write_text(json.dumps(theirs))
    wrong = run("import", "alice", str(tmp_path / "UTC--2026"), env=PASSWORD)
    assert (wrong.exit_code, wrong.stderr) == (7, "cairn: wrong password for the keystore file; nothing was done\n")
    env = {"CAIRN_PASSWORD": "their password"}
    assert made(run("import", "alice", str(tmp_path / "UTC--2026"), "--json", env=env))["address"] == FIRST
    ours = json.loads((own_keys / "alice.json").read_text())
    assert ours["crypto"]["kdf"] == "scrypt"
    assert Account.decrypt(ours, "their password").hex().removeprefix("0x") == KEY


@pytest.mark.parametrize("text", ["", "12", "zz" * 32, "0" * 64, "f" * 64, "one two three", "{", "{}"])
def test_a_wrong_secret_is_refused_without_repeating_it(text: str, own_keys: Path) -> None:
    result = run("import", "alice", stdin=text, env=PASSWORD)
    assert result.exit_code == 2
    assert not text or text not in result.stderr or text in "{}"
    assert not own_keys.exists()


def test_a_password_file_gives_its_first_line(tmp_path: Path, own_keys: Path) -> None:
    (tmp_path / "password").write_text("from a file \nsecond line\n")
    assert run("new", "alice", "--password-file", str(tmp_path / "password"), env=PASSWORD).exit_code == 0
    assert Account.decrypt((own_keys / "alice.json").read_text(), "from a file ")


def test_without_a_source_for_the_password_a_key_is_not_made(tmp_path: Path) -> None:
    missing = run("new", "alice", "--password-file", str(tmp_path / "none"))
    assert (missing.exit_code, missing.stderr) == (
        2,
        f"cairn: cannot read {tmp_path / 'none'}: No such file or directory\n",
    )
    empty = run("new", "alice", env={"CAIRN_PASSWORD": ""})
    assert (empty.exit_code, empty.stderr) == (2, "cairn: an empty password protects nothing; nothing was done\n")


def test_the_list_is_a_table_or_json(own_keys: Path) -> None:
    assert run("list").stdout == f"There is no key in {own_keys}. `cairn keys new NAME` makes one.\n"
    assert made(run("list", "--json")) == []
    run("import", "bob", stdin=KEY, env=PASSWORD)
    assert run("list").stdout == f"name  address\nbob   {FIRST}\n"
    assert made(run("list", "--json")) == [{"name": "bob", "address": FIRST, "path": str(own_keys / "bob.json")}]


@pytest.mark.parametrize("text", ["hello", "", "größer", "0x1234"])
@pytest.mark.parametrize("signer", ["bob", FIRST, "dev0"])
def test_a_signature_is_what_wallets_make(text: str, signer: str) -> None:
    run("import", "bob", stdin=KEY, env=PASSWORD)
    expected = "0x" + Account.sign_message(encode_defunct(text=text), KEY).signature.hex().removeprefix("0x")
    assert run("sign", signer, text, env=PASSWORD).stdout == f"{expected}\n"
    assert run("sign", signer, "-", stdin=text, env=PASSWORD).stdout == f"{expected}\n"
    told = made(run("sign", signer, text, "--json", env=PASSWORD))
    assert told == {"address": FIRST, "message": text, "signature": expected}


@pytest.mark.parametrize(
    ("key", "exit_code", "message"),
    [
        ("nobody", 4, "there is no key nobody in"),
        (checksum_address(DEV_KEYS[1][0]).lower().replace("7", "8"), 4, "there is no stored key for 0x"),
        ("0x12", 2, "KEY: an address is 0x and 40 hexadecimal digits"),
        ("dev10", 2, "KEY: the dev accounts are dev0 to dev9"),
    ],
)
def test_signing_with_an_unknown_key_is_refused(key: str, exit_code: int, message: str) -> None:
    result = run("sign", key, "hello", env=PASSWORD)
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert message in result.stderr


@pytest.mark.parametrize("signer", ["bob", checksum_address(DEV_KEYS[1][0])])
def test_a_file_that_names_the_address_of_another_key_signs_nothing(signer: str, own_keys: Path) -> None:
    run("import", "bob", stdin=KEY, env=PASSWORD)
    path = own_keys / "bob.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"address": DEV_KEYS[1][0].hex()}))
    result = run("sign", signer, "hello", env=PASSWORD)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"key bob names the address 0x{DEV_KEYS[1][0].hex()}, but holds the key of {FIRST}" in result.stderr


def test_with_json_an_error_is_json_too() -> None:
    result = run("sign", "nobody", "hello", "--json")
    error = json.loads(result.stderr)
    assert (error["exitCode"], error["code"]) == (result.exit_code, "NOT_FOUND")
    assert "there is no key nobody" in error["detail"]
