"""Arguments, variables and input that are not text."""

import io
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from cairn.cli.main import app
from cairn.cli.wallet import key_files
from cairn.domain.errors import InvalidConfig

NO_TEXT = os.fsdecode(b"\xff")

cli = CliRunner()


@pytest.fixture(autouse=True)
def handlers_stay() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def commands(group: Any, *path: str) -> Iterator[tuple[list[str], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *path, name)
        else:
            yield [*path, name], command


COMMANDS = list(commands(get_command(app)))


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(path) for path, _ in COMMANDS])
def test_no_command_takes_an_argument_or_option_that_is_not_utf_8(path: list[str], command: Any) -> None:
    options = [option.opts[0] for option in command.params if option.opts[0].startswith("--")]
    for args in ([NO_TEXT], *([option, NO_TEXT] for option in options), [f"--config={NO_TEXT}"]):
        result = cli.invoke(app, [*path, *args])
        assert result.exit_code == 2, args
        assert "is not text in UTF-8" in result.output
        assert len(result.output.splitlines()) == 1


def test_with_json_an_argument_that_is_not_utf_8_is_a_json_error() -> None:
    result = cli.invoke(app, ["keys", "sign", "dev0", NO_TEXT, "--json"])
    assert result.exit_code == 2
    assert result.output.startswith('{"exitCode":2,"code":"USAGE","detail":"the argument b')


def test_a_variable_that_is_not_utf_8_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAIRN_PASSWORD", NO_TEXT)
    result = cli.invoke(app, ["keys", "list"])
    assert (result.exit_code, result.output) == (
        2,
        "cairn: the environment variable CAIRN_PASSWORD is not text in UTF-8\n",
    )


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_standard_input_that_is_not_utf_8_is_refused(monkeypatch: pytest.MonkeyPatch, errors: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n"), "utf-8", errors))
    with pytest.raises(InvalidConfig, match="standard input is not text in UTF-8"):
        key_files._standard_input()


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "."])
def test_a_host_that_is_no_name_is_a_usage_error(host: str) -> None:
    result = cli.invoke(app, ["dev", "--port", "0", "--host", host])
    assert result.exit_code == 2
    assert f"cannot listen on {host}: it is not a host name" in result.output


def test_a_url_with_a_host_that_is_no_name_is_a_usage_error() -> None:
    result = cli.invoke(app, ["chain", "--node", "http://\u00fc..x"])
    assert (result.exit_code, result.exception.__class__) == (2, SystemExit)
    assert "expected a URL" in result.output
