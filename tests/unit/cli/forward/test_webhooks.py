"""Signatures as the specification has them, and the files that secrets are read from."""

import os
from pathlib import Path

import pytest

from cairn.cli.forward.webhooks import SECRET_VARIABLE, Webhook, headers_of, load_keys, parse_secrets
from cairn.domain.errors import InvalidConfig

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SECRET_VARIABLE, raising=False)


def secret_file(directory: Path, text: str, mode: int = 0o600) -> Path:
    path = directory / "given"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_the_specifications_own_example_has_its_signature() -> None:
    webhook = Webhook("msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}')
    assert headers_of(webhook, parse_secrets(SECRET, ""), 1614265330) == {
        "content-type": "application/json",
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_while_a_secret_is_replaced_both_sign(tmp_path: Path) -> None:
    keys, _ = load_keys(secret_file(tmp_path, f"{SECRET}\nwhsec_{'A' * 32}\n"), tmp_path / "own")
    signatures = headers_of(Webhook("a", b"{}"), keys, 1)["webhook-signature"].split(" ")
    assert len(signatures) == 2
    assert [headers_of(Webhook("a", b"{}"), [key], 1)["webhook-signature"] for key in keys] == signatures


def test_without_a_secret_one_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    own = tmp_path / "secret"
    made, place = load_keys(None, own)
    assert "made now" in place
    assert own.stat().st_mode & 0o777 == 0o600
    assert own.read_text().startswith("whsec_")
    assert load_keys(None, own) == (made, str(own))
    assert len(made[0]) == 32


def test_the_file_goes_before_the_variable_and_the_variable_before_a_made_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, f"whsec_{'B' * 32}")
    assert load_keys(None, tmp_path / "own")[1] == SECRET_VARIABLE
    assert load_keys(secret_file(tmp_path, SECRET), tmp_path / "own")[0] == parse_secrets(SECRET, "")
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize(
    "text",
    ["", "\n", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAA", "whsec_%%%%", f"whsec_{'A' * 88}AAAA", "whsec_é"],
)
def test_what_is_no_secret_is_refused_without_repeating_it(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        load_keys(secret_file(tmp_path, text), tmp_path / "own")
    assert str(refused.value).count("whsec_") == 1


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="chmod 600"):
        load_keys(secret_file(tmp_path, SECRET, 0o640), tmp_path / "own")


def test_a_secret_file_that_is_not_there_is_named_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="nowhere"):
        load_keys(tmp_path / "nowhere", tmp_path / "own")
    assert os.listdir(tmp_path) == []
