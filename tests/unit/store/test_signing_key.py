"""The files with signing keys: private, whole or refused by name, and exchanged at a hand-over."""

import json
from pathlib import Path

import pytest

from cairn.domain.ed25519 import verify
from cairn.domain.errors import InvalidConfig, NoSigningKey
from cairn.domain.genesis import DEV_SIGNER
from cairn.store.signing_key import KeyFiles, SigningKey, SigningKeys, key_text


@pytest.fixture
def files(tmp_path: Path) -> KeyFiles:
    return KeyFiles(tmp_path / "signing-key.json", tmp_path / "next-signing-key.json")


@pytest.fixture
def current(files: KeyFiles) -> SigningKey:
    key = SigningKey.new()
    key.save(files.current)
    return key


@pytest.fixture
def successor(files: KeyFiles) -> SigningKey:
    key = SigningKey.new()
    key.save(files.successor)
    return key


def test_a_saved_key_signs_as_before_and_only_its_owner_can_read_it(files: KeyFiles, current: SigningKey) -> None:
    assert files.current.stat().st_mode & 0o777 == 0o600
    again = SigningKey.load(files.current)
    assert verify(current.public_key, b"message", again.sign(b"message"))


def test_two_new_keys_differ() -> None:
    assert SigningKey.new().public_key != SigningKey.new().public_key


def test_no_text_of_a_key_shows_its_secret(files: KeyFiles, current: SigningKey) -> None:
    secret = json.loads(files.current.read_bytes())["seed"]
    assert secret not in repr(current)
    assert secret not in str(SigningKeys(files))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o610])
def test_a_key_that_others_can_read_is_refused(files: KeyFiles, current: SigningKey, mode: int) -> None:
    files.current.chmod(mode)
    with pytest.raises(InvalidConfig, match=f"signing-key.json can be read by others \\(mode {mode:o}\\)"):
        SigningKey.load(files.current)
    with pytest.raises(NoSigningKey, match="chmod 600"):
        SigningKeys(files)


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b'{"publicKey":"","seed":"?"}', b'{"publicKey":"","seed":"AAAA"}', b'{"seed":"AAAA"}', b"\xff"],
)
def test_a_file_without_a_key_is_refused_by_name(files: KeyFiles, current: SigningKey, content: bytes) -> None:
    files.current.write_bytes(content)
    with pytest.raises(InvalidConfig, match="signing-key.json holds no signing key"):
        SigningKey.load(files.current)


def test_a_key_with_another_s_public_half_is_refused(files: KeyFiles, current: SigningKey) -> None:
    fields = json.loads(files.current.read_bytes())
    fields["publicKey"] = key_text(SigningKey.new().public_key)
    files.current.write_text(json.dumps(fields))
    with pytest.raises(InvalidConfig, match="the two halves of the key"):
        SigningKey.load(files.current)


def test_a_file_that_cannot_be_read_is_refused_by_name(files: KeyFiles) -> None:
    files.current.mkdir()
    with pytest.raises(NoSigningKey, match="cannot read the signing key .*: Is a directory"):
        SigningKeys(files)


def test_a_missing_key_is_named_with_the_one_that_is_needed(files: KeyFiles) -> None:
    wanted = SigningKey.new().public_key
    with pytest.raises(NoSigningKey, match=f"signing-key.json is missing.*{key_text(wanted)[:20]}".replace("+", "[+]")):
        SigningKeys(files).key_of(wanted)


def test_another_key_than_the_chain_s_is_refused(files: KeyFiles, current: SigningKey) -> None:
    with pytest.raises(NoSigningKey, match="the home holds") as refusal:
        SigningKeys(files).key_of(SigningKey.new().public_key)
    assert key_text(current.public_key) in str(refusal.value)


def test_everybody_has_the_key_of_a_dev_chain() -> None:
    assert SigningKeys().key_of(DEV_SIGNER).public_key == DEV_SIGNER
    with pytest.raises(NoSigningKey, match="which this node does not have"):
        SigningKeys().key_of(bytes(32))


def test_the_successor_is_the_other_key_until_it_signs(
    files: KeyFiles, current: SigningKey, successor: SigningKey
) -> None:
    keys = SigningKeys(files)
    found = keys.successor_to(current.public_key)
    assert found is not None
    assert found.public_key == successor.public_key
    assert keys.successor_to(successor.public_key) is None


def test_the_successor_s_file_takes_the_place_of_the_other_once_it_signs(
    files: KeyFiles, current: SigningKey, successor: SigningKey
) -> None:
    keys = SigningKeys(files)
    keys.settle(current.public_key)
    assert files.successor.exists()
    keys.settle(successor.public_key)
    keys.settle(successor.public_key)
    assert not files.successor.exists()
    assert SigningKey.load(files.current).public_key == successor.public_key


def test_a_home_that_cannot_be_written_keeps_both_keys_and_goes_on(
    files: KeyFiles, current: SigningKey, successor: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*paths: object) -> None:
        raise PermissionError(13, "Permission denied")

    keys = SigningKeys(files)
    monkeypatch.setattr("cairn.store.signing_key.write_file", refuse)
    keys.settle(successor.public_key)
    assert SigningKeys(files).key_of(successor.public_key).public_key == successor.public_key
