"""The report of `make steady`."""

import sys

import pytest

from tools.steady import Run, report


@pytest.mark.parametrize(
    ("args", "command"),
    [([], "make steady"), (["--runs", "2", "--under", "busy"], 'make steady ARGS="--runs 2 --under busy"')],
)
def test_the_report_begins_with_the_command_to_repeat_it(
    monkeypatch: pytest.MonkeyPatch, args: list[str], command: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["tools/steady.py", *args])
    assert f"\n`{command}`, " in report([Run("test-unit", "busy", passed=3)])
