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
        ("[forward]\n", "`to`"),
        ('[forward]\nto = "a"\nsecret = "whsec_"\n', "secret"),
        ('[forward]\nto = "a"\ntimeout_s = 0\n', "timeout_s"),
        ('[forward]\nto = "a"\ndead_letter_after = -1\n', "dead_letter_after"),
        ('[forward]\nto = "a"\nfrom_height = "0"\n', "from_height"),
        ("[forward", "forward.toml"),
    ],
)
def test_a_file_that_is_wrong_is_refused_by_name(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "forward.toml"
    file.write_text(text)
    with pytest.raises(InvalidConfig, match=why) as refused:
        load_settings(file, {})
    assert "forward.toml" in str(refused.value)


def test_without_a_url_it_says_what_to_add() -> None:
    with pytest.raises(InvalidConfig, match="--to"):
        load_settings(None, {"to": None})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="cannot read"):
        load_settings(tmp_path / "nowhere.toml", {})
