"""Settings of a forwarder: options before the file, and nothing that is unknown or wrong."""

from pathlib import Path

import pytest

from cairn.cli.forward.settings import load_settings
from cairn.domain.errors import InvalidConfig


def test_options_go_before_the_file_and_its_paths_are_relative_to_it(tmp_path: Path) -> None:
    file = tmp_path / "forward.toml"
    file.write_text(
        '[forward]\nto = "https://a.example/"\ntimeout_s = 3\nstate = "state"\nsecret_file = "/etc/secret"\n'
    )
    settings = load_settings(file, {"to": None, "timeout_s": 5.0})
    assert (settings.to, settings.timeout_s) == ("https://a.example/", 5.0)
    assert (settings.state, settings.secret_file) == (str(tmp_path / "state"), "/etc/secret")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('to = "https://a.example/"', "expected one table"),
        ('[forward]\nto = "a"\n[other]\n', "expected one table"),
        ('[forward]\naddress = "a"\n', "unknown setting address; the settings are to, node, .* addresses, .*timeout_s"),
        ("[forward]\ntimeout_s = 0\n", "timeout_s: expected a number above 0, and 600 or less, got 0"),
        ("[forward]\ndead_letter_after = -1\n", "dead_letter_after: expected a whole number, 0 or more, got -1"),
        ('[forward]\nfrom_height = "0"\n', "from_height: expected a whole number, 0 or more, got '0'"),
        ('[forward]\naddresses = "a"\n', "addresses: expected a list of texts, got 'a'"),
        ("[forward]\nstate = 5\n", "state: expected text, got 5"),
        ("[forward", "Expected"),
    ],
)
def test_a_file_that_is_wrong_is_refused_by_name(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "forward.toml"
    file.write_text(text)
    with pytest.raises(InvalidConfig, match=f"forward.toml: .*{why}"):
        load_settings(file, {})


def test_an_option_that_is_wrong_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidConfig, match="^--timeout: expected a number above 0, and 600 or less, got 0.0$"):
        load_settings(None, {"timeout_s": 0.0})


@pytest.mark.parametrize(("name", "value"), [("direction", "in"), ("direction", "out"), ("amounts", "string")])
def test_what_is_for_payments_is_refused_without_addresses(name: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match=f"{name} is for payments, and blocks are sent"):
        load_settings(None, {name: value})
    assert load_settings(None, {name: value, "addresses": ["dev1"]}).addresses == ["dev1"]
    assert load_settings(None, {name: value, "addresses_file": "file"}).addresses_file == "file"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="cannot read"):
        load_settings(tmp_path / "nowhere.toml", {})
