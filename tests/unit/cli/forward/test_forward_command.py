"""Every option of `cairn forward` reaches what it is for."""

import inspect
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from cairn.cli.forward import start
from cairn.cli.forward.forward_command import forward
from cairn.cli.forward.progress import NO_BLOCK, Cursor
from cairn.cli.forward.settings import ForwardSettings
from cairn.cli.main import app
from cairn.client import AsyncClient

ADDRESS = "0x" + 40 * "1"
OTHER = "0x" + 40 * "2"
GIVEN: dict[str, tuple[list[str], str, object]] = {
    "to": (["--to", "http://localhost:1/other"], "to", "http://localhost:1/other"),
    "address": (["--address", ADDRESS, "--address", OTHER], "addresses", [ADDRESS, OTHER]),
    "addresses_file": (["--addresses-file", "a.txt"], "addresses_file", "a.txt"),
    "direction": (["--direction", "out"], "direction", "out"),
    "amounts": (["--amounts", "string"], "amounts", "string"),
    "from_height": (["--from-height", "7"], "from_height", 7),
    "secret_file": (["--secret-file", "secret"], "secret_file", "secret"),
    "state": (["--state", "here"], "state", "here"),
    "timeout": (["--timeout", "3.5"], "timeout_s", 3.5),
    "dead_letter_after": (["--dead-letter-after", "9"], "dead_letter_after", 9),
    "insecure_http": (["--insecure-http"], "insecure_http", True),
    "node": (["--node", "http://localhost:2"], "node", "http://localhost:2"),
}


def forwarded(monkeypatch: pytest.MonkeyPatch, *args: str) -> tuple[ForwardSettings, bool, bool]:
    """What the command starts with."""
    seen: list[tuple[ForwardSettings, bool, bool]] = []
    monkeypatch.setattr(start, "forward_events", lambda *started: seen.append(started))
    # Without an account, what is for payments is refused.
    result = CliRunner().invoke(app, ["forward", "--to", "http://localhost:1/hook", "--address", ADDRESS, *args])
    assert (result.exit_code, result.output) == (0, "")
    return seen[0]


@pytest.mark.parametrize("option", GIVEN)
def test_an_option_is_the_setting(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    args, name, value = GIVEN[option]
    before, _, _ = forwarded(monkeypatch)
    settings, _, _ = forwarded(monkeypatch, *args)
    expected = [ADDRESS, *value] if isinstance(value, list) else value
    assert getattr(settings, name) == expected != getattr(before, name)


def test_no_option_is_left_out_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert {*inspect.signature(forward).parameters} - {"config", "once", "status", "quiet", "as_json"} == {*GIVEN}
    assert {*ForwardSettings.__struct_fields__} == {name for _, name, _ in GIVEN.values()}
    assert forwarded(monkeypatch)[1:] == (False, False)
    assert forwarded(monkeypatch, "--once")[1:] == (True, False)
    assert forwarded(monkeypatch, "--quiet")[1:] == (False, True)
    file = tmp_path / "forward.toml"
    file.write_text('[forward]\namounts = "string"\n')
    assert forwarded(monkeypatch, "--config", str(file))[0].amounts == "string"


class Recorder:
    """A client that is asked for payments once."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.events: list[Any] = []

    async def payments_and_blocks(self, *asked: Any) -> AsyncGenerator[Any, None]:
        self.asked.append(asked)
        for event in self.events:
            yield event


@pytest.mark.parametrize(("direction", "asked"), [(None, "in"), ("in", "in"), ("out", "out"), ("both", "both")])
async def test_the_accounts_and_the_direction_are_what_the_node_is_asked_for(
    direction: Any, asked: str, tmp_path: Path
) -> None:
    file = tmp_path / "more"
    file.write_text(f"{OTHER}\n{ADDRESS}\n")
    settings = ForwardSettings(addresses=[ADDRESS], addresses_file=str(file), direction=direction)
    node = Recorder()
    source = start.source_of(settings, cast("AsyncClient", node))
    assert [due async for due in source.due(Cursor("payment", 1, NO_BLOCK, "", 0))] == []
    assert node.asked == [([ADDRESS, OTHER], 0, asked)]
