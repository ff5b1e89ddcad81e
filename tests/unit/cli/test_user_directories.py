"""Where commands keep what is the user's."""

from pathlib import Path

import pytest

from cairn.cli.user_directories import user_data, user_state


@pytest.mark.parametrize(("base", "place"), [("/x", "/x/cairn"), ("here", None), ("./here", None), ("", None)])
def test_a_relative_path_is_ignored(base: str, place: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a key would lie below whatever directory a command is started in."""
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_STATE_HOME", base)
    monkeypatch.setenv("XDG_DATA_HOME", base)
    assert user_state() == Path(place or "/home/me/.local/state/cairn")
    assert user_data() == Path(place or "/home/me/.local/share/cairn")
