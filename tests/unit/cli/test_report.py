"""How commands end."""

import json
import re
from pathlib import Path

import pytest
import typer

from cairn.cli.report import CommandFailed, ExitCode, NoSuchItem, reported_errors, warn
from cairn.domain.errors import InvalidConfig

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"


def test_the_page_has_every_exit_code_and_no_other() -> None:
    table = PAGE.read_text().partition("## Exit codes")[2]
    rows = re.findall(r"^\| (\d+) \| (.*?) \|", table, re.MULTILINE)
    assert rows == [(str(code.value), code.meaning) for code in ExitCode]


@pytest.mark.parametrize(
    ("error", "exit_code", "problem"),
    [
        (InvalidConfig("no such option"), 2, {"code": "USAGE"}),
        (CommandFailed("no", "NONCE_TOO_LOW"), 1, {"code": "NONCE_TOO_LOW"}),
        (NoSuchItem("gone", tx_hash="0xab"), 4, {"code": "NOT_FOUND", "txHash": "0xab"}),
    ],
)
def test_an_error_is_a_line_or_json(
    error: Exception, exit_code: int, problem: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, reported_errors():
        raise error
    assert ended.value.exit_code == exit_code
    assert capsys.readouterr().err == f"cairn: {error}\n"
    with pytest.raises(typer.Exit), reported_errors(as_json=True):
        raise error
    assert json.loads(capsys.readouterr().err) == {"exitCode": exit_code, "detail": str(error)} | problem


@pytest.mark.parametrize("as_json", [False, True])
def test_control_codes_in_an_error_are_escaped(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), reported_errors(as_json):
        raise CommandFailed("refused: \x1b]0;owned\x07\x9b2J\ncairn: done")
    warn("\x1b[2J")
    lines = capsys.readouterr().err.split("\n")
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)


def test_ctrl_c_exits_with_130(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, reported_errors():
        raise KeyboardInterrupt
    assert (ended.value.exit_code, capsys.readouterr().err) == (130, "")
