"""Log lines: ours and the libraries' alike, as text or as JSON, never with a variable's value in a traceback."""

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from cairn.log import configure_logging


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level
    logging.getLogger("cairn").setLevel(logging.NOTSET)
    structlog.reset_defaults()


def test_json_has_one_object_a_line_with_everything_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "json")
    structlog.get_logger("cairn.core").warning("block late", height=7)
    logging.getLogger("websockets.server").error("it %s", "broke")
    ours, theirs = map(json.loads, capsys.readouterr().err.splitlines())
    assert ours["event"] == "block late"
    assert (ours["height"], ours["level"], ours["logger"]) == (7, "warning", "cairn.core")
    assert ours["timestamp"].endswith("Z")
    assert (theirs["event"], theirs["level"], theirs["logger"]) == ("it broke", "error", "websockets.server")


def test_text_is_one_readable_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "text")
    structlog.get_logger("cairn.core").info("block made", height=7)
    (line,) = capsys.readouterr().err.splitlines()
    assert "block made" in line
    assert "height=7" in line


def test_messages_below_the_level_are_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("warning", "text")
    structlog.get_logger("cairn.core").info("quiet")
    logging.getLogger("asyncio").info("quiet")
    assert capsys.readouterr().err == ""


def test_a_library_is_heard_only_when_something_is_wrong_or_when_all_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging("info", "text")
    logging.getLogger("websockets.server").info("started")
    assert capsys.readouterr().err == ""
    configure_logging("debug", "text")
    logging.getLogger("websockets.server").info("started")
    assert "started" in capsys.readouterr().err


@pytest.mark.parametrize("style", ["text", "json"])
def test_a_traceback_shows_no_variables(style: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", style)
    private_key = "do not " + "show"
    try:
        raise ValueError(len(private_key))
    except ValueError:
        structlog.get_logger("cairn.core").exception("failed")
    logged = capsys.readouterr().err
    assert "ValueError: 11" in logged
    assert "do not show" not in logged


@pytest.mark.parametrize("style", ["text", "json"])
def test_control_codes_and_line_ends_in_values_are_escaped(style: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", style)
    structlog.get_logger("cairn.api").error("a request failed", path="/\x1b[2J\x9b1m\n12:00:00 fine")
    logging.getLogger("websockets.server").error("it broke: %s", "\x1b]0;owned\x07\r\nfine")
    lines = capsys.readouterr().err.split("\n")
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)


def test_control_codes_in_a_traceback_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "text")
    try:
        raise ValueError("\x1b[2Jfine")
    except ValueError:
        structlog.get_logger("cairn.core").exception("failed")
    logged = capsys.readouterr().err
    assert "ValueError: \\x1b[2Jfine" in logged
    assert all(line.isprintable() for line in logged.split("\n"))
