"""Settings that are read again while the node runs."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cairn.config import FIELDS, Settings, load_settings
from cairn.domain.errors import InvalidConfig
from cairn.live_settings import LIVE, LiveSettings


class Written:
    """A settings file."""

    def __init__(self) -> None:
        self.text = 'rate_limit_per_s = 5\nlog_level = "info"\n'

    def read(self) -> Settings:
        return load_settings(self.text)


def accept(settings: Settings) -> None:
    pass


def test_live_settings_are_applied_and_the_others_need_a_restart() -> None:
    written = Written()
    live = LiveSettings(written.read(), written.read, accept)
    written.text = 'rate_limit_per_s = 7\nlog_level = "debug"\nport = 9000\n'
    changes = live.reread()
    assert sorted(changes.taken) == ["log_level", "rate_limit_per_s"]
    assert changes.need_restart == ["port"]
    assert (live.current.rate_limit_per_s, live.current.log_level) == (7, "debug")
    assert live.current.port == Settings().port
    # Only what is new the next time; what needs a restart still does.
    again = live.reread()
    assert (again.taken, again.need_restart) == ([], ["port"])


def test_values_derived_from_settings_are_kept() -> None:
    written = Written()
    derived = load_settings(written.text, flags={"cometbft_rpc": "tcp://127.0.0.1:1"})
    live = LiveSettings(derived, written.read, accept)
    written.text += "idle_timeout_s = 9\n"
    assert live.reread().need_restart == []
    assert (live.current.cometbft_rpc, live.current.idle_timeout_s) == ("tcp://127.0.0.1:1", 9)


def refuse(settings: Settings) -> None:
    raise InvalidConfig("cannot use tls_cert")


@pytest.mark.parametrize(
    ("text", "check"),
    [("rate_limit_per_s = -1", accept), ("no toml", accept), ("unknown = 1", accept), ("port = 1", refuse)],
)
def test_settings_that_are_refused_change_nothing(text: str, check: Callable[[Settings], None]) -> None:
    written = Written()
    live = LiveSettings(written.read(), written.read, check)
    before = live.current
    written.text = f'{text}\nlog_level = "debug"\n'
    with pytest.raises(InvalidConfig):
        live.reread()
    assert live.current == before


def test_a_certificate_can_be_another_one_but_not_come_or_go() -> None:
    written = Written()
    live = LiveSettings(written.read(), written.read, accept)
    written.text += 'tls_cert = "a"\ntls_key = "b"\n'
    assert (live.reread().taken, live.current.tls_cert) == ([], "")
    live = LiveSettings(written.read(), written.read, accept)
    written.text = written.text.replace('"a"', '"c"')
    assert (live.reread().taken, live.current.tls_cert) == (["tls_cert"], "c")


def test_without_a_file_nothing_changes() -> None:
    live = LiveSettings(Settings(), None, accept)
    assert (live.reread().taken, live.current) == ([], Settings())


def test_the_page_lists_exactly_the_settings_that_may_change() -> None:
    page = (Path(__file__).parents[2] / "docs" / "running.md").read_text()
    section = page.partition("\n## Change settings without a restart\n")[2].partition("\n## ")[0]
    named = {name for name in re.findall(r"`(\w+)`", section) if name in FIELDS}
    assert named == set(LIVE)
