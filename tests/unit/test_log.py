"""Log lines: ours and the libraries' alike, as text or as JSON, never with a variable's value in a traceback."""

import json
import logging
import os
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from cairn.domain.errors import Corrupt
from cairn.log import (
    ENDS,
    MOST_LIKE_IT,
    REPEAT_S,
    Repeats,
    configure_logging,
    is_journal,
    log_uncaught,
    print_fatal,
    tell_repeats,
)


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook
    yield
    logging.captureWarnings(False)
    sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
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
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[info ", line)


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


# JSON to the last byte.


def test_what_would_be_printed_as_it_is_becomes_json(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "json")
    log_uncaught()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(False)
        logging.captureWarnings(True)
        warnings.warn("it is old", stacklevel=1)
    failing = threading.Thread(target=lambda: int("no number"))
    failing.start()
    failing.join()
    sys.excepthook(KeyError, KeyError("lost"), None)
    print_fatal(Corrupt("block 7 is damaged"))
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["level"] for line in lines] == ["warning", "error", "critical", "critical"]
    assert "it is old" in lines[0]["event"]
    assert "no number" in lines[1]["exception"]
    assert "KeyError" in lines[2]["exception"]
    assert lines[3]["reason"] == "Corrupt: block 7 is damaged"


# Repeats.


class Told:
    """What a handler with a clock of its own writes."""

    def __init__(self) -> None:
        self.now = 100.0
        self.repeats = Repeats(lambda: self.now)
        self.lines: list[str] = []

    def say(self, text: str, level: int = logging.WARNING, **fields: object) -> None:
        event = {"event": text, **fields}
        record = logging.LogRecord("cairn.core", level, "", 0, event, None, None)
        self._write(self.repeats.take(record))

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self._write(self.repeats.due())

    def _write(self, records: Iterator[logging.LogRecord]) -> None:
        for record in records:
            assert isinstance(record.msg, dict)
            self.lines.append(" ".join(map(str, record.msg.values())))


def test_a_repeat_is_told_once_a_minute_with_its_count_and_the_latest_fields() -> None:
    told = Told()
    for second in range(150):
        told.say("the store is unavailable", height=second)
        told.wait(1.0)
    assert told.lines == [
        "the store is unavailable 0",
        "the store is unavailable 59 59",
        "the store is unavailable 119 60",
    ]
    told.wait(REPEAT_S)
    assert told.lines[3:] == ["the store is unavailable 149 30"]
    told.wait(REPEAT_S)
    told.say("the store is unavailable", height=1_000)
    assert told.lines[4:] == ["the store is unavailable 1000"]


def test_another_process_part_or_reason_is_no_repeat_but_another_number_in_it_is() -> None:
    told = Told()
    told.say("ended", process="cairn-core", reason="no block for 15 s")
    told.say("ended", process="cairn-api-0", reason="no block for 15 s")
    told.say("ended", process="cairn-core", reason="gone")
    told.say("ended", process="cairn-core", reason="no block for 16 s")
    assert len(told.lines) == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"peer": "node2"}, {"peer": "node3"}),
        ({"process": "cairn-api-0"}, {"process": "cairn-api-1"}),
        ({"validator": "node2"}, {"validator": "node3"}),
        ({"proposer": "node2"}, {"proposer": "node3"}),
        ({"added": ["node4"], "removed": []}, {"added": [], "removed": ["node3"]}),
        ({"missing": "not known"}, {"missing": ["node3"]}),
    ],
)
def test_names_that_differ_by_a_number_only_are_told_each(one: dict[str, Any], other: dict[str, Any]) -> None:
    told = Told()
    told.say("something happened", **one)
    told.say("something happened", **other)
    told.say("something happened", **one)
    assert len(told.lines) == 2


def test_of_many_reasons_some_are_told_and_the_others_counted_as_one() -> None:
    told = Told()
    for each in range(1_000):
        told.say("refused", reason="x" * each)
    assert len(told.lines) == MOST_LIKE_IT + 1
    told.wait(REPEAT_S)
    assert told.lines[-1].endswith(f" {1_000 - MOST_LIKE_IT - 1}")


def test_a_state_that_was_told_ends_with_a_line_at_once_however_often_it_ended_before() -> None:
    told = Told()
    told.say("the node is not ready", part="core", reason="it was killed")
    told.say("the node is ready again", was="core")
    told.wait(1.0)
    told.say("the node is not ready", part="core", reason="it is stopped")
    told.say("the node is ready again", was="core")
    assert told.lines[2:] == ["the node is not ready core it is stopped", "the node is ready again core"]


@pytest.mark.parametrize(("begins", "ends"), ENDS.items())
def test_after_changes_back_and_forth_the_latest_is_told_last(begins: str, ends: str) -> None:
    told = Told()
    for _ in range(3):
        for text in (begins, ends):
            told.say(text)
            told.wait(1.0)
    told.say(begins)
    assert told.lines == [begins, ends]
    told.wait(REPEAT_S)
    assert told.lines[2:] == [f"{ends} 2", f"{begins} 3"]
    told.say(ends)
    assert told.lines[4:] == [ends]


def test_a_state_that_has_ended_is_not_told_as_if_it_lasted() -> None:
    told = Told()
    for text in ("the node is not ready", "the node is ready again") * 3:
        told.say(text)
        told.wait(10.0)
    assert told.lines[2:] == ["the node is not ready 2", "the node is ready again 2"]


def test_what_is_held_back_is_told_at_the_end_of_the_process(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "json")
    for attempt in range(3):
        try:
            raise ValueError(attempt)
        except ValueError:
            structlog.get_logger("cairn.core").exception("a request failed")
    logging.getLogger("asyncio").error("it %s", "broke")
    logging.getLogger("asyncio").error("it %s", "broke")
    tell_repeats()
    assert len(capsys.readouterr().err.splitlines()) == 2
    tell_repeats(is_last=True)
    ours, theirs = map(json.loads, capsys.readouterr().err.splitlines())
    assert (ours["event"], ours["repeated"]) == ("a request failed", 2)
    assert theirs["event"] == "it broke (repeated 1 times)"


def test_every_debug_line_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("debug", "json")
    for _ in range(3):
        structlog.get_logger("cairn.core").debug("block")
    assert len(capsys.readouterr().err.splitlines()) == 3


# The journal.


def test_lines_begin_with_their_priority_only_where_the_journal_reads_them(tmp_path: Path) -> None:
    program = (
        "import structlog; from cairn.log import configure_logging; configure_logging('debug', 'text');"
        "log = structlog.get_logger('cairn.core'); log.debug('a'); log.info('b'); log.warning('c');"
        "log.error('d', stack='one\\ntwo'); log.critical('e')"
    )
    journal = tmp_path / "journal"
    with journal.open("w") as stream:
        found = os.fstat(stream.fileno())
        for name in (f"{found.st_dev}:{found.st_ino}", f"{found.st_dev}:{found.st_ino + 1}"):
            environment = os.environ | {"JOURNAL_STREAM": name}
            subprocess.run([sys.executable, "-c", program], stderr=stream, check=True, env=environment)
    lines = journal.read_text().splitlines()
    assert [line[:3] for line in lines[:7]] == ["<7>", "<6>", "<4>", "<3>", "<3>", "<3>", "<2>"]
    assert not any(line.startswith("<") for line in lines[7:])


def test_a_stream_without_a_file_is_no_journal(capsys: pytest.CaptureFixture[str]) -> None:
    assert not is_journal(sys.stderr)
