"""What people and scripts read, also through standard streams that are closed or non-blocking."""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from rich.text import Text

from cairn.cli.screen import (
    ago,
    data_text,
    escaped,
    has_colour,
    plain,
    print_json,
    print_line,
    print_lines,
    print_pairs,
    print_table,
    quoted,
    when,
)
from tests.support.pipes import fill_pipe


def test_a_table_aligns_its_columns_and_does_not_wrap(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    print_table(("name", "amount", "hash"), [("a", "1,000 wei", "0x" + "1" * 64), ("bob", "5 wei", "[red]")])
    assert capsys.readouterr().out == (
        f"name     amount  hash\na     1,000 wei  0x{'1' * 64}\nbob       5 wei  [red]\n"
    )


def test_a_table_without_rows_is_its_headings(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "address"), [])
    assert capsys.readouterr().out == "name  address\n"


def test_numbers_are_aligned_to_the_right_also_where_some_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("fee", "name"), [("1,000 wei", "a"), ("", "b"), ("5 wei", "c")])
    assert capsys.readouterr().out == "      fee  name\n1,000 wei  a\n           b\n    5 wei  c\n"


FORGED = "block 99 dev5 → dev1 1,000 coins"


@pytest.mark.parametrize(
    ("reference", "shown"),
    [
        ("invoice 4711", '"invoice 4711"'),
        ("Käse אב ✓", '"Käse אב ✓"'),
        ('say "no" \\u3164', r'"say \"no\" \\u3164"'),
        (f"ok{' ' * 54}{FORGED}", '"ok' + r"\u0020" * 54 + f'{FORGED}"'),
        (" a b ", r'"\u0020a b\u0020"'),
        (" ", r'"\u0020"'),
        ("a\u3164b\u115f\u1160\u034f", r'"a\u3164b\u115f\u1160\u034f"'),
        ("\u17b4\u17b5\u2800\ufe0f\uffa0", r'"\u17b4\u17b5\u2800\ufe0f\uffa0"'),
        ("a\U000e0100", r'"a\udb40\udd00"'),
        # A node that lies.
        ("\x1b[31m\n\u202e\xa0", r'"\u001b[31m\u000a\u202e\u00a0"'),
    ],
)
def test_a_reference_is_quoted_and_what_is_not_seen_in_it_is_escaped(reference: str, shown: str) -> None:
    assert data_text(reference, "0x61") == shown


def test_data_that_is_no_text_is_in_hex_without_quotes() -> None:
    assert (data_text(None, "0x1b"), data_text("0x1b", "0x30783162"), data_text(None, None)) == ("0x1b", '"0x1b"', "")


def test_the_values_of_pairs_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    print_pairs([("a", "1"), ("longer", Text("2", "red")), ("", "3")])
    assert capsys.readouterr().out == "a       1\nlonger  2\n        3\n"


def test_only_the_names_of_pairs_are_bold(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    print_pairs([("a", "1"), ("b", Text("2", "red"))])
    assert capsys.readouterr().out == "\x1b[1ma  \x1b[0m1\n\x1b[1mb  \x1b[0m\x1b[31m2\x1b[0m\n"


@pytest.mark.parametrize(
    ("variables", "is_coloured"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
)
def test_colour_is_for_terminals_and_can_be_refused(
    variables: dict[str, str], is_coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert has_colour() is is_coloured


def test_json_has_exact_integers_and_no_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"value": 2**256 - 1, "name": "größer"}
    print_json(value)
    out = capsys.readouterr().out
    assert out == f'{{"value":{2**256 - 1},"name":"größer"}}\n'
    assert json.loads(out) == value


HIDDEN = "a\x1b[2Jb\nc\x07\x7f\x9b\u202e\U000e0001\udc80 d"
ESCAPED = r"a\u001b[2Jb\u000ac\u0007\u007f\u009b\u202e\udb40\udc01\udc80 d"


def test_what_is_not_printable_is_escaped_in_every_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert (plain(HIDDEN).plain, escaped(HIDDEN), quoted(HIDDEN)) == (ESCAPED, ESCAPED, f'"{ESCAPED}"')
    print_line(HIDDEN)
    print_lines([HIDDEN, Text("b\x9b", "bold")])
    print_pairs([("a", HIDDEN)])
    print_table(("a",), [(HIDDEN,)])
    assert capsys.readouterr().out.split("\n") == [
        ESCAPED, ESCAPED, r"b\u009b", f"a  {ESCAPED}", "a", ESCAPED, "",
    ]  # fmt: skip


def test_json_with_escapes_means_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    every = "".join(map(chr, range(0x3000))) + HIDDEN
    print_json({"text": every, every: "größer"})
    out = capsys.readouterr().out
    assert out[:-1].isprintable()
    assert json.loads(out) == {"text": every, every: "größer"}


@pytest.mark.parametrize(
    ("passed_s", "text"),
    [
        (-5, "now"),
        (0, "now"),
        (1, "1 s ago"),
        (119, "119 s ago"),
        (120, "2 min ago"),
        (7_200, "2 h ago"),
        (172_800, "2 d ago"),
    ],
)
def test_an_age_is_in_seconds_minutes_hours_or_days(passed_s: int, text: str) -> None:
    assert ago(1_000_000, 1_000_000 + passed_s) == text


def test_a_moment_is_shown_in_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    try:
        assert when(1_735_689_600, 1_735_689_605) == "2025-01-01 02:00:00 +0200 (5 s ago)"
    finally:
        monkeypatch.undo()
        time.tzset()


CAIRN = (sys.executable, "-m", "cairn.cli")
NEXT_FILE = """
import os, sys
from cairn.cli.main import app
from tests.support.pipes import fill_pipe
app(["--version"], standalone_mode=False)
for stream in (sys.stdout, sys.stderr):
    print("\\udc80", file=stream, flush=True)
assert sys.stdin.read() == ""
sys.exit(os.open(os.devnull, os.O_RDONLY))
"""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_no_file_gets_the_number_of_a_closed_stream(closed: str) -> None:
    """What is printed would be written into it."""
    run = subprocess.run(
        ["sh", "-c", f'exec "$0" "$@" {closed}', sys.executable, "-c", NEXT_FILE],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": "utf-8:backslashreplace"},
        check=False,
    )
    assert run.returncode > 2, run.stderr


def test_output_waits_for_the_reader_of_a_non_blocking_pipe() -> None:
    args = (*CAIRN, "dev", "--help")
    expected = subprocess.run(args, capture_output=True, check=True).stdout
    reader, writer = os.pipe()
    filled = fill_pipe(writer)
    with subprocess.Popen(args, stdout=writer, stderr=subprocess.PIPE) as program:
        os.close(writer)
        assert program.stderr is not None
        # Nothing is read until it has had time to fail.
        with suppress(subprocess.TimeoutExpired):
            program.wait(1)
        with os.fdopen(reader, "rb") as output:
            assert output.read()[filled:] == expected
        assert program.stderr.read() == b""
    assert program.returncode == 0
