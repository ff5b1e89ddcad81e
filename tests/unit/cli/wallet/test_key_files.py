"""Keys on disk: private, whole or not there, and never overwritten."""

import json
import os
import stat
from pathlib import Path

import pytest

from cairn.cli.shared.report import NotFound
from cairn.cli.wallet.key_files import Keystore, default_directory
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import DEV_KEYS

ADDRESS = DEV_KEYS[0][0]
DOCUMENT = {"address": ADDRESS.hex(), "crypto": {}, "version": 3}


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_can_read_them_whatever_the_umask(tmp_path: Path) -> None:
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
def test_a_name_that_would_be_taken_for_something_else_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidConfig):
        Keystore(tmp_path).check_new(name)


def test_a_name_does_not_lead_out_of_the_directory(tmp_path: Path) -> None:
    Keystore(tmp_path).add("alice", DOCUMENT)
    with pytest.raises(NotFound):
        Keystore(tmp_path / "keys").get("../alice")


def test_a_missing_key_says_what_to_do(tmp_path: Path) -> None:
    keystore = Keystore(tmp_path / "keys")
    with pytest.raises(NotFound, match="`cairn keys new NAME` makes one"):
        keystore.get("alice")
    keystore.add("bob", DOCUMENT)
    with pytest.raises(NotFound, match="there are: bob"):
        keystore.get("alice")


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"address": 5}', b'{"address": "12"}', b"\xff"])
def test_a_file_that_is_no_key_is_named_and_hides_no_other(
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
def test_where_keys_are_kept(variables: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CAIRN_KEYS", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"HOME": "/home/me"} | variables).items():
        monkeypatch.setenv(name, value)
    assert default_directory() == Path(place)
